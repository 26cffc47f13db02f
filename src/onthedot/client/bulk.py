"""Submits many runs in few requests: one JSON object per line, and one answer for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from onthedot.client.connection import ServerConnection
from onthedot.client.errors import error_of
from onthedot.model.errors import StoreError

NDJSON = "application/x-ndjson"
MOST_LINES = 10_000
MOST_BYTES = 16 * 1024 * 1024
SECONDS = 120.0


async def send_many(
    server: ServerConnection, namespace: str, bodies: Sequence[dict[str, Any]]
) -> list[tuple[int, bool]]:
    """Submit runs, and return the id of each and whether it is new, in order. Every line has a key, so a request may be
    sent again. The first line that is refused raises its error; the runs before it stay."""
    stored: list[tuple[int, bool]] = []
    for lines in _parts(bodies):
        stored += await _send(server, namespace, lines)
    return stored


def _parts(bodies: Sequence[dict[str, Any]]) -> Iterator[list[bytes]]:
    """The lines of each request."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        line = json.dumps(body, separators=(",", ":")).encode() + b"\n"
        if part and (len(part) == MOST_LINES or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


async def _send(server: ServerConnection, namespace: str, lines: list[bytes]) -> list[tuple[int, bool]]:
    answer = await server.send(
        "POST", "/api/v1/runs", query={"namespace": namespace}, content=b"".join(lines), kind=NDJSON,
        repeat=True, seconds=SECONDS,
    )  # fmt: skip
    stored = []
    for text in answer.text.splitlines():
        told = json.loads(text)
        if "problem" in told:
            raise error_of(int(told["problem"]["status"]), told["problem"], server=server.url)
        stored.append((int(told["run_id"]), bool(told["created"])))
    if len(stored) != len(lines):
        raise StoreError(f"{server.url}: expected an answer for each of {len(lines)} runs, got {len(stored)}")
    return stored
