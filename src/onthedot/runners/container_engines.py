"""Finds a container engine, and removes the containers that dead workers have left in it.

A label on each container names the worker that started it: the boot of its machine, its pid namespace, its pid, and the
clock tick at which it began. No later process has the same four.

Uses the standard library only, because every worker does this at its start. The library that runs containers takes a
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

_PATIENCE = 1.0  # seconds for an answer to a ping
_REMOVAL = 30.0
_USUAL = ("/var/run/docker.sock", "/run/podman/podman.sock")


class EngineTrouble(OSError):
    """The engine does not answer, or refuses."""


def find(wanted: str = "") -> str | None:
    """Return the URL of the engine to use: the wanted one, or the first that answers at the usual places. None if no
    engine answers, or if the library (`onthedot[docker]`) is not installed."""
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
    """Return the usual sockets of engines: those of the machine, and this user's own."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*_USUAL, *([f"{own}/podman/podman.sock", f"{own}/docker.sock"] if own else [])]


def answers(url: str) -> bool:
    """Return whether an engine answers at this URL."""
    try:
        status, _ = ask(url, "GET", "/_ping", timeout=_PATIENCE)
    except EngineTrouble:
        return False
    return status == 200


def ask(url: str, method: str, path: str, *, timeout: float = _REMOVAL) -> tuple[int, bytes]:
    """Send one request, and wait for its answer. Raise `EngineTrouble` if there is none."""
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

    This checks only containers with our labels. It removes a container only if the process that started it ran on this
    machine and is certainly gone. Containers of other living workers remain, even those of the same run.
    """
    label = WORKER_LABEL if run_id is None else f"{RUN_LABEL}={run_id}"
    filters = quote(json.dumps({"label": [label]}))
    status, body = ask(url, "GET", f"/containers/json?all=1&filters={filters}")
    if status != 200:
        raise EngineTrouble(f"the container engine at {url} does not list its containers: status {status}")
    removed = []
    for container in _containers(body):
        mark = container.get("Labels", {}).get(WORKER_LABEL, "")
        if mark and is_worker_dead(mark, local=url.startswith("unix:")):
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


# ── the worker that started a container ─────────────────────────────────────────────────────────────────────────────


WORKER_LABEL = "onthedot.worker"
RUN_LABEL = "onthedot.run"
FENCE_LABEL = "onthedot.fence"
ATTEMPT_LABEL = "onthedot.attempt"
JOB_LABEL = "onthedot.job"

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def worker_identity() -> str:
    """Return the identity of this process. Empty if the system does not show it: then the process never counts as
    dead."""
    try:
        boot = _BOOT.read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return ""
    return f"{boot}/{namespace}/{os.getpid()}/{_began(os.getpid())}"


def is_worker_dead(mark: str, *, local: bool) -> bool:
    """Return whether the process with this identity is certainly gone. `local`: it ran on this machine.

    A process in another pid namespace cannot be seen from here, and counts as alive.
    """
    mine, other = worker_identity().split("/"), mark.split("/")
    if len(mine) != 4 or len(other) != 4 or not other[2].isdecimal():
        return False
    if mine[0] != other[0]:
        return local  # it ran before the machine's last boot
    return mine[1] == other[1] and _began(int(other[2])) != other[3]


def _began(pid: int) -> str:
    """Return the clock tick at which a process began; empty if it is gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
