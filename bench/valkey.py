"""A Valkey for benches: the one that tests start, with an append-only file that is synced every second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from bench.cpu import ticks_of
from tests.servers.valkey import ValkeyServer


class Server:
    """A server that runs, its databases, and what it has used."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        self._last = 0

    def create(self, template: str | None = None) -> str:
        """The next database, empty or with a copy of all keys of another; its URL. There are 16, taken in turn: the
        one that is given out has been emptied, unless it is the template."""
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
        """A client of the bench's own, that reads bytes."""
        return redis.Redis.from_url(url.partition("?")[0], socket_timeout=60)

    def drop(self, url: str) -> None:
        """Away with all that is in it."""
        with self.client(url) as db:
            db.flushdb()

    def memory(self) -> int:
        """Bytes that its keys take, with what is around them."""
        with self.client(self.url(0)) as db:
            return int(db.info("memory")["used_memory"])

    def cpu_seconds(self) -> float:
        """CPU time of the server until now; 0 where the system does not tell."""
        return ticks_of([self._server.pid])


def number_of(url: str) -> int:
    """Of a database in a URL that this server has given out."""
    return int(url.partition("?")[0].rpartition("/")[2])


@contextmanager
def running() -> Iterator[Server]:
    """A server for one bench. Its folder is among the temporary files, and goes with it."""
    with ValkeyServer() as server:
        yield Server(server)
