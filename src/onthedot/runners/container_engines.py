"""Container engines: where one is, whether it answers, and what dead workers have left in it.

Spoken to with the standard library, because a worker asks this at every start: the library that drives containers takes
a third of a second to load, and is loaded when the first container is to run.
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
    """The engine does not answer, or answers that it cannot."""


def find(wanted: str = "") -> str | None:
    """The engine to use, if one answers and its library (`onthedot[docker]`) is installed: the one that is wanted, or
    the first at the usual places."""
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
    """Where engines listen if nobody says otherwise: the machine's, and this user's own."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*_USUAL, *([f"{own}/podman/podman.sock", f"{own}/docker.sock"] if own else [])]


def answers(url: str) -> bool:
    """Whether an engine is there."""
    try:
        status, _ = ask(url, "GET", "/_ping", timeout=_PATIENCE)
    except EngineTrouble:
        return False
    return status == 200


def ask(url: str, method: str, path: str, *, timeout: float = _REMOVAL) -> tuple[int, bytes]:
    """One question, waited for; `EngineTrouble` if there is no answer."""
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
    """Remove the containers of workers that are dead: of all runs, or of one. Their ids.

    Only what carries our own labels is looked at, and only what was started by a process of this machine that is
    certainly gone: another worker's containers are its own, also those of the same run.
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
