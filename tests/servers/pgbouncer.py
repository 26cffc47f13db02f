"""Runs PgBouncer in transaction mode: two statements of a client may run in two sessions of the server."""

from __future__ import annotations

from pathlib import Path

from tests.servers import postgres, running, setup
from tests.servers.server import Server

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
max_client_conn = 500
default_pool_size = {pool_size}
server_login_retry = 0.1
admin_users = {user}
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer(Server):
    """A pooler for every database of one server. It ends at once, without waiting for clients."""

    what = "PgBouncer"

    def __init__(self, server_port: int, password: str, *, pool_size: int = 10) -> None:
        self.password = password
        self._server_port, self._pool_size = server_port, pool_size
        super().__init__()

    def _prepare(self) -> None:
        program = setup.PGBOUNCER.found()
        if program is None:
            raise running.ServerTrouble(setup.PGBOUNCER.why_missing())
        self._program = program
        users, self._configuration = self.folder / "users", self.folder / "pgbouncer.ini"
        users.touch(0o600)
        users.write_text(f'"{postgres.USER}" "{self.password}"\n')
        self._configuration.write_text(
            CONFIGURATION.format(
                server_port=self._server_port,
                port=self.port,
                users=users,
                pool_size=self._pool_size,
                user=postgres.USER,
            )
        )
        for path in (users, self._configuration):
            running.give_to_server_user(path)

    def _command(self) -> list[str | Path]:
        return [self._program, self._configuration]

    def _answers(self) -> bool:
        return postgres.answers(self.url("postgres"))

    def url(self, database: str) -> str:
        """The URL of a database through the pooler."""
        return postgres.url(self.port, self.password, database)
