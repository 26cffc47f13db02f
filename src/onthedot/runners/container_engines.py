"""Finds a container engine, and removes the containers that dead workers have left in it.

Uses the standard library only, because every worker does this at its start. The library that drives containers takes a
third of a second to load, and is loaded with the first container.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from onthedot.runners import process_identity

_PATIENCE = 1.0  # seconds for an answer to a ping
_REMOVAL = 30.0
_USUAL = ("/var/run/docker.sock", "/run/podman/podman.sock")


class EngineTrouble(OSError):
    """The engine does not answer, or refuses."""


def find(wanted: str = "") -> str | None:
    """The URL of the engine to use: the wanted one, or the first one at the usual places. None if none answers, or if
    the library (`onthedot[docker]`) is not installed."""
    if importlib.util.find_spec("aiodocker") is None:
        return None
    return next((url for url in _candidates(wanted) if answers(url)), None)


def _candidates(wanted: str) -> Iterator[str]:
    said = wanted or os.environ.get("DOCKER_HOST", "")
    if said:
        yield said
        return
    yield from (f"unix://{path}" for path in usual_sockets() if Path(path).is_socket())


def usual_sockets() -> list[str]:
    """The usual sockets of engines: the machine's, and this user's own."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*_USUAL, *([f"{own}/podman/podman.sock", f"{own}/docker.sock"] if own else [])]


def answers(url: str) -> bool:
    """Whether an engine answers at this URL."""
    try:
        status, _ = ask(url, "GET", "/_ping", timeout=_PATIENCE)
    except EngineTrouble:
        return False
    return status == 200


def ask(url: str, method: str, path: str, *, timeout: float = _REMOVAL) -> tuple[int, bytes]:
    """Send one request, and wait for its answer. `EngineTrouble` without one."""
    try:
        connection = _connection(url, timeout)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise EngineTrouble(f"the container engine at {url} does not answer: {error}") from error


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(url: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path, timeout)
    if parts.scheme in ("tcp", "http") and parts.hostname:
        return http.client.HTTPConnection(parts.hostname, parts.port or 2375, timeout=timeout)
    raise ValueError(f"expected unix:///path or tcp://host:port, got {url!r}")


def sweep(url: str, run_id: int | None = None) -> list[str]:
    """Remove the containers of dead workers, of all runs or of one. Returns their ids.

    Looks only at containers with our labels. Removes one only if the process of this machine that started it is
    certainly gone: another living worker's containers stay, even those of the same run.
    """
    label = process_identity.WORKER if run_id is None else f"{process_identity.RUN}={run_id}"
    filters = quote(json.dumps({"label": [label]}))
    status, body = ask(url, "GET", f"/containers/json?all=1&filters={filters}")
    if status != 200:
        raise EngineTrouble(f"the container engine at {url} does not list its containers: status {status}")
    removed = []
    for container in _containers(body):
        mark = container.get("Labels", {}).get(process_identity.WORKER, "")
        if mark and process_identity.is_dead(mark, local=url.startswith("unix:")):
            name = str(container["Id"])
            status, _ = ask(url, "DELETE", f"/containers/{quote(name, safe='')}?force=1&v=1")
            if status in (200, 204, 404):
                removed.append(name)
    return removed


def _containers(body: bytes) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(body) or []
    except ValueError as error:
        raise EngineTrouble(f"the container engine answers with what is no JSON: {error}") from error
    return found
