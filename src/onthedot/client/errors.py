"""Turns a server's problem documents into the errors that the library raises itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onthedot.model import errors
from onthedot.model.errors import (
    AccessDenied,
    DefinitionError,
    KeyRefused,
    OnTheDotError,
    RevisionConflict,
    StateError,
    StoreError,
    StoreUnavailable,
    UnknownJob,
)

_OF_STATUS: dict[int, type[OnTheDotError]] = {
    401: KeyRefused,
    403: AccessDenied,
    404: UnknownJob,
    409: StateError,
    412: RevisionConflict,
    413: DefinitionError,
    415: DefinitionError,
    422: DefinitionError,
    429: StoreUnavailable,
    502: StoreUnavailable,
    503: StoreUnavailable,
    504: StoreUnavailable,
}


def error_of(status: int, told: Any, *, server: str) -> OnTheDotError:
    """Return the error for a problem document. If no onthedot server wrote the document, it is a `StoreError`.

    >>> error_of(404, {"detail": "no job 'x' is stored", "error": "UnknownJob"}, server="http://a")
    UnknownJob("no job 'x' is stored")
    """
    if not isinstance(told, Mapping) or not isinstance(told.get("detail"), str):
        return _of_strangers(status, server)
    detail = told["detail"]
    kind = _named(told.get("error")) or _OF_STATUS.get(status)
    if kind is None or (status == 404 and _is_no_route(told)):
        asked = told.get("request_id", "")
        return StoreError(f"{server}: expected an answer, got {status}: {detail} (request {asked})")
    if issubclass(kind, DefinitionError):
        return _definition_error(kind, detail, told.get("errors") or ())
    if kind in (KeyRefused, StoreUnavailable):
        return kind(f"{server}: {detail}")
    return kind(detail)


def _is_no_route(told: Mapping[str, Any]) -> bool:
    """True if the server has no such path. Earlier versions answer with the text of FastAPI."""
    return str(told.get("type", "")).endswith("/problems/path") or told["detail"] == "Not Found"


def _of_strangers(status: int, server: str) -> OnTheDotError:
    """Return the error for an answer of a proxy or another program."""
    text = f"{server}: expected the answer of an onthedot server, got something else, with status {status}"
    if _OF_STATUS.get(status) is StoreUnavailable:
        return StoreUnavailable(f"{text}; ask again later")
    return StoreError(f"{text}; check the address")


def _named(name: object) -> type[OnTheDotError] | None:
    """Return the error class of this name, if it takes only a message."""
    found = getattr(errors, name, None) if isinstance(name, str) else None
    if not (isinstance(found, type) and issubclass(found, OnTheDotError)):
        return None
    wants_more = any("__init__" in vars(kind) for kind in found.__mro__ if kind.__module__ == errors.__name__)
    return found if issubclass(found, DefinitionError) or not wants_more else None


def _definition_error(kind: type[DefinitionError], detail: str, wrong: Sequence[Mapping[str, str]]) -> DefinitionError:
    problems = [f"{one['field']}: {one['problem']}" if one["field"] else one["problem"] for one in wrong] or [detail]
    if len(problems) == 1:
        return kind(problems, subject=detail.removesuffix(problems[0]).removesuffix(": "))
    head, begins, _ = detail.partition("\n  - ")
    return kind(problems, subject=head.removesuffix(": ") if begins else "")
