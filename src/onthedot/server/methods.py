"""Which methods a path has: told to whoever asks with another one. The framework names those of one route only."""

from __future__ import annotations

import re
from collections import defaultdict

from starlette.routing import compile_path

from onthedot.server.table import TABLE


def _by_path() -> list[tuple[re.Pattern[str], str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in TABLE:
        method, _, path = line.partition(" ")
        found[path] += ["GET", "HEAD"] if method == "GET" else [method]
    return [(compile_path(path)[0], ", ".join(sorted(methods))) for path, methods in found.items()]


_METHODS = _by_path()


def methods_of(path: str) -> str:
    """As the header `Allow` lists them.

    >>> methods_of("/api/v1/jobs/nightly_report")
    'DELETE, GET, HEAD, PATCH, PUT'
    """
    return next((methods for pattern, methods in _METHODS if pattern.match(path)), "")
