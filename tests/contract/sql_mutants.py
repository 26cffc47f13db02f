"""`planted`: plants a mistake (a mutant) in the shared SQL store, and removes it again.

The mutants are in `sql_plan_mutants.py`, `sql_run_mutants.py` and `sql_upkeep_mutants.py`, by the operation of
`SqlStore`. A new operation needs at least one: leave out a condition, compare wrongly, or forget to write, clear or
hint something. `make unit` plants the first one of each operation, and `make test` all of them.

A mutant names a statement or a function of `onthedot.stores.sql`, a piece of its text, and another text for it. The
piece must exist: a mutant that no longer fits is an error. Statements are written as in the source (`id {in1}`, `$2`),
on one line. The SQLite text of a statement changes. A function changes everywhere, also where it is imported.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

from onthedot.stores.sql.port import Statement, sql


@dataclass(frozen=True)
class Mutant:
    """A mistake in the shared SQL store, and the check of the contract that finds it.

    `target` is a module of `onthedot.stores.sql` and a name in it: `reserve.RELEASE`, `arm.Known.is_full`.
    """

    target: str
    old: str
    new: str
    check: str = ""

    def __str__(self) -> str:
        return f"{self.target}: {self.old!r} → {self.new!r}"


class DoesNotFit(Exception):
    """The code that a mutant changes does not exist any more."""


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Inside, the store has the mistake. Raises `DoesNotFit` if the target or the piece of its text does not exist."""
    target = _find(mutant)
    if isinstance(target, Statement):
        kept = target.sqlite
        mutated = _mutated(mutant, _on_one_line(kept), *(_as_sqlite(text) for text in (mutant.old, mutant.new)))
        object.__setattr__(target, "sqlite", mutated)  # the dataclass is frozen
        try:
            yield
        finally:
            object.__setattr__(target, "sqlite", kept)
    elif isinstance(target, FunctionType):
        code = target.__code__
        target.__code__ = _code_of(mutant, target)
        try:
            yield
        finally:
            target.__code__ = code
    else:
        raise DoesNotFit(f"{mutant}: expected a statement or a function, found {type(target).__name__}")


def _find(mutant: Mutant) -> Any:
    module, _, path = mutant.target.partition(".")
    found: Any = import_module(f"onthedot.stores.sql.{module}")
    for name in path.split("."):
        try:
            found = found[int(name)] if name.isdigit() else getattr(found, name)
        except (AttributeError, IndexError) as error:
            raise DoesNotFit(f"{mutant}: {found} has no {name}; name its replacement") from error
    return found


def _mutated(mutant: Mutant, text: str, old: str, new: str) -> str:
    if old not in text:
        raise DoesNotFit(
            f"{mutant}: this piece of text does not exist; plant the same mistake in the new text:\n{text}"
        )
    return text.replace(old, new)


def _as_sqlite(text: str) -> str:
    return _on_one_line(sql(f"|{text}|").sqlite)[1:-1]


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _code_of(mutant: Mutant, function: FunctionType) -> Any:
    source = _mutated(mutant, textwrap.dedent(inspect.getsource(function)), mutant.old, mutant.new)
    names = dict(function.__globals__)
    exec(compile(f"from __future__ import annotations\n{source}", f"<{mutant.target}>", "exec"), names)  # noqa: S102
    return names[function.__name__].__code__
