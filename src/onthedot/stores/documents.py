"""`store.documents`: users, keys, secrets, the audit trail, and other records that are about no run.

A document is a JSON text under a kind and an id, with a version. Beside them are lists that only grow. Nothing here is
about runs, and nothing of it is on the way of one.
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
    """What `put_document` did: whether the text is stored now, and the version that is (0: there is none)."""

    accepted: bool
    version: int


class Entry(NamedTuple):
    """One line of a list that only grows."""

    kind: str
    number: int
    body: str
    written_at: Micros


class Noting(NamedTuple):
    """Entries about runs, written together with the runs. With `mark`, one text for each run, in which `mark` stands
    for the run's id; without, any number of texts about all runs together."""

    kind: str
    bodies: Sequence[str]
    keys: Sequence[str]
    mark: str

    def of(self, ids: Sequence[int]) -> list[str]:
        """The texts, with the ids of their runs.

        >>> Noting("audit", ['{"run": "?1"}'], ["k"], '"?1"').of([41])
        ['{"run": 41}']
        """
        if not self.mark:
            return list(self.bodies)
        return [body.replace(self.mark, str(run_id)) for body, run_id in zip(self.bodies, ids, strict=True)]


class Documents(Protocol):
    """Documents, and lists that only grow. `DefinitionError` for a kind, an id or a text that cannot be kept."""

    async def get_document(self, kind: str, id: str) -> Document | None:
        """The current version, or None."""

    async def put_document(
        self, kind: str, id: str, body: str, *, version: int, now: Micros | None = None
    ) -> PutDocument:
        """Store a text if the document is at this version, in one write: 0 creates, and only that; another replaces
        exactly that version. The answer has the new version, or if the race is lost the one that is there (0: none).

        A text equal to the stored one writes nothing and is accepted, whatever was expected: a put whose answer was
        lost may be made again. A caller that must know that no other caller wrote the same text adds a unique value."""

    async def list_documents(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Document]:
        """Documents of a kind whose id comes after this one, in the order of their ids' characters."""

    async def delete_document(self, kind: str, id: str, *, version: int) -> bool:
        """Remove a document if it is at this version, in one write. True: there is none now, so that asking again is
        fine. False: it is at another version, and nothing is written."""

    async def append_documents(
        self, kind: str, bodies: Sequence[str], *, keys: Sequence[str] = (), now: Micros | None = None
    ) -> list[int]:
        """Add texts to the end of a list that only grows, in one write and in this order; their numbers, which are
        above all numbers that a reader has seen, so a reader that goes on from the last one misses none. There may be
        gaps. With `keys`, one for each (empty: none), a text is added once: asked again, the answer is its number."""

    async def list_appended(self, kind: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """What was appended with a number above this one, in order."""


class Places:
    """Which texts are to be appended, by their keys, and which number each has: those that are there already (`known`)
    the one that they have, the others those after `last`. The same for all stores.

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
    """What a put is answered without a write; None: the race is won, write. The same for all stores.

    >>> judge(None, "{}", 0), judge(None, "{}", 7)
    (None, PutDocument(accepted=False, version=0))
    """
    if found is not None and found.body == body:
        return PutDocument(True, found.version)
    current = 0 if found is None else found.version
    return None if current == version else PutDocument(False, current)


def check_document(kind: str, id: str, body: str) -> None:
    """`DefinitionError` for what no store can keep.

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
    """The same for what is appended."""
    if keys and len(keys) != len(bodies):
        raise DefinitionError(f"keys: expected one for each of {len(bodies)} texts, got {len(keys)}")
    for body, key in zip(bodies, keys or [""] * len(bodies), strict=True):
        check_document(kind, key or "-", body)


def check_noting(noting: Noting | None, runs: Sequence[object]) -> None:
    """The same for what is appended with runs."""
    if noting is None:
        return
    check_entries(noting.kind, noting.bodies, noting.keys)
    if noting.mark and len(noting.bodies) != len(runs):
        raise DefinitionError(f"noting: expected a text for each of {len(runs)} runs, got {len(noting.bodies)}")


def _body_problems(body: str) -> list[str]:
    """What is wrong with the text. The text is never quoted, because it may be secret."""
    try:
        size = len(body.encode())
        if size > LIMIT:
            return [f"body: expected at most {LIMIT} bytes, got {size}; keep the data elsewhere"]
        json.loads(body)
    except (ValueError, RecursionError):
        return ["body: expected JSON, got text that is none"]
    return []
