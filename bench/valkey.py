"""Starts a Valkey server for benches: as for tests, with an append-only file that is synced every second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from bench.cpu import ticks_of
from tests.servers.valkey import ValkeyServer


class Server:
    """A running server, with its databases, its memory and its CPU time."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        self._last = 0

    def create(self, template: str | None = None) -> str:
        """Return the URL of the next database, empty or with a copy of all keys of another one.

        There are 16 databases, used in turn and emptied first. The template is never chosen.
        """
        number = self._next(None if template is None else number_of(template))
        with self.client(self.url(number)) as db:
            db.flushdb()
        if template is not None:
            with self.client(template) as db:
                for key in db.scan_iter(count=1_000):
                    db.execute_command("COPY", key, key, "DB", number)
        return self.url(number)

    def _next(self, kept: int | None) -> int:
        while True:
            self._last = self._last % 15 + 1
            if self._last != kept:
                return self._last

    def url(self, number: int) -> str:
        return self._server.url().removesuffix("/0") + f"/{number}"

    def client(self, url: str) -> redis.Redis:
        """Open a client that reads bytes."""
        return redis.Redis.from_url(url.partition("?")[0], socket_timeout=60)

    def drop(self, url: str) -> None:
        """Empty the database at this URL."""
        with self.client(url) as db:
            db.flushdb()

    def memory(self) -> int:
        """Return the memory that the server uses, in bytes."""
        with self.client(self.url(0)) as db:
            return int(db.info("memory")["used_memory"])

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server until now; 0 if the system has no /proc."""
        return ticks_of([self._server.pid])


def number_of(url: str) -> int:
    """Return the number of the database in a URL of this server."""
    return int(url.partition("?")[0].rpartition("/")[2])


@contextmanager
def running() -> Iterator[Server]:
    """Start a server for one bench, in a temporary folder that is removed afterwards."""
    with ValkeyServer() as server:
        yield Server(server)
