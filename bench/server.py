"""Starts a PostgreSQL server for benches: as for tests, but with `fsync` and `synchronous_commit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from bench import cpu
from tests.servers.postgres import PostgresServer, drop_database, name_of


class Server:
    """A running server, with its databases and its CPU time."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def create(self, template: str | None = None) -> str:
        """Make a database, empty or as a copy of one without connections, and return its URL."""
        return self._server.create_database("template1" if template is None else name_of(template))

    def drop(self, url: str) -> None:
        drop_database(self._server.url(), name_of(url))

    @property
    def pid(self) -> int:
        """The id of the server process, whose children are the sessions."""
        return self._server.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server and all its sessions until now; 0 if the system has no /proc."""
        return cpu.family_of(self.pid)

    def set(self, name: str, value: str) -> None:
        """Change a setting for all sessions."""
        with psycopg.connect(self._server.url(), autocommit=True) as db:
            db.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            db.execute("SELECT pg_reload_conf()")


@contextmanager
def running() -> Iterator[Server]:
    """Start a server for one bench, in a temporary folder that is removed afterwards."""
    with PostgresServer(fsync=True) as server:
        yield Server(server)
