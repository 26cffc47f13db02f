"""Records changes and logins in the audit before they are answered. Requests that arrive together share one write.

A submitted run and its audit entry are stored in the same write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import Request

from onthedot.access import users
from onthedot.access.audit import Entry, noting, object_of, record_all
from onthedot.access.permissions import ANONYMOUS, NAME, Principal, Role
from onthedot.access.sessions import Session
from onthedot.batcher import Batcher
from onthedot.ids import RandomIds
from onthedot.model.errors import KeyConflict, LoginLimited, OnTheDotError, RevisionConflict, UnknownJob
from onthedot.model.job import Job
from onthedot.model.run import NewRun, RunRecord
from onthedot.operations.submit import insert_runs
from onthedot.server.auth import store_of
from onthedot.stores.protocol import Store


async def record_change(request: Request, verb: str, what: Job | RunRecord | str, **details: Any) -> None:
    """Record a change. The arguments are those of `entry_of`."""
    await writes_of(request).entries.one(entry_of(request, verb, what, **details))


async def record_login(request: Request, session: Session, way: str) -> None:
    """Record a login and its `way`, such as "password". The entry names the user who logs in."""
    request.state.who = Principal(
        kind="session", id=session.id, name=session.name, role=Role.VIEWER, scopes=frozenset()
    )
    await record_change(request, "login", f"session/{session.id}", after={"name": session.name, "by": way})


async def record_refusal(request: Request, what: str, way: str, error: Exception, *, name: str = "") -> None:
    """Record a refused login. If very many logins are refused, some are only counted. A `name` is recorded only if a
    user has this name, because people type passwords into the name field by mistake."""
    left_out = logins_of(request).refusals.take(source_of(request))
    if left_out is None:
        return
    if name:
        store = store_of(request).store
        known = NAME.fullmatch(name) and await store.documents.get_document(users.KIND, name) is not None
        what = f"user/{name if known else '?'}"
    request.state.who = ANONYMOUS
    after = {"by": way, "why": "too many tries" if isinstance(error, LoginLimited) else "refused"}
    await record_change(request, "login.refused", what, after=after | ({"left_out": left_out} if left_out else {}))


def logins_of(request: Request) -> users.Logins:
    """The recent failed logins of this application."""
    logins: users.Logins = request.app.state.logins
    return logins


def source_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else ""


def entry_of(
    request: Request,
    verb: str,
    what: Job | RunRecord | str,
    *,
    before: Any = None,
    after: Any = None,
    namespace: str = "",
    owner: str = "",
) -> Entry:
    """The audit entry of a change.

    `verb` is like `jobs.pause`; `what` is a job, a run, or a kind and a name such as `key/k1`. `before` and `after` are
    definitions or other small data, without secret values. Jobs and runs have their own namespace and owner. An entry
    without a namespace can be read only by callers who may see everything."""
    name, own_namespace, own_owner = object_of(what)
    return Entry(
        who=request.state.who,
        verb=verb,
        object=name,
        before=before,
        after=after,
        namespace=own_namespace or namespace,
        owner=own_owner or owner,
        request_id=str(request.scope.get("request_id", "")),
        source=source_of(request),
    )


# ── batched writes ─────────────────────────────────────────────────────────────────────────────────────────────

RUN = RandomIds().token()
"""Placeholder in an audit entry for the id of a run that is not stored yet. No caller can guess it."""

Inserted = tuple[int, bool]
"""A run's id, and whether this write created it."""


class AuditedRun(NamedTuple):
    """A run to store, and its entry in the audit."""

    run: NewRun
    entry: Entry


class WriteBatcher:
    """Batches the writes of one application: runs with their audit entries, and audit entries alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs: Batcher[AuditedRun, Inserted] = Batcher(self._insert)
        self.entries: Batcher[Entry, int] = Batcher(self._record)

    async def _insert(self, runs: Sequence[AuditedRun]) -> Sequence[Inserted | Exception]:
        """Store all in one write. If the store refuses that write, it has stored nothing. Then store them one by
        one."""
        try:
            return await self._write(runs)
        except (KeyConflict, RevisionConflict, UnknownJob) as error:
            if len(runs) == 1:
                return [error]
        return [await self._insert_one(one) for one in runs]

    async def _insert_one(self, one: AuditedRun) -> Inserted | Exception:
        try:
            [inserted] = await self._write([one])
        except OnTheDotError as error:
            return error
        return inserted

    async def _write(self, runs: Sequence[AuditedRun]) -> list[Inserted]:
        entries = noting([entry for _, entry in runs], RUN)
        return await insert_runs(self._store, [run for run, _ in runs], noting=entries)

    async def _record(self, entries: Sequence[Entry]) -> list[int]:
        return await record_all(self._store, entries)


def writes_of(request: Request) -> WriteBatcher:
    """The write batcher of the application that got this request."""
    writes: WriteBatcher = request.app.state.writes
    return writes
