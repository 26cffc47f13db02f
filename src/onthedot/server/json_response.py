"""Answers that are made by hand: text that users wrote may hold what a framework's own encoder breaks at."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from onthedot.server.problems import Problem

MOST_DEEP = 64
"""How deep lists and objects may lie in one another in a body."""

B = TypeVar("B", bound=BaseModel)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def as_json(value: Any) -> str:
    """JSON in plain ASCII, on one line: half of a character is told as what it is, and breaks nothing."""
    return json.dumps(value, separators=(",", ":"))


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(as_json(value), status, headers, "application/json")


def attachment(name: str) -> dict[str, str]:
    """The headers of a file that no browser is to show. Its name is only ever a suggestion, and plain.

    >>> attachment('../a "b".txt')["Content-Disposition"]
    'attachment; filename="a_b_.txt"; filename*=UTF-8\\'\\'a%20%22b%22.txt'
    """
    last = name.replace("\\", "/").rpartition("/")[2] or "file"
    safe = _NOT_PLAIN.sub("_", last).strip(".") or "file"
    encoded = quote(last.encode(errors="replace"), safe="")
    return {"Content-Disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{encoded}"}


def read_body(model: type[B], body: bytes) -> B:
    """A body, or a line of one, as its model says; `RequestValidationError` with every reason."""
    try:
        read = model.model_validate_json(body)
    except ValidationError as error:
        told = error.errors(include_url=False)
        raise RequestValidationError([{**part, "loc": ("body", *part["loc"])} for part in told]) from None
    if is_too_deep(body):
        raise Problem(422, "invalid", f"body: expected at most {MOST_DEEP} lists and objects in one another, got more")
    return read


def is_too_deep(body: bytes) -> bool:
    """Whether lists and objects lie deeper in one another than they may."""
    if len(body) <= 2 * MOST_DEEP:  # each opens and closes
        return False
    return body.count(b"[") + body.count(b"{") > MOST_DEEP and _depth(body) > MOST_DEEP


_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _depth(body: bytes) -> int:
    """How deep a text of JSON is.

    >>> _depth(b'{"a": [[], "[[[["]}')
    3
    """
    deepest = depth = 0
    for found in _BRACKETS.finditer(body):
        if found[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return deepest
