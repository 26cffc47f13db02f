"""The error for text that cannot be jobs: problems with their places in a file or in plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from onthedot.model.errors import DefinitionError

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
    """The text cannot be jobs. `told` has every problem with its place, `problems` the same as lines.

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
