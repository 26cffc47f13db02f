"""What was changed, by whom, from where: on record before the change is answered."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from onthedot.access.audit import Entry, record
from onthedot.server.door import door_of


async def audited(request: Request, verb: str, object: str, before: Any = None, after: Any = None) -> None:
    """Put a change on record. `object` is a kind and a name, `job/<namespace>/<name>` of what belongs to a namespace;
    `before` and `after` are definitions or other small data, of which values are left out."""
    _, _, rest = object.partition("/")
    namespace, inside, _ = rest.partition("/")
    entry = Entry(
        who=request.state.who,
        verb=verb,
        object=object,
        before=before,
        after=after,
        namespace=namespace if inside else "",
        owner=_owner(after) or _owner(before),
        request_id=str(request.scope.get("request_id", "")),
        source=request.client.host if request.client else "",
    )
    await record(door_of(request).there.store, entry)


def _owner(definition: Any) -> str:
    return str(definition.get("owner", "")) if isinstance(definition, dict) else ""
