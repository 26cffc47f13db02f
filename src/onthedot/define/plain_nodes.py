"""Plain data (what JSON gives) as the nodes that YAML gives, so that one reader reads both. A place is a path.

Types are taken as they are: a number is no text, and `"3"` is no number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from onthedot.define.places import Place, Told, WrongText, has_surrogate
from onthedot.define.yaml_nodes import MOST_DEPTH, MOST_NODES, Node
from onthedot.model.errors import shown

_MOST_BITS = 4_096  # Python refuses to show longer ones


@dataclass(slots=True, eq=False)
class Scalar(Node):
    """A number, true, false or null."""

    data: Any = None

    @property
    def value(self) -> Any:
        """The plain data."""
        return self.data


def plain_nodes(data: object, path: str = "") -> Node:
    """The nodes of plain data; `WrongText` if it is too deep or too much, or is no plain data.

    >>> plain_nodes({"steps": [{"run": "make"}]}).names["steps"].items[0].names["run"].at.path
    'steps[0].run'
    """
    return _Reading().node(data, path, 1)


_LONGEST_STEP = 100  # characters of a key, in the path of a message


class _Reading:
    def __init__(self) -> None:
        self._count = 0

    def node(self, data: object, path: str, depth: int) -> Node:
        self._count += 1
        at = Place(self._count, 0, path)
        if self._count > MOST_NODES:
            raise _wrong(at, f"expected at most {MOST_NODES} values, got more")
        if depth > MOST_DEPTH + 1:
            raise _wrong(at, f"expected at most {MOST_DEPTH} levels, got more")
        match data:
            case str():
                if has_surrogate(data):
                    raise _wrong(at, "expected text that can be stored, got half a character (a lone surrogate)")
                return Node(at, data, quoted=True)
            case dict():
                return self._mapping(data, at, depth)
            case list() | tuple():
                items = [self.node(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(data)]
                return Node(at, items=items)
            case int() if data.bit_length() > _MOST_BITS:
                raise _wrong(at, f"expected a number of at most {_MOST_BITS} bits, got one of {data.bit_length()}")
            case None | bool() | int():
                return Scalar(at, data=data)
            case float() if math.isfinite(data):
                return Scalar(at, data=data)
            case _:
                raise _wrong(at, f"expected plain data as in JSON, got {type(data).__name__}")

    def _mapping(self, data: dict[Any, Any], at: Place, depth: int) -> Node:
        node = Node(at, names={}, places={})
        names: dict[str, Node] = {}
        for name, value in data.items():
            if not isinstance(name, str) or has_surrogate(name):
                raise _wrong(at, f"expected a text as a key, got {shown(name)}")
            inner = f"{at.path}.{name[:_LONGEST_STEP]}" if at.path else name[:_LONGEST_STEP]
            names[name] = self.node(value, inner, depth + 1)
            node.places[name] = names[name].at
        node.names = names
        return node


def _wrong(at: Place, problem: str) -> WrongText:
    return WrongText([Told("", at, problem)])
