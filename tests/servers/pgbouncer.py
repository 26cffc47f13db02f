"""PgBouncer in transaction mode, in front of a PostgreSQL: two statements of a client may meet two sessions."""

from __future__ import annotations

import signal
from types import TracebackType

import psycopg

from tests.servers import postgres, running, setup

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


class PgBouncer:
    """A pooler for every database of one server, until it is closed."""

    def __init__(self, server_port: int, password: str, *, pool_size: int = 10) -> None:
        program = setup.PGBOUNCER.found()
        if program is None:
            raise running.ServerTrouble(setup.PGBOUNCER.why_missing())
        self.port = running.free_port()
        self.password = password
        self.folder = running.make_folder("pgbouncer")
        self._log = self.folder / "log"
        users, configuration = self.folder / "users", self.folder / "pgbouncer.ini"
        users.touch(0o600)
        users.write_text(f'"{postgres.USER}" "{password}"\n')
        configuration.write_text(
            CONFIGURATION.format(
                server_port=server_port, port=self.port, users=users, pool_size=pool_size, user=postgres.USER
            )
        )
        for path in (users, configuration):
            running.give_away(path)
        self._popen = running.start([program, configuration], log=self._log)
        try:
            running.wait_answers(self._answers, self._popen, self._log, "PgBouncer")
        except running.ServerTrouble:
            self.close()
            raise

    def _answers(self) -> bool:
        try:
            with psycopg.connect(postgres.url(self.port, self.password, "postgres"), connect_timeout=5) as db:
                db.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """Where a database of the server is, through the pooler."""
        return postgres.url(self.port, self.password, database)

    def close(self) -> None:
        """SIGTERM: at once, without waiting for clients."""
        try:
            self._popen.send_signal(signal.SIGTERM)
            running.wait_ended(self._popen, "PgBouncer")
        finally:
            running.remove_folder(self.folder)

    def __enter__(self) -> PgBouncer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
