"""`store.documents` keeps users, keys, secrets, the audit trail, and other records that do not belong to a run.

A document is a JSON text under a kind and an id, with a version. The store also has lists that only grow. None of
this is about runs, or on the path of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError

LIMIT = 64 * 1024
"""The most bytes that the text of a document may take."""

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_MOST_ID = 400


class Document(NamedTuple):
    """A JSON text under a name. Versions come from one sequence of the store: no version is used twice."""

    kind: str
    id: str
    version: int
    body: str
    written_at: Micros


class PutDocument(NamedTuple):
    """The result of `put_document`: whether the text is stored now, and the stored version (0: there is none)."""

    accepted: bool
    version: int


class Entry(NamedTuple):
    """One line of a list that only grows."""

    kind: str
    number: int
    body: str
    written_at: Micros


class Noting(NamedTuple):
    """Entries about runs, written together with the runs. With `mark`, there is one text for each run, and the run's id
    replaces `mark` in it. Without `mark`, any number of texts are about all runs together."""

    kind: str
    bodies: Sequence[str]
    keys: Sequence[str]
    mark: str

    def of(self, ids: Sequence[int]) -> list[str]:
        """Return the texts, with the ids of their runs.

        >>> Noting("audit", ['{"run": "?1"}'], ["k"], '"?1"').of([41])
        ['{"run": 41}']
        """
        if not self.mark:
            return list(self.bodies)
        return [body.replace(self.mark, str(run_id)) for body, run_id in zip(self.bodies, ids, strict=True)]


class Documents(Protocol):
    """Documents, and lists that only grow. Methods raise `DefinitionError` for a kind, an id or a text that cannot be
    stored."""

    async def get_document(self, kind: str, id: str) -> Document | None:
        """Return the current version, or None."""

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        """Store a text if the document is at this version, in one write. Version 0 only creates; any other replaces
        exactly that version. Return the new version, or the stored version if the race is lost (0: none).

        A text equal to the stored one is accepted at any version, and nothing is written. So a put whose answer was
        lost can be retried. If a caller must exclude that another caller wrote the same text, it adds a unique
        value."""

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        """Return documents of a kind with ids after this one, in the order of their ids' characters."""

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        """Remove a document if it is at this version, in one write. True: the document does not exist now, so a retry
        is safe. False: it is at another version, and nothing is written."""

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        """Add texts to the end of a list that only grows, in one write and in this order. Return their numbers. They
        are above all numbers that a reader has seen, so a reader that continues after the last one misses none. There
        may be gaps. `keys` has one key for each text (empty: none). A text with a key is added once; a repeated call
        returns its number."""

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries with a number above this one, in order."""


class Places:
    """The texts to append, by their keys, and the number of each. Texts that are already stored (`known`) keep their
    number. The others get the numbers after `last`. All stores use this.

    >>> places = Places(["a", "k", "", "a"], {"k": 3}, 7)
    >>> places.numbers, places.fresh
    ([8, 3, 9, 8], [(0, 8, 'a'), (2, 9, None)])
    """

    def __init__(self, keys: Sequence[str], known: Mapping[str, int], last: int) -> None:
        given = dict(known)
        self.numbers: list[int] = []
        self.fresh: list[tuple[int, int, str | None]] = []
        for place, key in enumerate(keys):
            number = given.get(key) if key else None
            if number is None:
                number = last = last + 1
                self.fresh.append((place, number, key or None))
            if key:
                given[key] = number
            self.numbers.append(number)


def judge(found: Document | None, body: str, version: int) -> PutDocument | None:
    """Return the answer to a put that needs no write. None: the race is won, so write. All stores use this.

    >>> judge(None, "{}", 0), judge(None, "{}", 7)
    (None, PutDocument(accepted=False, version=0))
    """
    if found is not None and found.body == body:
        return PutDocument(True, found.version)
    current = 0 if found is None else found.version
    return None if current == version else PutDocument(False, current)


def check_document(kind: str, id: str, body: str) -> None:
    """Raise `DefinitionError` for a document that no store can keep.

    >>> check_document("secret", "default/DB", '{"key": "k1"}')
    >>> check_document("secret", "default/DB", "{")
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: document 'secret', 'default/DB': body: expected JSON, got text that is none
    """
    problems = []
    if not _KIND.fullmatch(kind):
        problems.append("kind: expected small letters, digits, '_', '.' or '-', a letter first, at most 64 of them")
    if not id or len(id) > _MOST_ID or not id.isprintable():
        problems.append(f"id: expected up to {_MOST_ID} characters that can be printed, got {len(id)}")
    problems += _body_problems(body)
    if problems:
        raise DefinitionError(problems, subject=f"document {kind!r}, {id!r}")


def check_entries(kind: str, bodies: Sequence[str], keys: Sequence[str]) -> None:
    """Raise `DefinitionError` for entries that no store can keep."""
    if keys and len(keys) != len(bodies):
        raise DefinitionError(f"keys: expected one for each of {len(bodies)} texts, got {len(keys)}")
    for body, key in zip(bodies, keys or [""] * len(bodies), strict=True):
        check_document(kind, key or "-", body)


def check_noting(noting: Noting | None, runs: Sequence[object]) -> None:
    """Raise `DefinitionError` for entries about runs that no store can keep."""
    if noting is None:
        return
    check_entries(noting.kind, noting.bodies, noting.keys)
    if noting.mark and len(noting.bodies) != len(runs):
        raise DefinitionError(f"noting: expected a text for each of {len(runs)} runs, got {len(noting.bodies)}")


def _body_problems(body: str) -> list[str]:
    """Return the problems of the text. They never quote it, because it may be secret."""
    try:
        size = len(body.encode())
        if size > LIMIT:
            return [f"body: expected at most {LIMIT} bytes, got {size}; keep the data elsewhere"]
        json.loads(body)
    except (ValueError, RecursionError):
        return ["body: expected JSON, got text that is none"]
    return []
