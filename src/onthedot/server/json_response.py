"""Answers that are made by hand: text that users wrote may hold what a framework's own encoder breaks at."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def to_json(value: Any) -> str:
    """JSON in plain ASCII, on one line: half of a character is told as what it is, and breaks nothing."""
    return json.dumps(value, separators=(",", ":"))


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(to_json(value), status, headers, "application/json")


def attachment(name: str) -> dict[str, str]:
    """The headers of a file that no browser is to show. Its name is only ever a suggestion, and plain.

    >>> attachment('../a "b".txt')["Content-Disposition"]
    'attachment; filename="a_b_.txt"; filename*=UTF-8\\'\\'a%20%22b%22.txt'
    """
    last = name.replace("\\", "/").rpartition("/")[2] or "file"
    safe = _NOT_PLAIN.sub("_", last).strip(".") or "file"
    encoded = quote(last.encode(errors="replace"), safe="")
    return {"Content-Disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{encoded}"}
