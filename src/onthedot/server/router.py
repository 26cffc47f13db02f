"""Provides routes that check the caller's permission (`permissions.py`) and the parameters before they are called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.responses import Response

from onthedot.model.errors import did_you_mean
from onthedot.server.auth import auth_of
from onthedot.server.permissions import ROUTE_PERMISSIONS
from onthedot.server.problems import KINDS, MEDIA_TYPE, FieldProblem, Problem

HEAD = "onthedot.head"
"""The key in the ASGI scope that marks a HEAD request."""


class WrongOut(BaseModel):
    """One invalid field of a request."""

    field: str = Field(examples=["schedules[0].cron"])
    problem: str = Field(examples=["expected 5 or 6 fields, got 4"])


class ProblemOut(BaseModel):
    """An error: what was expected, what came, and what to do next."""

    type: str = Field(examples=[KINDS + "invalid"])
    title: str
    status: int
    detail: str
    request_id: str
    error: str = Field("", description="The name of the Python exception, if there is one.", examples=["UnknownJob"])
    errors: list[WrongOut] = []


_CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
_ALWAYS = {
    408: "The body did not arrive in time.", 413: "The body is too large.",
    421: "The request is for another host.", 422: "The request is not valid.", 429: "Too many requests.",
    503: "The store does not answer. Retry after the time in `Retry-After`.",
}  # fmt: skip
_KNOWN = {401: "The key is missing or not valid.", 403: "The key does not have the permission."}
_MORE = {
    403: "A web page of another origin may not do this.",
    404: "It does not exist, or this key may not see it.", 409: "The request conflicts with the current state.",
    412: "Somebody changed it meanwhile.", 415: "The content type is not supported.",
}  # fmt: skip


def problems(*statuses: int, known: bool = True) -> dict[int | str, dict[str, Any]]:
    """The error answers that a route documents: those of every route, and these statuses."""
    told = {**_ALWAYS, **(_KNOWN if known else {}), **{status: _MORE[status] for status in statuses}}
    return {status: {"description": told[status], "content": _CONTENT} for status in sorted(told)}


def _has_nul(request: Request) -> Problem:
    """The problem of a NUL in a parameter. Some stores can neither hold nor compare NUL."""
    given = [(f"path.{name}", text) for name, text in request.path_params.items()]
    given += [(f"query.{name}", text) for name, text in request.query_params.multi_items()]
    wrong = [
        FieldProblem(name, "expected text without NUL characters") for name, text in given if "\0" in f"{name}{text}"
    ]
    return Problem(422, "invalid", "; ".join(f"{one.field}: {one.problem}" for one in wrong[:5]), wrong)


def _query_of(takes: Dependant) -> Iterator[str]:
    """The names of the query parameters of a route and of its dependencies."""
    yield from (field.alias for field in takes.query_params)
    for inner in takes.dependencies:
        yield from _query_of(inner)


def _unknown(given: Iterable[str], known: Collection[str]) -> Problem | None:
    """The problem of an unknown parameter. If it were ignored, `?stat=dead` would list every run.

    >>> str(_unknown(["stat"], ["job", "state"]))
    "unknown parameter 'stat', did you mean 'state'?"
    """
    unknown = [name for name in dict.fromkeys(given) if name not in known]
    if not unknown:
        return None
    near = did_you_mean(unknown[0], known) if known else "; it takes none"
    wrong = [FieldProblem(f"query.{name[:100]}", "unknown parameter; leave it out") for name in unknown[:20]]
    return Problem(422, "invalid", f"unknown parameter {unknown[0][:100]!r}{near}", wrong)


def _without_body(response: Response) -> Response:
    """Return the answer to HEAD, without starting a stream."""
    bare = Response(status_code=response.status_code, background=response.background)
    bare.raw_headers = response.raw_headers
    return bare


class Guarded(APIRoute):
    """A route that is called only if the caller has its permission. A FastAPI dependency would read the body of an
    unknown caller first, and would take a tenth of the time of a submit."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Check the caller, then handle the request."""
        handle = super().get_route_handler()
        [permission] = {ROUTE_PERMISSIONS[f"{method} {self.path}"] for method in self.methods or ()}
        known = frozenset(_query_of(self.dependant))
        checks = self.include_in_schema  # a page for people ignores unknown parameters

        async def guarded(request: Request) -> Response:
            await auth_of(request).admit(request, permission)
            if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
                raise _has_nul(request)
            if checks and request.scope["query_string"] and (problem := _unknown(request.query_params, known)):
                raise problem
            response = await handle(request)
            return _without_body(response) if HEAD in request.scope else response

        return guarded


class Routes(APIRouter):
    """A router whose routes are all in `ROUTE_PERMISSIONS`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=Guarded, **options)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Declare a route. `responses` names its error statuses that not every route has."""
        [method] = options.get("methods") or ["GET"]
        line = f"{method} {self.prefix}{path}"
        if line not in ROUTE_PERMISSIONS:
            raise RuntimeError(
                f"route {line!r}: expected a line in server/permissions.py that says who may call it, got none"
            )
        permission = ROUTE_PERMISSIONS[line]
        own = options.get("responses") or {}
        named = [status for status in own if status in _MORE and not own[status]]
        rest = {
            status: {"content": _CONTENT, **told} if int(status) >= 400 else told
            for status, told in own.items()
            if status not in named
        }
        options["responses"] = {**problems(*named, known=permission is not None), **rest}
        options["operation_id"] = options.get("operation_id") or endpoint.__name__
        super().add_api_route(path, endpoint, **options)


def include(app: FastAPI, routers: Sequence[Routes]) -> None:
    """Add these routes to an application. Raises `RuntimeError` unless they are those of `ROUTE_PERMISSIONS`."""
    if app.routes:
        raise RuntimeError(f"routes: expected none that the table does not know, got {app.routes}")
    found = set()
    for router in routers:
        app.router.routes.extend(router.routes)  # `include_router` would build each of them again for every application
        for route in router.routes:
            if not isinstance(route, Guarded):
                raise RuntimeError(f"routes: expected each behind the checks of auth, got {route!r}")
            found |= {f"{method} {route.path}" for method in route.methods or ()}
    if found != set(ROUTE_PERMISSIONS):
        raise RuntimeError(
            f"routes: expected those of server/permissions.py, got others: {sorted(found ^ set(ROUTE_PERMISSIONS))}"
        )
