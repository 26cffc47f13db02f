"""What was changed, by whom, from where: on record before the change is answered."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from onthedot.access.audit import Entry, object_of
from onthedot.job import Job
from onthedot.run import RunRecord
from onthedot.server.door import door_of


async def audited(request: Request, verb: str, what: Job | RunRecord | str, **said: Any) -> None:
    """Put a change on record: the `entry_of` it."""
    await door_of(request).gathered.entries.one(entry_of(request, verb, what, **said))


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
        source=request.client.host if request.client else "",
    )
