"""Chooses the media type and the compression of an answer by the weights in the request. Pure."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence

JSON, PROBLEM, TEXT = "application/json", "application/problem+json", "text/plain"
_MOST = 50  # parts of a header that are read


def preferred(accept: str, offered: Sequence[str]) -> str | None:
    """Return the offered media type that the header `Accept` prefers, and of equal ones the first. An empty header
    accepts anything. None if the header accepts none of them.

    >>> offered = ("application/json", "text/plain")
    >>> [preferred(accept, offered) for accept in ("", "*/*", "text/plain", "text/*;q=0.9, application/json;q=0.1")]
    ['application/json', 'application/json', 'text/plain', 'text/plain']
    >>> preferred("image/png", offered), preferred("*/*, application/json;q=0", offered)
    (None, 'text/plain')
    """
    ranges = _read(accept)
    if not ranges:
        return offered[0]
    weights = {kind: _weight(ranges, (kind, f"{kind.partition('/')[0]}/*", "*/*")) for kind in offered}
    best = max(offered, key=lambda kind: weights[kind])
    return best if weights[best] > 0 else None


def wants_text(accept: str) -> bool:
    """Return whether a client prefers plain text to JSON.

    >>> wants_text("text/plain"), wants_text("*/*"), wants_text("text/plain;q=0.3, application/json")
    (True, False, False)
    """
    return preferred(accept, (JSON, PROBLEM, TEXT)) == TEXT


def compressed(body: bytes, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """The body with its headers: compressed if the client accepts gzip.

    >>> compressed(b"up 1", "gzip;q=0, *")[1], compressed(b"up 1", "deflate, GZIP;q=0.5")[1]["Content-Encoding"]
    ({'Vary': 'Accept-Encoding'}, 'gzip')
    """
    ranges = _read(accept_encoding)
    if _weight(ranges, ("gzip", "*")) <= 0:
        return body, {"Vary": "Accept-Encoding"}
    return gzip.compress(body, compresslevel=5, mtime=0), {"Vary": "Accept-Encoding", "Content-Encoding": "gzip"}


def _read(header: str) -> dict[str, float]:
    """The names in a header with their weights. A weight that cannot be read is zero."""
    ranges: dict[str, float] = {}
    for part in header.split(",", _MOST)[:_MOST]:
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        if name:
            weight = next((word[2:] for word in parameters if word.startswith("q=")), "1")
            ranges[name] = max(ranges.get(name, 0.0), _number(weight))
    return ranges


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and 0 <= number <= 1 else 0.0


def _weight(ranges: dict[str, float], names: Sequence[str]) -> float:
    """The weight of the first of these names that the header has. The most exact one comes first."""
    return next((ranges[name] for name in names if name in ranges), 0.0)
