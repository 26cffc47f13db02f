"""Lists the public names: exported classes and functions with their public methods and properties."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

MODULES = (
    "onthedot",
    "onthedot.testing",
    "onthedot_verify.checker",
    "onthedot_verify.contract",
    "onthedot_verify.simulation",
)

PROPERTIES = (property, cached_property)


class Public(NamedTuple):
    """A public name: its path and its value."""

    path: str
    value: Any

    @property
    def doc(self) -> str:
        if inspect.isclass(self.value):
            return inspect.cleandoc(self.value.__doc__ or "")  # not the inherited one
        return inspect.getdoc(self.value) or ""


def public_names() -> list[Public]:
    """Every exported name with its public methods and properties, by path."""
    found: dict[str, Public] = {}
    for module in MODULES:
        exported = importlib.import_module(module)
        for name in exported.__all__:
            for public in _with_members(f"{module}.{name}", getattr(exported, name)):
                found[public.path] = public
    return [found[path] for path in sorted(found)]


def _with_members(path: str, value: Any) -> Iterator[Public]:
    if not callable(value):
        return  # a table of data: it has no docstring of its own
    yield Public(path, value)
    if inspect.isclass(value) and not issubclass(value, Enum):
        for name, member in inspect.getmembers(value):
            if not name.startswith("_") and _is_ours(value, name) and _is_member(member):
                yield Public(f"{path}.{name}", member)


def _is_member(member: Any) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, PROPERTIES)


def _is_ours(owner: type, name: str) -> bool:
    """Whether the member is defined in our code. `int.bit_length` needs no docstring of ours."""
    home = next(cls for cls in owner.__mro__ if name in cls.__dict__)
    return home.__module__.startswith(("onthedot.", "onthedot_verify."))
