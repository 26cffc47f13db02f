"""A PostgreSQL for benches: the one that tests start, but safe: `fsync` and `synchronous_commit` are on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.postgres import PostgresServer, drop_database, name_of


class Server:
    """A server that runs, its databases, and what it has used."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def create(self, template: str | None = None) -> str:
        """A new database, empty or a copy of one to which nobody is connected; its URL."""
        return self._server.create_database("template1" if template is None else name_of(template))

    def drop(self, url: str) -> None:
        drop_database(self._server.url(), name_of(url))

    def cpu_seconds(self) -> float:
        """CPU time of the server and all its sessions until now; 0 where the system does not tell."""
        if not Path("/proc/self/stat").exists():
            return 0.0
        main = self._server.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return ticks_of([int(pid) for pid in children]) + ticks_of([main], ended=True)


def ticks_of(pids: Sequence[int], *, ended: bool = False) -> float:
    """CPU seconds of processes until now; with `ended` also of their children that are no more; 0 where the system does
    not tell."""
    return sum(_ticks(pid, ended=ended) for pid in pids) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int, *, ended: bool) -> int:
    """What a process has used; with `ended` also its children that are no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended since
    return sum(int(field) for field in fields[11 : 15 if ended else 13])


@contextmanager
def running() -> Iterator[Server]:
    """A server for one bench. Its folder is among the temporary files, and goes with it."""
    with PostgresServer(fsync=True) as server:
        yield Server(server)
