"""The audit log: who changed what, when, and from where. Its entries are a list that only grows (`audit`).

Every change through the API, a program or the command line is recorded before it is answered. An entry has the
definition of the object before and after the change, without the values of arguments, environments and headers. No part
of it holds a secret, a password or a key. The leader seals the list (`audit_seals.py`, `node/access_upkeep.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onthedot.access.credentials import hidden
from onthedot.access.permissions import LOCAL, Principal
from onthedot.clock import SECOND, Micros
from onthedot.ids import RandomIds
from onthedot.model.job import Job, job_name
from onthedot.model.run import RunRecord
from onthedot.stores import documents
from onthedot.stores.documents import Noting
from onthedot.stores.protocol import Store

KIND = "audit"

LEFT_OUT = "…"
VALUES = frozenset({"args", "arguments", "kwargs", "env", "headers"})
"""Under these names, only names are recorded, without their values."""
SECRETS = frozenset({"authorization", "body", "epoch", "password", "proof", "result", "secret", "token", "value"})
"""Values under these names are never recorded."""

_MOST_BYTES = 24 * 1024
_MOST_CHARACTERS = 400
_DEEPEST = 32
_LARGEST = 2**64
_PAGE = 1_000
_SET_BACK = 3_600 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change. `verb` names the action (`jobs.pause`) and `object` its target (`job/default/report`). `namespace`
    and `owner` are those of the target. Without a namespace, only principals without restrictions can read the entry.

    A write whose answer is lost is repeated, but its `Entry` is stored only once. `id` ensures this. The request id
    cannot, because callers choose it."""

    who: Principal
    verb: str
    object: str
    before: Any = None
    after: Any = None
    namespace: str = ""
    owner: str = ""
    request_id: str = ""
    source: str = ""
    id: str = field(default_factory=lambda: RandomIds().token(), repr=False)


class Recorded(NamedTuple):
    """A stored entry. One that cannot be read has the verb `unreadable`."""

    number: int
    at: Micros
    who_kind: str
    who_id: str
    who_name: str
    source: str
    verb: str
    object: str
    namespace: str
    owner: str
    before: Any
    after: Any
    request_id: str


async def record(store: Store, entry: Entry, *, now: Micros | None = None) -> int:
    """Append an entry, and return its number. The entry is stored when the function returns. Long text in the entry is
    cut, or replaced by its size and hash."""
    [number] = await record_all(store, [entry], now=now)
    return number


async def record_all(store: Store, entries: Sequence[Entry], *, now: Micros | None = None) -> list[int]:
    """Append several entries in one write. Returns their numbers."""
    keys = [entry.id for entry in entries]
    return await store.documents.append_documents(KIND, [_body(entry) for entry in entries], keys=keys, now=now)


def noting(entries: Sequence[Entry], mark: str) -> Noting:
    """Entries about runs, for the write that stores the runs. It replaces `mark` in them with the id of each run."""
    return Noting(KIND, [_body(entry) for entry in entries], [entry.id for entry in entries], json.dumps(mark))


def noting_together(entries: Sequence[Entry]) -> Noting:
    """Entries about all runs of one write, for that write. They name no run."""
    return Noting(KIND, [_body(entry) for entry in entries], [entry.id for entry in entries], "")


def object_of(what: Job | RunRecord | str) -> tuple[str, str, str]:
    """Return the name of an object in the audit, its namespace and its owner. Only jobs and runs have a namespace and
    an owner.

    >>> object_of("queue/mail")
    ('queue/mail', '', '')
    """
    if isinstance(what, Job):
        return f"job/{job_name(what)}", what.namespace, what.owner
    if isinstance(what, RunRecord):
        return f"run/{what.namespace}/{what.job}/{what.id}", what.namespace, what.owner
    return what, "", ""


def _body(entry: Entry) -> str:
    who = {"kind": entry.who.kind, "id": entry.who.id, "name": _short(entry.who.name)}
    words = ("verb", "object", "namespace", "owner", "request_id", "source")
    body = {
        "who": who,
        **{word: _short(getattr(entry, word)) for word in words},
        "before": _bounded(without_values(entry.before)),
        "after": _bounded(without_values(entry.after)),
    }
    return json.dumps(body)


async def read(store: Store, *, by: Principal = LOCAL, after: int = 0, limit: int = 100) -> list[Recorded]:
    """Return entries with a number above `after`, in order, without entries about objects that `by` cannot see."""
    found: list[Recorded] = []
    while len(found) < limit and (page := await store.documents.list_appended(KIND, after=after, limit=limit)):
        after = page[-1].number
        found += [entry for entry in map(recorded_of, page) if _is_for(entry, by)]
    return found[:limit]


async def read_newest(store: Store, *, limit: int = 100) -> list[Recorded]:
    """Return the last entries, in order. A store reads the list forwards only, so we find the last number by binary
    search. Numbers may have gaps, so we go back from there in steps that double. The time does not grow with the
    list."""
    last, back = await last_number(store), limit
    while True:
        after = start = max(0, last - back)
        newest: deque[Recorded] = deque(maxlen=limit)
        while page := await store.documents.list_appended(KIND, after=after, limit=_PAGE):
            after = page[-1].number
            newest.extend(map(recorded_of, page))
        if len(newest) == limit or start == 0:
            return list(newest)
        back *= 2


async def read_between(
    store: Store, since: Micros | None, until: Micros | None, *, limit: int | None = None
) -> list[Recorded]:
    """The last entries (`limit` None: all) with `since` <= time < `until`, in order.

    Times grow with the numbers of entries, except where a clock was set back. So a binary search finds the first entry,
    and reading starts an hour earlier."""
    found: deque[Recorded] = deque(maxlen=limit)
    after = 0 if since is None else await _number_before(store, since - _SET_BACK)
    while page := await store.documents.list_appended(KIND, after=after, limit=_PAGE):
        after = page[-1].number
        entries = map(recorded_of, page)
        found.extend(one for one in entries if (since is None or one.at >= since) and (until is None or one.at < until))
        if until is not None and page[0].written_at > until + _SET_BACK:
            break
    return list(found)


async def _number_before(store: Store, instant: Micros) -> int:
    """The number of the last entry that was written before this instant; 0 if there is none."""
    low, high = 0, await last_number(store)
    while low < high:
        middle = (low + high + 1) // 2
        at = await store.documents.list_appended(KIND, after=middle - 1, limit=1)
        if at and at[0].written_at < instant:
            low = max(middle, at[0].number)
        else:
            high = middle - 1
    return low


async def last_number(store: Store) -> int:
    """The number of the last entry; 0 if there is none. Finds it by binary search."""
    low, high = 0, 1
    while found := await store.documents.list_appended(KIND, after=high, limit=1):
        low, high = found[0].number, 2 * found[0].number
    while low < high:
        middle = (low + high) // 2
        found = await store.documents.list_appended(KIND, after=middle, limit=1)
        low, high = (found[0].number, high) if found else (low, middle)
    return high


def without_values(value: Any, *, named: bool = True, depth: int = 0) -> Any:
    """A definition without confidential values, as JSON. With `named` False, only names are kept.

    >>> without_values({"name": "report", "args": {"region": "eu"}, "task": {"env": {"A": "b"}, "password": "c"}})
    {'name': 'report', 'args': {'region': '…'}, 'task': {'env': {'A': '…'}, 'password': '…'}}
    """
    if depth > _DEEPEST:
        return LEFT_OUT
    if isinstance(value, Mapping):
        return {
            hidden(str(name)): LEFT_OUT
            if str(name).lower() in SECRETS
            else without_values(each, named=named and str(name).lower() not in VALUES, depth=depth + 1)
            for name, each in value.items()
        }
    if not named:
        return None if value is None else LEFT_OUT
    if isinstance(value, list | tuple | set | frozenset):
        return [without_values(each, depth=depth + 1) for each in value]
    if value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < _LARGEST):
        return value
    return LEFT_OUT if isinstance(value, int) else hidden(str(value))


def _bounded(value: Any) -> Any:
    if value is None:
        return None
    text = json.dumps(value).encode()
    if len(text) <= _MOST_BYTES:
        return value
    return {"left_out": f"{len(text)} bytes", "sha256": hashlib.sha256(text).hexdigest()}


def _short(text: str) -> str:
    text = hidden(text)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + LEFT_OUT


def _is_for(entry: Recorded, by: Principal) -> bool:
    if not entry.namespace:
        return not by.namespaces and not by.only_own
    return by.sees(entry.namespace, entry.owner)


def recorded_of(entry: documents.Entry) -> Recorded:
    """Read a stored entry."""
    try:
        data = json.loads(entry.body)
        who = data["who"]
        return Recorded(
            entry.number, entry.written_at, str(who["kind"]), str(who["id"]), str(who["name"]), str(data["source"]),
            str(data["verb"]), str(data["object"]), str(data["namespace"]), str(data["owner"]),
            data["before"], data["after"], str(data["request_id"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return Recorded(entry.number, entry.written_at, "", "", "", "", "unreadable", "", "", "", None, None, "")
