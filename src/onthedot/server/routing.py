"""Routes that go by the table: each is given what it takes to be called when it is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from onthedot.access.permissions import Permission
from onthedot.server.door import door_of
from onthedot.server.problems import KINDS, MEDIA_TYPE
from onthedot.server.table import TABLE


class WrongOut(BaseModel):
    """One thing that was said wrongly."""

    field: str = Field(examples=["schedules[0].cron"])
    problem: str = Field(examples=["expected 5 or 6 fields, got 4"])


class ProblemOut(BaseModel):
    """What went wrong, and what to do."""

    type: str = Field(examples=[KINDS + "invalid"])
    title: str
    status: int
    detail: str
    request_id: str
    error: str = Field("", description="The library's error that it is, if it is one.", examples=["UnknownJob"])
    errors: list[WrongOut] = []


_CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
_ALWAYS = {
    408: "The body did not come in time.", 413: "The body is too large.", 422: "It cannot be understood.",
    429: "Too many requests.", 503: "Ask again.",
}  # fmt: skip
_KNOWN = {401: "No key, or one that does not count.", 403: "The key may not do this."}
_MORE = {
    404: "There is no such thing, or not for this key.", 409: "Something else is true by now.",
    412: "It was changed meanwhile.", 415: "That is not what can be read here.",
}  # fmt: skip


def problems(*statuses: int, known: bool = True) -> dict[int | str, dict[str, Any]]:
    """The refusals that a route documents: those that any has, and these."""
    told = {**_ALWAYS, **(_KNOWN if known else {}), **{status: _MORE[status] for status in statuses}}
    return {status: {"description": told[status], "content": _CONTENT} for status in sorted(told)}


class Routes(APIRouter):
    """A router whose routes are in the table."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Declare one. `refusals` names the statuses that it may answer with beside those that all have."""
        [method] = options.get("methods") or ["GET"]
        line = f"{method} {self.prefix}{path}"
        if line not in TABLE:
            raise RuntimeError(
                f"route {line!r}: expected a line in server/table.py that says who may call it, got none"
            )
        permission = TABLE[line]
        options["dependencies"] = [*(options.get("dependencies") or ()), Depends(_letting_in(permission))]
        own = options.get("responses") or {}
        named = [status for status in own if status in _MORE and not own[status]]
        rest = {status: told for status, told in own.items() if status not in named}
        options["responses"] = {**problems(*named, known=permission is not None), **rest}
        options["operation_id"] = options.get("operation_id") or endpoint.__name__
        super().add_api_route(path, endpoint, **options)


def _letting_in(permission: Permission | None) -> Callable[[Request], Any]:
    async def let_in(request: Request) -> None:
        await door_of(request).let_in(request, permission)

    return let_in


def include(app: FastAPI, routers: Sequence[Routes]) -> None:
    """Give an application these routes. `RuntimeError` unless they are those of the table, and it has no others."""
    if app.routes:
        raise RuntimeError(f"routes: expected none that the table does not know, got {app.routes}")
    found = set()
    for router in routers:
        app.include_router(router)
        for route in router.routes:
            if isinstance(route, APIRoute):
                found |= {f"{method} {route.path}" for method in route.methods or ()}
    if found != set(TABLE):
        raise RuntimeError(f"routes: expected those of server/table.py, got others: {sorted(found ^ set(TABLE))}")
