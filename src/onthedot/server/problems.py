"""Turns errors into `application/problem+json` (RFC 9457), the form of every error answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from onthedot.clock import SECOND
from onthedot.model import errors
from onthedot.observe.content_negotiation import wants_text
from onthedot.server.permissions import methods_of

logger = logging.getLogger("onthedot.server")

MEDIA_TYPE = "application/problem+json"
KINDS = "https://onthedot.invalid/problems/"
"""The prefix of a problem's `type`. It is a name only: nothing is served at this address."""


class FieldProblem(NamedTuple):
    """One wrong field of a request, and what was expected."""

    field: str
    problem: str


class Problem(Exception):
    """An error answer: its status, kind, detail, wrong fields and headers."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        wrong: Iterable[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        error: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.wrong = tuple(wrong)
        self.headers = dict(headers or {})
        self.error = error  # the name of the library's error class


TITLES = {
    "unauthenticated": "Nobody is let in without a key",
    "forbidden": "This key may not do that",
    "unknown": "There is no such thing",
    "path": "There is no such path",
    "misdirected": "This server does not answer for that host",
    "conflict": "Something else is true by now",
    "stale": "It was changed meanwhile",
    "too-slow": "That takes too long to come",
    "too-large": "That is too much at once",
    "media-type": "That is not what can be read here",
    "invalid": "That cannot be understood",
    "too-many": "Too many requests",
    "quota": "A quota is used up",
    "method": "That cannot be done with it",
    "unavailable": "The store does not answer",
    "draining": "This server is stopping",
    "busy": "Too many want to be let in at once",
    "away": "The identity provider does not answer",
    "broken": "Something broke here",
}

_OF_ERRORS: list[tuple[type[errors.OnTheDotError], int, str]] = [
    (errors.DuplicateUser, 409, "conflict"),
    (errors.SourceConflict, 409, "conflict"),
    (errors.LoginsBusy, 503, "busy"),
    (errors.LoginLimited, 429, "too-many"),
    (errors.LoginRefused, 401, "unauthenticated"),
    (errors.AccessDenied, 403, "forbidden"),
    (errors.UnknownKey, 404, "unknown"),
    (errors.UnknownUser, 404, "unknown"),
    (errors.UnknownSession, 404, "unknown"),
    (errors.DefinitionError, 422, "invalid"),
    (errors.UnknownHandler, 422, "invalid"),
    (errors.UnknownSecret, 422, "invalid"),
    (errors.UnknownJob, 404, "unknown"),
    (errors.UnknownRun, 404, "unknown"),
    (errors.UnknownSlot, 404, "unknown"),
    (errors.KeyConflict, 409, "conflict"),
    (errors.LayoutConflict, 409, "conflict"),
    (errors.SlotSettled, 409, "conflict"),
    (errors.RunFailed, 409, "conflict"),
    (errors.StateError, 409, "conflict"),
    (errors.RevisionConflict, 412, "stale"),
    (errors.StoreUnavailable, 503, "unavailable"),
    (errors.ProviderUnavailable, 503, "away"),
    (errors.OutputUnavailable, 503, "unavailable"),
]

_PATH = re.compile(r"^([A-Za-z_][\w.\[\]-]*): (.*)$", re.DOTALL)


def problem_of(error: errors.OnTheDotError) -> Problem:
    """The problem of a library error. An error that is not in the table is a bug; it is raised again.

    >>> problem_of(errors.UnknownJob("no job 'x' is stored")).status
    404
    """
    for kind, status, name in _OF_ERRORS:
        if isinstance(error, kind):
            wrong = _wrong_of(error) if isinstance(error, errors.DefinitionError) else ()
            return Problem(status, name, str(error), wrong, _headers_of(error, status), _name_of(error))
    raise error


def _name_of(error: errors.OnTheDotError) -> str:
    """Return the name of the error's class in `model/errors.py`, or of its nearest base class there."""
    return next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))


def _headers_of(error: errors.OnTheDotError, status: int) -> dict[str, str]:
    if isinstance(error, errors.LoginLimited):
        return {"Retry-After": str(-(-error.again_in // SECOND))}
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="onthedot"'}
    if isinstance(error, errors.ProviderUnavailable):
        return {"Retry-After": "60"}
    return {"Retry-After": "1"} if status == 503 else {}


def _wrong_of(error: errors.DefinitionError) -> list[FieldProblem]:
    """The wrong fields of a definition. Most messages begin with the name of the field."""
    found = (_PATH.match(problem) for problem in error.problems)
    return [
        FieldProblem(match[1], match[2]) if match else FieldProblem("", problem)
        for match, problem in zip(found, error.problems, strict=True)
    ]


def shown(problem: Problem, request_id: str) -> dict[str, Any]:
    """The fields of a problem's JSON."""
    told: dict[str, Any] = {
        "type": KINDS + problem.kind,
        "title": TITLES[problem.kind],
        "status": problem.status,
        "detail": problem.detail,
        "request_id": request_id,
    }
    if problem.error:
        told["error"] = problem.error
    if problem.wrong:
        told["errors"] = [wrong._asdict() for wrong in problem.wrong]
    return told


def answer(problem: Problem, scope: Scope) -> Response:
    """A problem as a response: plain text if `Accept` prefers it, else JSON."""
    told = shown(problem, str(scope.get("request_id", "")))
    accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")
    headers = {**problem.headers, "Vary": "Accept"}
    if wants_text(accept):
        text = f"{told['title']}: {told['detail']}\n(status {told['status']}, request {told['request_id']})\n"
        return Response(text.encode(errors="replace"), problem.status, headers, "text/plain; charset=utf-8")
    return Response(json.dumps(told), problem.status, headers, MEDIA_TYPE)


# ── errors of the framework ──────────────────────────────────────────────────────────────────────────────────

_OF_STATUS = {
    401: "unauthenticated",
    403: "forbidden",
    404: "path",
    405: "method",
    408: "too-slow",
    413: "too-large",
    415: "media-type",
}


def problem_of_framework(error: HTTPException, scope: Scope) -> Problem:
    """The problem of a framework error: an unknown path, a wrong method, a body that is no JSON."""
    kind = _OF_STATUS.get(error.status_code, "invalid")
    status = 422 if error.status_code == 400 else error.status_code  # one status for every invalid request
    detail, headers = str(error.detail), dict(error.headers or {})
    if status == 404:
        detail = f"expected a path of this server, got {_shown(scope['path'])}; 'GET /api/v1' lists where to begin"
    elif status == 405:
        headers["Allow"] = methods_of(scope["path"])
        detail = f"expected one of {headers['Allow']} for this path, got {_shown(scope['method'])}"
    elif error.status_code == 400:
        detail = "body: expected JSON in UTF-8, got other bytes, or more levels than can be read"
    return Problem(status, kind, detail, headers=headers)


def problem_of_request(error: RequestValidationError, content_type: str = "") -> Problem:
    """The problem of a request that does not fit its route. It lists every invalid field."""
    wrong = [_wrong_part(part, content_type) for part in error.errors()]
    detail = "; ".join(f"{one.field}: {one.problem}" for one in wrong[:5])
    return Problem(422, "invalid", detail, wrong)


def _wrong_part(part: Mapping[str, Any], content_type: str) -> FieldProblem:
    place, *path = part["loc"]
    if part["type"] == "json_invalid":
        reason = str(part["ctx"]["error"])
        where = f" at character {path[0]}" if path else ""
        return FieldProblem("body", f"expected JSON, but {reason[:1].lower()}{reason[1:]}{where}")
    named = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    field = named if place == "body" else f"{place}.{named}"
    given = part.get("input")
    if place == "body" and not path and isinstance(given, bytes):
        got = _shown(content_type) if content_type else "none"
        return FieldProblem("body", f"expected JSON with 'Content-Type: application/json', got Content-Type {got}")
    return FieldProblem(field or "body", _worded(part, _kind(given) if place == "body" else _shown(given)))


_EXPECTED = {
    "int_parsing": "a whole number", "int_parsing_size": "a whole number", "int_type": "a whole number",
    "int_from_float": "a whole number", "float_parsing": "a number", "float_type": "a number",
    "bool_parsing": "true or false", "bool_type": "true or false", "string_type": "a string", "list_type": "an array",
    "dict_type": "an object", "model_type": "an object", "model_attributes_type": "an object",
    "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}", "greater_than": "more than {gt}",
    "less_than": "less than {lt}", "literal_error": "{expected}", "enum": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
}  # fmt: skip
_LENGTHS = {
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
}


def _worded(part: Mapping[str, Any], got: str) -> str:
    """Turn an error of pydantic into text like our other messages. `got` never shows a value of a body, because the
    value may be a password."""
    kind, context = part["type"], part.get("ctx") or {}
    if kind == "missing":
        return "expected a value, got none"
    if kind == "extra_forbidden":
        return "expected no such field; leave it out"
    if kind in _LENGTHS:
        return f"expected {_LENGTHS[kind].format(**context)}, got {len(part['input'])}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind].format(**context)}, got {got}"
    said = str(part["msg"]).removeprefix("Value error, ")
    return said[:1].lower() + said[1:]


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "true or false", int: "a number", float: "a number", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


async def handle(request: Request, error: Exception) -> Response:
    """Handle every error. Known errors become problems. Any other error is a bug: it is logged, and its text is not
    shown."""
    if isinstance(error, RequestValidationError):
        return answer(problem_of_request(error, request.headers.get("content-type", "")), request.scope)
    if isinstance(error, HTTPException):
        return answer(problem_of_framework(error, request.scope), request.scope)
    if isinstance(error, Problem):
        return answer(error, request.scope)
    if isinstance(error, errors.OnTheDotError):
        return answer(problem_of(error), request.scope)
    raise error
