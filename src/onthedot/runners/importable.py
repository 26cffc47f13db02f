"""Finds the module and the name by which another process can import a handler.

The path comes from the function that this program has registered. It is never read from a store, from arguments or from
anything else that comes from outside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from onthedot.model.errors import DefinitionError

MAIN = "__main__"
HANDLER = "_otd_handler"


class Importable(NamedTuple):
    """A function that can be found by name: `getattr(import_module(module), name)`."""

    module: str
    name: str


def importable(function: Callable[..., Any]) -> Importable:
    """The path by which a child process can import this function. `DefinitionError` if there is none.

    >>> importable(importable)
    Importable(module='onthedot.runners.importable', name='importable')
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or hasattr(function, "__self__"):
        raise _refused(f"{type(function).__name__} object, which has no name in a module")
    if "<lambda>" in name:
        raise _refused("a lambda, which has no name")
    if "<locals>" in name:
        raise _refused(f"{name}, which is local to another function")
    if module == MAIN:
        _check_main(name)
    return Importable(module, name)


def main_module() -> dict[str, str]:
    """How a child process imports this program's main module, as `multiprocessing` does; empty if it cannot."""
    main = sys.modules[MAIN]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {} if name.rpartition(".")[2] == MAIN else {"name": name}
    path = getattr(main, "__file__", None)
    return {"path": path} if isinstance(path, str) and not path.startswith("<") else {}


def is_found(function: Callable[..., Any], at: Importable) -> bool:
    """Whether that name leads to this function, now that its module is loaded."""
    found: Any = sys.modules.get(at.module)
    for part in at.name.split("."):
        found = getattr(found, part, None)
    return handler_in(found) is function


def handler_in(found: Any) -> Any:
    """The function itself, where a decorator has left something else under its name that still knows it."""
    return getattr(found, HANDLER, found)


def _check_main(name: str) -> None:
    if not main_module():
        raise _refused(f"{name} of a program that is no file (a prompt, python -c, or a package's __main__.py)")


def _refused(what: str) -> DefinitionError:
    return DefinitionError(
        f"isolation: expected a function that a child process can import, got {what}; "
        "define it with 'def' at the top level of a module"
    )
