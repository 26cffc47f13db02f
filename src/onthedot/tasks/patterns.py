"""Patterns for the values of text parameters: a small part of regular expressions that is quick on every value. Pure.

Letters, digits and `_`, escaped characters, `.`, `\\d \\w \\s`, `[…]`, groups, `|`, and `* + ? {n} {n,m}`. A pattern is
always matched against the whole value. The server checks values on its event loop, and nobody can stop a match: so
what could take long is refused when the job is defined.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_PATTERN = 200
MOST_VALUE = 200
"""Characters of a pattern, and of a value that has to match one."""

_MOST_WAYS = 10_000_000  # ways to match one value: about 0.1 s in the worst case
_ATOM = re.compile(r"\\[dws]|\\[^\w\s]|\[\^?\]?(?:\\.|[^\]\\\[])*\]|[^\\\[\]()|*+?{}^$]", re.ASCII | re.DOTALL)
_SETS = re.compile(r"\[.*(?:--|&&|~~|\|\|)")
_REPEAT = re.compile(r"[*+?]|\{([0-9]{1,3})(?:,([0-9]{0,3}))?\}")
_HARMLESS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,=-")
_OTHERS = [chr(code) for code in range(128) if chr(code) not in _HARMLESS] + ["\u2028"]


class _Read(NamedTuple):
    """What a pattern is made of."""

    atoms: frozenset[str]
    first: tuple[str, ...] | None  # the atoms that a value begins with; None: not known


def pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used; empty if it can.

    >>> pattern_problem("v[0-9]+([.][0-9]+)?"), pattern_problem("(a+)+")
    ('', "a group that is repeated may not hold a repeat or '|'")
    """
    try:
        _read(pattern)
    except ValueError as error:
        return str(error)
    return ""


def matches(pattern: str, value: str) -> bool:
    """Whether the whole value matches; never for a pattern that is not allowed.

    >>> matches("[a-z-]+", "eu-west"), matches("[a-z-]+", "eu west")
    (True, False)
    """
    return len(value) <= MOST_VALUE and not pattern_problem(pattern) and bool(re.fullmatch(pattern, value, re.ASCII))


def is_harmless(pattern: str) -> bool:
    """Whether no value that matches can be code: only letters, digits and `_ . / : @ % + , = -`, and no `-` first.

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


class _Group:
    """A group that is being read."""

    def __init__(self) -> None:
        self.repeats = False
        self.branches = 1


@lru_cache(maxsize=256)
def _read(pattern: str) -> _Read:
    """`ValueError` with the reason for a pattern that is not allowed."""
    if not pattern or len(pattern) > MOST_PATTERN:
        raise ValueError(f"from 1 to {MOST_PATTERN} characters are allowed")
    text = pattern.removeprefix("^")
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1]
    at, ways = 0, 1
    groups, atoms = [_Group()], set[str]()
    while at < len(text):
        fixed, at, closed = _piece(text, at, groups)
        if fixed:
            atoms.add(fixed)
        repeat = _REPEAT.match(text, at)
        if repeat is None:
            continue
        if not fixed and closed is None:
            raise ValueError(f"{repeat[0]!r} repeats nothing")
        most = _most(repeat)
        if closed is not None and most > 1 and (closed.repeats or closed.branches > 1):
            raise ValueError("a group that is repeated may not hold a repeat or '|'")
        at, ways = repeat.end(), ways * (most + 1)
        groups[-1].repeats = True
        if ways > _MOST_WAYS:
            raise ValueError("it has too many repeats to be quick; bound them, as in {1,9}")
    if len(groups) > 1:
        raise ValueError("a group is not closed")
    _compiled(pattern)
    return _Read(frozenset(atoms), _first(text))


def _piece(text: str, at: int, groups: list[_Group]) -> tuple[str, int, _Group | None]:
    """The atom at this place (empty: none), where the next piece begins, and the group that was closed."""
    if text[at] == "(":
        groups.append(_Group())
        return "", at + (3 if text.startswith("(?:", at) else 1), None
    if text[at] == ")":
        if len(groups) == 1:
            raise ValueError("')' closes nothing")
        closed = groups.pop()
        groups[-1].repeats |= closed.repeats
        groups[-1].branches += closed.branches - 1
        return "", at + 1, closed
    if text[at] == "|":
        groups[-1].branches += 1
        return "", at + 1, None
    atom = _ATOM.match(text, at)
    if atom is None:
        raise ValueError(f"{text[at : at + 2]!r} is not allowed here")
    if _SETS.search(atom[0]):
        raise ValueError(f"{atom[0]!r} has a pair of characters that may get another meaning; escape one")
    return atom[0], atom.end(), None


def _most(repeat: re.Match[str]) -> int:
    if repeat[0] == "?":
        return 1
    if repeat[1] is None or repeat[2] == "":
        return MOST_VALUE
    return int(repeat[1] if repeat[2] is None else repeat[2])


def _compiled(pattern: str) -> None:
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from None


def _first(text: str) -> tuple[str, ...] | None:
    """The atom that every value begins with; None if it is not one that must be there."""
    if "|" in text:
        return None
    atom = _ATOM.match(text)
    if atom is None:
        return None
    repeat = _REPEAT.match(text, atom.end())
    optional = repeat is not None and (repeat[0] in "*?" or (repeat[1] is not None and int(repeat[1]) == 0))
    return None if optional else (atom[0],)
