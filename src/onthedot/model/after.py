"""Decides about dependencies: a job runs **after** other jobs, its parents. Pure, and the same in every store.

A parent is named within the job's namespace. It need not exist yet, and may be deleted and defined again, because only
the name counts. For each parent, the store keeps the newest run that counts. These runs are the job's *set*. When a run
ends and completes the set, the same write inserts the job's own run and clears the set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from onthedot.model.errors import DefinitionError, DependencyCycle

On = Literal["success", "failure", "either"]

_FAILED = frozenset({"dead", "lost"})
COUNTS: dict[On, frozenset[str]] = {
    "success": frozenset({"succeeded"}),
    "failure": _FAILED,
    "either": _FAILED | {"succeeded"},
}
"""The states in which the run of a parent counts. Cancelled and skipped runs never count."""

COUNTING = COUNTS["either"]
"""The states in which a run counts for at least one condition."""


@dataclass(frozen=True, slots=True, init=False)
class After:
    """Runs a job after other jobs, its parents: when each parent has had a run that counts.

    With `any`, the job runs after every run of a parent that counts. `on` decides which runs count: "success"
    (succeeded), "failure" (dead or lost), or "either" of these.

    >>> After("load", "clean").parents
    ('clean', 'load')
    """

    parents: tuple[str, ...]  # in the order of their names: another order means the same
    any: bool
    on: On

    def __init__(self, *parents: str, any: bool = False, on: On = "success") -> None:
        if not parents or not all(isinstance(parent, str) for parent in parents):
            raise DefinitionError(f"after: expected the names of one or more jobs, got {list(parents)!r}")
        if len(set(parents)) < len(parents):
            raise DefinitionError(f"after: expected each job to be named once, got {', '.join(parents)}")
        if on not in get_args(On):
            raise DefinitionError(f"after.on: expected one of {', '.join(map(repr, get_args(On)))}, got {on!r}")
        if not isinstance(any, bool):
            raise DefinitionError(f"after.any: expected True or False, got {any!r}")
        object.__setattr__(self, "parents", tuple(sorted(parents)))
        object.__setattr__(self, "any", any)
        object.__setattr__(self, "on", on)

    def __str__(self) -> str:
        """
        >>> print(After("a", "b")), print(After("a", "b", any=True, on="failure")), print(After("a", on="either"))
        after a, b
        after any of a, b, if it fails
        after a, whether it succeeds or fails
        (None, None, None)
        """
        some = "any of " if self.any and len(self.parents) > 1 else ""
        one = "it fails" if some or len(self.parents) == 1 else "they fail"
        either = "it succeeds or fails" if some or len(self.parents) == 1 else "they succeed or fail"
        condition = {"success": "", "failure": f", if {one}", "either": f", whether {either}"}[self.on]
        return f"after {some}{', '.join(self.parents)}{condition}"


def check_cycle(name: str, after: After | None, parents_of: Callable[[str], Iterable[str]]) -> None:
    """Raise `DependencyCycle` if this job would run after itself, directly or through other jobs.

    >>> check_cycle("a", After("c"), {"c": ["b"], "b": ["a"]}.get)
    Traceback (most recent call last):
        ...
    onthedot.model.errors.DependencyCycle: job 'a': after: expected no job to run after itself, got a → b → c → a; \
remove one of these arrows
    """
    if after is None:
        return
    child_of: dict[str, str] = dict.fromkeys(after.parents, name)  # from whom it was come upon: the shortest way first
    ahead = deque(after.parents)
    while ahead:
        found = ahead.popleft()
        if found == name:
            cycle = [name]
            while len(cycle) == 1 or cycle[-1] != name:
                cycle.append(child_of[cycle[-1]])
            raise cycle_error(cycle)
        for parent in parents_of(found) or ():
            if parent not in child_of:
                child_of[parent] = found
                ahead.append(parent)


def cycle_error(cycle: Sequence[str]) -> DependencyCycle:
    """Return the error for a cycle: its jobs in the order in which they would run, the first one again at the end."""
    problem = f"after: expected no job to run after itself, got {' → '.join(cycle)}; remove one of these arrows"
    return DependencyCycle(problem, subject=f"job {cycle[0]!r}")
