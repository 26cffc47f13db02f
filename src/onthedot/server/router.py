"""Routes that check the permission of `permissions.py` before they are called."""

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
"""The mark in the scope of a HEAD request."""


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
    408: "The body did not come in time.", 413: "The body is too large.", 421: "It is for another host.",
    422: "It cannot be understood.", 429: "Too many requests.", 503: "Ask again.",
}  # fmt: skip
_KNOWN = {401: "No key, or one that does not count.", 403: "The key may not do this."}
_MORE = {
    403: "A page of another origin may not do this.",
    404: "There is no such thing, or not for this key.", 409: "Something else is true by now.",
    412: "It was changed meanwhile.", 415: "That is not what can be read here.",
}  # fmt: skip


def problems(*statuses: int, known: bool = True) -> dict[int | str, dict[str, Any]]:
    """The error answers that a route documents: those of every route, and these."""
    told = {**_ALWAYS, **(_KNOWN if known else {}), **{status: _MORE[status] for status in statuses}}
    return {status: {"description": told[status], "content": _CONTENT} for status in sorted(told)}


def _has_nul(request: Request) -> Problem:
    """The problem of a NUL in a parameter: some stores can neither hold nor compare it."""
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
    """The answer to HEAD: it begins no stream."""
    bare = Response(status_code=response.status_code, background=response.background)
    bare.raw_headers = response.raw_headers
    return bare


class Guarded(APIRoute):
    """A route that is called only if the caller may call it. This is no dependency of the framework: that would read
    the body of an unknown caller first, and takes a tenth of the time of a submit."""

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
        """Declare a route. `responses` names the error statuses that it has beside those of every route."""
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
    """Give an application these routes. `RuntimeError` unless they are exactly those of `ROUTE_PERMISSIONS`."""
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
