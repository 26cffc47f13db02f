"""JSON answers. FastAPI's encoder fails on some text of users, such as half of a surrogate pair."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def to_json(value: Any) -> str:
    """JSON in ASCII on one line. Half of a surrogate pair is escaped."""
    return json.dumps(value, separators=(",", ":"))


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(to_json(value), status, headers, "application/json")


def attachment(name: str) -> dict[str, str]:
    """The headers of a download, which no browser shows. The suggested file name has harmless characters only.

    >>> attachment('../a "b".txt')["Content-Disposition"]
    'attachment; filename="a_b_.txt"; filename*=UTF-8\\'\\'a%20%22b%22.txt'
    """
    last = name.replace("\\", "/").rpartition("/")[2] or "file"
    safe = _NOT_PLAIN.sub("_", last).strip(".") or "file"
    encoded = quote(last.encode(errors="replace"), safe="")
    return {"Content-Disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{encoded}"}
