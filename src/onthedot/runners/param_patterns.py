"""Matches the values of text parameters with patterns: a small part of regular expressions, always quick. Pure.

A pattern may contain letters, digits and `_`, escaped characters, `.`, `\\d \\w \\s`, `[…]`, groups, `|`, and `* + ?
{n} {n,m}`. A pattern must match the whole value. The server matches on its event loop, and cannot interrupt a match. So
there is no backtracking: we follow all alternatives at once, as a set of positions in the value. Each atom of the
pattern takes one step per repetition. A repeated group may not contain repeats.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_PATTERN = 200
MOST_VALUE = 200
"""The most characters of a pattern, and of a value that must match one."""

_ATOM = re.compile(r"\\[dws]|\\[^\w\s]|\[\^?\]?(?:\\.|[^\]\\\[])*\]|[^\\\[\]()|*+?{}^$]", re.ASCII | re.DOTALL)
_SETS = re.compile(r"\[.*(?:--|&&|~~|\|\|)")
_REPEAT = re.compile(r"[*+?]|\{([0-9]{1,3})(?:,([0-9]{0,3}))?\}")
_HARMLESS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,=-")
_OTHERS = [chr(code) for code in range(128) if chr(code) not in _HARMLESS] + ["\u2028"]


class _Part(NamedTuple):
    """An atom or a group, and how often it may be repeated."""

    what: re.Pattern[str] | _Group
    least: int
    most: int


class _Group:
    """A group, or the whole pattern: branches, each of which is a row of parts."""

    def __init__(self) -> None:
        self.branches: list[list[_Part]] = [[]]
        self.repeats = False  # it contains a repeat, or a group within it does
        self.forks = False  # it contains a '|', or a group within it does


class _Read(NamedTuple):
    """A parsed pattern."""

    whole: _Group
    atoms: frozenset[str]
    first: tuple[str, ...] | None  # the atoms at the beginning of a value; None: unknown


def pattern_problem(pattern: str) -> str:
    """Return why a pattern cannot be used; empty if it can.

    >>> pattern_problem("v[0-9]+([.][0-9]+)?"), pattern_problem("(a+)+")
    ('', "a group that is repeated may not hold a repeat or '|'")
    """
    try:
        _read(pattern)
    except ValueError as error:
        return str(error)
    return ""


def matches(pattern: str, value: str) -> bool:
    """Return whether the whole value matches; never for a pattern that is not allowed.

    >>> matches("[a-z-]+", "eu-west"), matches("[a-z-]+", "eu west")
    (True, False)
    """
    if len(value) > MOST_VALUE or pattern_problem(pattern):
        return False
    return _Match(value).is_whole(_read(pattern).whole)


def is_harmless(pattern: str) -> bool:
    """Return whether no value that matches can be code: only letters, digits and `_ . / : @ % + , = -`, and no `-`
    first.

    >>> is_harmless("[a-z][a-z0-9-]*"), is_harmless("[a-z0-9-]+"), is_harmless(".+")
    (True, False, False)
    """
    try:
        read = _read(pattern)
    except ValueError:
        return False
    if read.first is None or any(re.fullmatch(atom, one) for atom in read.first for one in "-+"):
        return False
    return not any(re.fullmatch(atom, one, re.ASCII | re.DOTALL) for atom in read.atoms for one in _OTHERS)


class _Match:
    """Matches one value. A set of positions in the value is a number: bit `n` is the position before character `n`. So
    each position is followed once, however many alternatives lead to it."""

    def __init__(self, value: str) -> None:
        self.steps = 0
        self._value = value
        self._places: dict[re.Pattern[str], int] = {}  # the positions at which each atom matches

    def is_whole(self, group: _Group) -> bool:
        return bool(self._through(group, 1) >> len(self._value) & 1)

    def _through(self, group: _Group, places: int) -> int:
        """Return the positions after the group, if the group begins at `places`."""
        behind = 0
        for branch in group.branches:
            reached = places
            for part in branch:
                reached = self._repeated(part, reached)
            behind |= reached
        return behind

    def _repeated(self, part: _Part, places: int) -> int:
        count = 0
        while places and count < part.least:
            places, count = self._once(part.what, places), count + 1
        found = places
        while places and count < part.most:
            places, count = self._once(part.what, places) & ~found, count + 1
            found |= places
        return found

    def _once(self, what: re.Pattern[str] | _Group, places: int) -> int:
        self.steps += 1
        if isinstance(what, _Group):
            return self._through(what, places)
        if what not in self._places:
            self._places[what] = sum(1 << found.start() for found in what.finditer(self._value))
        return (places & self._places[what]) << 1


@lru_cache(maxsize=256)
def _read(pattern: str) -> _Read:
    """Parse a pattern. Raise `ValueError` with the reason if it is not allowed."""
    if not pattern or len(pattern) > MOST_PATTERN:
        raise ValueError(f"from 1 to {MOST_PATTERN} characters are allowed")
    text = pattern.removeprefix("^")
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1]
    at = 0
    groups, atoms = [_Group()], set[str]()
    while at < len(text):
        piece, at = _piece(text, at, groups)
        if isinstance(piece, re.Pattern):
            atoms.add(piece.pattern)
        repeat = _REPEAT.match(text, at)
        if repeat is not None:
            if piece is None:
                raise ValueError(f"{repeat[0]!r} repeats nothing")
            if isinstance(piece, _Group) and _most(repeat) > 1 and (piece.repeats or piece.forks):
                raise ValueError("a group that is repeated may not hold a repeat or '|'")
            at, groups[-1].repeats = repeat.end(), True
        if piece is not None:
            least, most = (1, 1) if repeat is None else (_least(repeat), _most(repeat))
            groups[-1].branches[-1].append(_Part(piece, least, most))
    if len(groups) > 1:
        raise ValueError("a group is not closed")
    _compiled(pattern)
    return _Read(groups[0], frozenset(atoms), _first(text))


def _piece(text: str, at: int, groups: list[_Group]) -> tuple[re.Pattern[str] | _Group | None, int]:
    """Return the atom at this place, or the group that ends there, and where the next piece begins."""
    if text[at] == "(":
        groups.append(_Group())
        return None, at + (3 if text.startswith("(?:", at) else 1)
    if text[at] == ")":
        if len(groups) == 1:
            raise ValueError("')' closes nothing")
        closed = groups.pop()
        groups[-1].repeats |= closed.repeats
        groups[-1].forks |= closed.forks
        return closed, at + 1
    if text[at] == "|":
        groups[-1].branches.append([])
        groups[-1].forks = True
        return None, at + 1
    atom = _ATOM.match(text, at)
    if atom is None:
        raise ValueError(f"{text[at : at + 2]!r} is not allowed here")
    if _SETS.search(atom[0]):
        raise ValueError(f"{atom[0]!r} has a pair of characters that may get another meaning; escape one")
    return _compiled(atom[0]), atom.end()


def _least(repeat: re.Match[str]) -> int:
    if repeat[1] is None:
        return 1 if repeat[0] == "+" else 0
    return int(repeat[1])


def _most(repeat: re.Match[str]) -> int:
    if repeat[0] == "?":
        return 1
    if repeat[1] is None or repeat[2] == "":
        return MOST_VALUE
    return int(repeat[1] if repeat[2] is None else repeat[2])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from None


def _first(text: str) -> tuple[str, ...] | None:
    """Return the atom that every value begins with; None if there is no such atom."""
    if "|" in text:
        return None
    atom = _ATOM.match(text)
    if atom is None:
        return None
    repeat = _REPEAT.match(text, atom.end())
    return None if repeat is not None and _least(repeat) == 0 else (atom[0],)
