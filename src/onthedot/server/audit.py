"""What was changed, by whom, from where: on record before the change is answered."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from onthedot.access import users
from onthedot.access.audit import Entry, object_of
from onthedot.access.grants import NAME
from onthedot.access.permissions import Role
from onthedot.access.principal import ANONYMOUS, Principal
from onthedot.access.sessions import Session
from onthedot.model.errors import LoginLimited
from onthedot.model.job import Job
from onthedot.model.run import RunRecord
from onthedot.server.auth import store_of
from onthedot.server.write_batcher import writes_of


async def record_change(request: Request, verb: str, what: Job | RunRecord | str, **said: Any) -> None:
    """Put a change on record: the `entry_of` it."""
    await writes_of(request).entries.one(entry_of(request, verb, what, **said))


async def record_login(request: Request, session: Session, way: str) -> None:
    """Put on record that somebody was let in, and by which `way`: it is they who did it."""
    request.state.who = Principal(
        kind="session", id=session.id, name=session.name, role=Role.VIEWER, scopes=frozenset()
    )
    await record_change(request, "login", f"session/{session.id}", after={"name": session.name, "by": way})


async def record_refusal(request: Request, what: str, way: str, error: Exception, *, name: str = "") -> None:
    """Put on record that somebody was not let in; of very many, some are only counted. A `name` that was given is
    recorded if it is a user's: people type passwords where a name is asked for."""
    left_out = logins_of(request).refusals.take(source_of(request))
    if left_out is None:
        return
    if name:
        store = store_of(request).store
        known = NAME.fullmatch(name) and await store.documents.get_document(users.KIND, name) is not None
        what = f"user/{name if known else '?'}"
    request.state.who = ANONYMOUS
    told = {"by": way, "why": "too many tries" if isinstance(error, LoginLimited) else "refused"}
    await record_change(request, "login.refused", what, after=told | ({"left_out": left_out} if left_out else {}))


def logins_of(request: Request) -> users.Logins:
    """The failed logins that this application has seen lately."""
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
    """What is on record of a change. `verb` is like `jobs.pause`; `what` a job, a run, or a kind and a name: `key/k1`.
    `before` and `after` are definitions or other small data, of which values are left out. Jobs and runs say themselves
    where they belong; what belongs to no namespace can be read by who sees everything."""
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
