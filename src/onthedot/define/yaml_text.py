"""Reads YAML 1.2 and plain data as nodes that know their place, and writes plain data as YAML.

`read_nodes` makes nodes of a text, `plain_nodes` of what JSON gives, and `yaml_text` writes a text that reads back as
the same data. A place in a text is a line and a column (`jobs.yaml:12:5: …`); a place in plain data is a path.

YAML is not constructed: no tags, no merge keys, no timestamps. Values follow YAML's core schema, so `on` and `yes` are
texts. Size, depth and number of nodes are limited, and aliases count in full. A key may appear only once. Plain data
keeps its types: a number is no text, and `"3"` is no number.

Written texts of several lines are blocks, short lists are on one line. A text has no quotes only if no reader of YAML
1.1 or 1.2 could take it for something else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.model.errors import shown as brief

# ── problems and their places ──────────────────────────────────────────────────────────────────────────────────

_KEY = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): ")


class Place(NamedTuple):
    """A place: line and column from 1. Plain data has a path instead; its line is the order in which it is read."""

    line: int
    column: int
    path: str = ""


class Problem(NamedTuple):
    """One problem and its place. `file` is empty for plain data."""

    file: str
    at: Place | None
    problem: str

    def __str__(self) -> str:
        if self.file:
            where = self.file if self.at is None else f"{self.file}:{self.at.line}:{self.at.column}"
        else:
            where = "" if self.at is None else self.at.path
        return f"{where}: {self.problem}" if where else self.problem


class WrongText(DefinitionError):
    """A text that cannot become jobs. `told` has every problem with its place, `problems` the same as lines.

    >>> WrongText([Problem("jobs.yaml", Place(3, 5), "name: expected a text")]).problems
    ['jobs.yaml:3:5: name: expected a text']
    """

    def __init__(self, told: Iterable[Problem]) -> None:
        self.told = tuple(dict.fromkeys(told))
        super().__init__([str(one) for one in self.told])


def in_data(at: Place, problem: str) -> Problem:
    """The problem at its path. The message does not repeat the path.

    >>> in_data(Place(1, 0, "steps[0].timeout"), "timeout: expected a length of time")
    Problem(file='', at=Place(line=1, column=0, path='steps[0].timeout'), problem='expected a length of time')
    >>> in_data(Place(1, 0, "schedules[0].cron"), "schedule: minute: expected 0-59").problem
    'minute: expected 0-59'
    """
    key = _KEY.match(problem)
    if key is None:
        return Problem("", at, problem)
    if at.path.endswith(f".{key[1]}") or key[1] in (at.path, *_parts(at.path)):
        return in_data(at, problem[key.end() :])
    if not at.path:  # of what is not there at all
        return Problem("", at._replace(path=key[1]), problem[key.end() :])
    return Problem("", at, problem)


def _parts(path: str) -> list[str]:
    """The names in a path. For a list's item also the list's name without its `s`.

    >>> _parts("schedules[0].cron")
    ['schedules', 'schedule', 'cron']
    """
    found: list[str] = []
    for part in path.split("."):
        name, item, _ = part.partition("[")
        found += [name, name.removesuffix("s")] if item and name.endswith("s") else [name]
    return found


def has_surrogate(text: str) -> bool:
    """Whether a text has half a character in it (a lone surrogate), which no store can keep.

    >>> has_surrogate("\\ud83d"), has_surrogate("😀")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# ── nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────

MOST_CHARACTERS = 1 << 20
MOST_NODES = 50_000
MOST_DEPTH = 20


class Limits(NamedTuple):
    """The limits of YAML that is read. A value costs some 50 µs."""

    characters: int = MOST_CHARACTERS
    nodes: int = MOST_NODES


OF_FILES = Limits()
OF_STRANGERS = Limits(characters=1 << 18, nodes=10_000)
"""For text from a network: read, or refused, within a second."""

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TEXT = "tag:yaml.org,2002:str"
_LONGEST_STEP = 100  # characters of a key, in the path of a message
_MOST_BITS = 4_096  # Python refuses to show longer ones


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place: a scalar with its text, a list of nodes, or a mapping of names to nodes."""

    at: Place
    text: str | None = None
    quoted: bool = False
    items: list[Node] | None = None
    names: dict[str, Node] | None = None
    places: dict[str, Place] = field(default_factory=dict)  # of the names
    size: int = 1  # with everything in it
    depth: int = 1

    @property
    def value(self) -> Any:
        """The plain data."""
        if self.items is not None:
            return [item.value for item in self.items]
        if self.names is not None:
            return {name: node.value for name, node in self.names.items()}
        text = self.text or ""
        return text if self.quoted else _scalar_value(text)


def _scalar_value(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return bool(_TRUE.fullmatch(text))
    if len(text) >= 100:  # no number that anybody means; and Python refuses to show some of them
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    return float(text) if _NUMBER.fullmatch(text) else text


class NodeError(Exception):
    """A node cannot be read. `problems` has every reason with its place."""

    def __init__(self, at: Place, problem: str, *more: tuple[Place, str]) -> None:
        super().__init__(problem)
        self.problems = [(at, problem), *more]


def check_names(node: Node, allowed: tuple[str, ...], may_be_null: tuple[str, ...] = ()) -> Iterator[tuple[Place, str]]:
    """A problem for each unknown name, and for each name without a value."""
    for name, at in node.places.items():
        if name not in allowed:
            yield at, f"unknown key {brief(name)}{did_you_mean(name, allowed)}"
        elif name not in may_be_null and is_null((node.names or {})[name]):
            yield at, f"{name}: expected a value, got nothing; leave it out"


def is_null(node: Node) -> bool:
    """Whether the value is missing or `null`."""
    return node.items is None and node.names is None and node.value is None


def named_values(node: Node, allowed: tuple[str, ...], may_be_null: tuple[str, ...] = ()) -> dict[str, Any]:
    """The plain data of a mapping with these names; `NodeError` with every unknown one."""
    if node.names is None:
        raise NodeError(node.at, f"expected names with their values, got {shown(node)}")
    raise_all(list(check_names(node, allowed, may_be_null)))
    value: dict[str, Any] = node.value
    return value


def raise_all(found: list[tuple[Place, str]]) -> None:
    """`NodeError` with all of them, if there is one."""
    if found:
        raise NodeError(*found[0], *found[1:])


def shown(node: Node) -> str:
    """The value as a message quotes it."""
    if node.items is not None:
        return "a list"
    if node.names is not None:
        return "a mapping"
    return repr(node.value if node.text is None else node.text[:60])


def inner_place(node: Node, names: str) -> Place:
    """The place of `retry.delay`, or of the part of it that exists."""
    for name in names.split("."):
        if name not in (node.names or {}):
            break
        node = (node.names or {})[name]
    return node.at


# ── reading YAML ────────────────────────────────────────────────────────────────────────────────────────────────


def read_nodes(text: str, file: str, limits: Limits = OF_FILES) -> Node:
    """The one document of a text; `WrongText` with its place if it cannot be read."""
    from ruamel.yaml import YAML  # loaded only where a file is read
    from ruamel.yaml.error import YAMLError

    if len(text) > limits.characters:
        raise WrongText([Problem(file, None, f"expected at most {limits.characters} characters, got {len(text)}")])
    try:
        return _Builder(file, limits.nodes).build(YAML(typ="safe", pure=True).parse(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = Place(mark.line + 1, mark.column + 1) if mark is not None else None
        said = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise WrongText([Problem(file, at, f"expected YAML, which this is not: {said}")]) from None


class _Builder:
    """Nodes from events, without recursion."""

    def __init__(self, file: str, most: int) -> None:
        self._file = file
        self._most = most
        self._open: list[Node] = []
        self._keys: list[tuple[str, Place] | None] = []  # of each open node: the name whose value comes next
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._documents = 0

    def build(self, events: Iterator[Any]) -> Node:
        for event in events:
            self._take(event, type(event).__name__)
        if self._root is None:
            raise WrongText([Problem(self._file, None, "expected YAML with jobs in it, got nothing")])
        return self._root

    def _take(self, event: Any, kind: str) -> None:
        at = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        match kind:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    self._refuse(at, "expected one document, got a second one; use a file for each")
            case "AliasEvent":
                known = self._anchors.get(event.anchor)
                if known is None or any(known is node for node in self._open):
                    self._refuse(at, f"expected an anchor &{event.anchor} before and outside of *{event.anchor}")
                else:
                    self._put(known)
            case "ScalarEvent":
                quoted = event.style is not None or event.tag == _TEXT
                node = Node(at, event.value, quoted)
                self._check(at, event)
                if has_surrogate(event.value):
                    self._refuse(at, "expected text that can be stored, got half a character (a lone surrogate)")
                self._name(node, event)
                self._put(node)
            case "SequenceStartEvent" | "MappingStartEvent":
                node = Node(at, items=[]) if kind == "SequenceStartEvent" else Node(at, names={})
                self._begin(node, event)
            case "SequenceEndEvent" | "MappingEndEvent":
                node = self._open.pop()
                self._keys.pop()
                self._put(node)
            case _:
                pass

    def _begin(self, node: Node, event: Any) -> None:
        self._check(node.at, event)
        if len(self._open) >= MOST_DEPTH:
            self._refuse(node.at, f"expected at most {MOST_DEPTH} levels, got more")
        if self._open and self._open[-1].names is not None and self._keys[-1] is None:
            self._refuse(node.at, "expected a text as a key")
        self._name(node, event)
        self._open.append(node)
        self._keys.append(None)

    def _name(self, node: Node, event: Any) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _check(self, at: Place, event: Any) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) not in (_TEXT, "!"):
            self._refuse(at, f"expected a plain value, got one with the tag {str(tag)!r}; leave the tag out")

    def _put(self, node: Node) -> None:
        """Add a complete node to the one that contains it."""
        if not self._open:
            self._root = node
            return
        outer = self._open[-1]
        outer.size += node.size
        outer.depth = max(outer.depth, node.depth + 1)
        if outer.depth > MOST_DEPTH:
            self._refuse(node.at, f"expected at most {MOST_DEPTH} levels, got more")
        if outer.size > self._most:  # before anybody walks through it
            self._refuse(node.at, f"expected at most {self._most} values, got more; aliases count in full")
        if outer.items is not None:
            outer.items.append(node)
        elif outer.names is not None:
            self._put_name(outer, outer.names, node)

    def _put_name(self, outer: Node, names: dict[str, Node], node: Node) -> None:
        key = self._keys[-1]
        if key is not None:
            names[key[0]] = node
            outer.places[key[0]] = key[1]
            self._keys[-1] = None
            return
        if node.text is None:
            self._refuse(node.at, "expected a text as a key")
        name = node.text or ""
        if name in names:
            first = outer.places[name]
            self._refuse(node.at, f"expected each key once, got {name!r} again; it is in line {first[0]} already")
        if name == "<<" and not node.quoted:
            self._refuse(node.at, "expected no merge keys, got '<<'; YAML 1.2 has none")
        self._keys[-1] = (name, node.at)

    def _refuse(self, at: Place, problem: str) -> None:
        raise WrongText([Problem(self._file, at, problem)])


# ── reading plain data ──────────────────────────────────────────────────────────────────────────────────────────


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
    return _PlainNodes().node(data, path, 1)


class _PlainNodes:
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
                raise _wrong(at, f"expected a text as a key, got {brief(name)}")
            inner = f"{at.path}.{name[:_LONGEST_STEP]}" if at.path else name[:_LONGEST_STEP]
            names[name] = self.node(value, inner, depth + 1)
            node.places[name] = names[name].at
        node.names = names
        return node


def _wrong(at: Place, problem: str) -> WrongText:
    return WrongText([Problem("", at, problem)])


# ── writing YAML ───────────────────────────────────────────────────────────────────────────────────────────────

_BARE = re.compile(r"[A-Za-z_/.][A-Za-z0-9_./@+=-]*(?: [A-Za-z0-9_./@+=-]+)*")
_NOT_BARE = re.compile(
    r"null|true|false|yes|no|on|off|y|n|\.inf|\.nan|[.+-]?[0-9._]*(?:e[+-]?[0-9]+)?|\.*|-.*", re.IGNORECASE
)
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_WIDTH = 100
_LONGEST_KEY = 500  # beyond some 1,000 characters YAML wants a mark in front of a key


def yaml_text(data: Any) -> str:
    """The text, with a line break at its end.

    >>> print(yaml_text({"jobs": [{"name": "a", "argv": ["ls", "-l"], "run": "one\\ntwo\\n"}]}), end="")
    jobs:
      - name: a
        argv: [ls, "-l"]
        run: |
          one
          two
    """
    return "\n".join(_lines(data)) + "\n"


def _lines(value: Any) -> list[str]:
    """The lines of a value that begins on its own line."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _entry(str(key), inner)]
    if isinstance(value, list) and value and _flow(value) is None:
        return [line for inner in value for line in _item(inner)]
    return [_flow(value) or _quoted(value)]


def _entry(key: str, value: Any) -> Iterator[str]:
    if len(key) > _LONGEST_KEY:
        yield f"? {_quoted(key)}"
        name = ""
    else:
        name = key if _BARE_KEY.fullmatch(key) and key.lower() not in ("null", "true", "false") else _quoted(key)
    block = _block(value)
    if block is not None:
        yield f"{name}: {block[0]}"
        yield from (f"  {line}" if line else "" for line in block[1:])
        return
    flow = _flow(value)
    if flow is not None:
        yield f"{name}: {flow}"
        return
    yield f"{name}:"
    yield from (f"  {line}" if line else "" for line in _lines(value))


def _item(value: Any) -> Iterator[str]:
    block = _block(value)
    first, *rest = block if block is not None else _lines(value)
    yield f"- {first}"
    yield from (f"  {line}" if line else "" for line in rest)


def _block(value: Any) -> list[str] | None:
    """A text of several lines as a block; None if YAML would change it."""
    if not isinstance(value, str) or ("\n" not in value.rstrip("\n") and not value.endswith("\n")):
        return None
    body, ending = (value[:-1], "|") if value.endswith("\n") else (value, "|-")
    lines = body.split("\n")
    plain = all(line.replace("\t", "").isprintable() for line in lines)
    if (
        not plain
        or not lines[-1]
        or lines[0][:1] in ("", " ", "\t")
        or any(line and not line.strip() for line in lines)
    ):
        return None
    return [ending, *(f"{line}" for line in lines)]


def _flow(value: Any) -> str | None:
    """A value on one line; None if it does not fit."""
    if isinstance(value, dict):
        if not value:
            return "{}"
        if any((isinstance(inner, dict | list) and inner) or len(key) > 100 for key, inner in value.items()):
            return None
        text = "{" + ", ".join(f"{_flow_key(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
        return text if len(text) <= _WIDTH and len(value) <= 4 and "name" not in value else None
    if isinstance(value, list):
        inner = [_flow(item) for item in value]
        if any(item is None or isinstance(one, dict) for item, one in zip(inner, value, strict=True)):
            return None
        text = f"[{', '.join(map(str, inner))}]"
        return text if len(text) <= _WIDTH else None
    return _scalar(value)


def _flow_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) and not _NOT_BARE.fullmatch(key) else _quoted(key)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if len(value) <= 500 and _BARE.fullmatch(value) and not _NOT_BARE.fullmatch(value):
        return value
    return _quoted(value)


def _quoted(value: Any) -> str:
    """JSON is YAML, except for characters that YAML does not allow as they are."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
