"""Seals the audit with a chain of hashes, and finds entries that were changed after that.

A seal is an entry of the list `audit.seals`. It has the number and the SHA-256 of every audit entry since the previous
seal, and the SHA-256 of the previous seal. So nobody can change a sealed entry without changing all later seals.

    audit        1  2  3 │ 4  5 │ 6 …            not sealed yet: 6 …
    audit.seals     1 ◀──── 2                    head: 2 and its hash

An attacker who can write to the store could make all seals again, or cut off the newest entries with their seals. To
find that, keep the *head* elsewhere: the number and the hash of the newest seal. The node that seals logs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from onthedot.access.audit import KIND
from onthedot.clock import Micros
from onthedot.model.errors import DefinitionError
from onthedot.stores.documents import Entry
from onthedot.stores.protocol import Store

SEALS = "audit.seals"
BATCH = 500
"""The most entries under one seal: some 40 KiB of text."""
_PAGE = 100


class Head(NamedTuple):
    """The number and the hash of a seal. Number 0 means that there is no seal yet."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


START = Head(0, "0" * 64)


class Seal(NamedTuple):
    """The contents of a seal."""

    previous: str
    entries: list[tuple[int, str]]

    @property
    def last(self) -> int:
        """The number of the newest entry that it seals."""
        return self.entries[-1][0]


class Fault(NamedTuple):
    """The first entry or seal that differs from what was recorded. `of` is "entry" or "seal"."""

    of: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.of} {self.number} {self.what}"


class Checked(NamedTuple):
    """The result of a check: the number of intact sealed entries, the number of entries without a seal, the newest
    seal, and the first fault."""

    sealed: int
    unsealed: int
    head: Head
    fault: Fault | None = None


def write_seal(previous: Head, entries: Sequence[Entry]) -> str:
    """The text of a seal over these entries."""
    return json.dumps({"previous": previous.hash, "entries": [[entry.number, hash_of(entry)] for entry in entries]})


def read_seal(entry: Entry) -> Seal | None:
    """Read a seal; None if it cannot be read."""
    try:
        data = json.loads(entry.body)
        entries = [(int(number), str(digest)) for number, digest in data["entries"]]
        return Seal(str(data["previous"]), entries) if entries else None
    except (KeyError, TypeError, ValueError):
        return None


def head_of(entry: Entry) -> Head:
    """The head that this seal makes."""
    return Head(entry.number, hash_of(entry))


def hash_of(entry: Entry) -> str:
    """The hash of an entry: of its kind, number, time and text."""
    text = json.dumps([entry.kind, entry.number, entry.written_at, entry.body])
    return hashlib.sha256(text.encode()).hexdigest()


def read_head(text: str) -> Head:
    """Read a head from text. Raise `DefinitionError` for other text.

    >>> read_head("7:" + "0" * 64).number
    7
    >>> read_head("seven")
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: head: expected a seal's number and hash, like '7:0af3…', got 'seven'
    """
    number, _, digest = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise DefinitionError(f"head: expected a seal's number and hash, like '7:0af3…', got {text!r}")
    return Head(int(number), digest)


async def check(store: Store, *, known: Head | None = None) -> Checked:
    """Check the whole audit and its seals. `known` is a head that was kept: its seal must still be in the store."""
    checking = _Checking(store)
    fault = await checking.seals(known)
    unsealed = 0 if fault else await checking.rest()
    return Checked(checking.sealed, unsealed, checking.head, fault)


class _Checking:
    """Reads the entries and the seals side by side."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries = _all(store, KIND)
        self._ahead: Entry | None = None  # read, and not compared yet
        self.head = START
        self.sealed = 0

    async def seals(self, known: Head | None) -> Fault | None:
        await self._next()
        met = known is None or known == START
        async for entry in _all(self._store, SEALS):
            seal = read_seal(entry)
            if seal is None:
                return Fault("seal", entry.number, "cannot be read: it was changed")
            if seal.previous != self.head.hash:
                before = f"seal {self.head.number}" if self.head.number else "the beginning"
                return Fault("seal", entry.number, f"does not follow {before}: one of them was changed, or one is gone")
            fault = await self._compare(seal)
            if fault is not None:
                return fault
            self.head = head_of(entry)
            if known is not None and known.number == entry.number:
                met = known == self.head
                if not met:
                    return Fault("seal", entry.number, "is not the one that was noted: all was sealed anew")
        if not met and known is not None:
            return Fault("seal", known.number, "was noted, and is gone: the newest entries were cut off")
        return None

    async def _compare(self, seal: Seal) -> Fault | None:
        for number, digest in seal.entries:
            found = self._ahead
            if found is None or found.number > number:
                return Fault("entry", number, "was removed")
            if found.number < number:
                return Fault("entry", found.number, "was inserted")
            if hash_of(found) != digest:
                return Fault("entry", number, "was changed")
            self.sealed += 1
            await self._next()
        return None

    async def rest(self) -> int:
        """Count the entries without a seal."""
        count = 0
        while self._ahead is not None:
            count += 1
            await self._next()
        return count

    async def _next(self) -> None:
        self._ahead = await anext(self._entries, None)


async def _all(store: Store, kind: str) -> AsyncIterator[Entry]:
    after = 0
    while page := await store.documents.list_appended(kind, after=after, limit=_PAGE):
        for entry in page:
            yield entry
        after = page[-1].number


async def append_seal(
    store: Store, previous: Head, entries: Sequence[Entry], *, again: int = 0, now: Micros | None = None
) -> int:
    """Append a seal after `previous`. Returns its number. If two nodes do so at once, one seal is kept, and both get
    its number. `again` counts how often a reported seal was missing from the store."""
    key = f"{previous}/{again}" if again else str(previous)
    [number] = await store.documents.append_documents(SEALS, [write_seal(previous, entries)], keys=[key], now=now)
    return number
