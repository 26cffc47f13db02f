"""A PostgreSQL for benches: the one that tests start, but safe: `fsync` and `synchronous_commit` are on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from bench import cpu
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

    @property
    def pid(self) -> int:
        """Of the process whose children are the sessions."""
        return self._server.pid

    def cpu_seconds(self) -> float:
        """CPU time of the server and all its sessions until now; 0 where the system does not tell."""
        return cpu.family_of(self.pid)

    def set(self, name: str, value: str) -> None:
        """Change a setting for all sessions from now on."""
        with psycopg.connect(self._server.url(), autocommit=True) as db:
            db.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            db.execute("SELECT pg_reload_conf()")


@contextmanager
def running() -> Iterator[Server]:
    """A server for one bench. Its folder is among the temporary files, and goes with it."""
    with PostgresServer(fsync=True) as server:
        yield Server(server)
