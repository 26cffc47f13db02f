"""The PostgreSQL of the tests: fresh databases, templates, restarts, pauses, and no leftovers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.servers import running
from tests.servers.postgres import PostgresServer, name_of
from tests.servers.shared import ROOT, SharedPostgres


async def test_a_fresh_database_is_empty_and_uses_utf8(postgres_url: str):
    db = await asyncpg.connect(postgres_url)
    try:
        assert await db.fetchval("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == 0
        assert await db.fetchval("SHOW server_encoding") == "UTF8"
        assert await db.fetchval("SHOW fsync") == "off"
    finally:
        await db.close()


def test_each_test_has_a_database_of_its_own(postgres: SharedPostgres, postgres_url: str):
    other = postgres.create()
    try:
        assert other != postgres_url
        with psycopg.connect(postgres_url) as db:
            db.execute("CREATE TABLE mine ()")
        with psycopg.connect(other) as db, pytest.raises(psycopg.errors.UndefinedTable):
            db.execute("SELECT * FROM mine")
    finally:
        postgres.drop(other)


def test_a_template_is_prepared_once_and_copied(postgres: SharedPostgres):
    prepared = []

    def prepare(url: str) -> None:
        prepared.append(url)
        with psycopg.connect(url) as db:
            db.execute("CREATE TABLE there AS SELECT 7 AS x")

    name = f"tests_of_templates_{os.getpid()}"
    for _ in range(2):
        url = postgres.create(postgres.template(name, prepare))
        with psycopg.connect(url) as db:
            assert db.execute("SELECT x FROM there").fetchone() == (7,)
        postgres.drop(url)
    assert [name_of(url) for url in prepared] == [name]


def test_a_wrong_password_is_refused(postgres: SharedPostgres):
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.admin_url.replace(postgres.password, "wrong"))


def test_committed_data_survives_an_immediate_restart(postgres_server: PostgresServer):
    url = postgres_server.create_database()
    with psycopg.connect(url) as db:
        db.execute("CREATE TABLE kept AS SELECT 1 AS x")
    open_one = psycopg.connect(url)
    open_one.execute("INSERT INTO kept VALUES (2)")
    postgres_server.restart_immediately()
    with pytest.raises(psycopg.OperationalError):
        open_one.execute("SELECT 1")
    open_one.close()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT x FROM kept").fetchall() == [(1,)]


def test_a_stopped_server_refuses_connections_and_restarts_on_its_port(postgres_server: PostgresServer):
    port = postgres_server.port
    postgres_server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_server.url())
    postgres_server.start()
    assert postgres_server.port == port
    with psycopg.connect(postgres_server.url()) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


async def test_a_paused_server_keeps_its_connections_and_answers_later(postgres_server: PostgresServer):
    db = await asyncpg.connect(postgres_server.url())
    try:
        paused = postgres_server.pause()
        assert db.get_server_pid() in paused
        assert {running.state_of(pid) for pid in (postgres_server.pid, db.get_server_pid())} == {"T"}
        # A session that was just ending is a zombie (Z): its parent is stopped and cannot reap it.
        assert {running.state_of(pid) for pid in paused} <= {"T", "Z"}
        asked = asyncio.create_task(db.fetchval("SELECT 2"))
        await asyncio.wait({asked}, timeout=0.05)
        assert not asked.done()
        postgres_server.resume()
        assert await asked == 2
    finally:
        await db.close()


@pytest.mark.slow
def test_a_closed_server_leaves_no_process_and_no_folder():
    server = PostgresServer().start()
    pid, folder = server.pid, server.folder
    server.close()
    assert not folder.exists()
    assert gone(pid)


@pytest.mark.slow
def test_a_server_that_cannot_start_reports_the_reason():
    with PostgresServer() as server:
        other = PostgresServer()
        other.port = server.port
        with pytest.raises(running.ServerTrouble, match="Address already in use"):
            other.start()
        other.close()


@pytest.mark.slow
def test_root_can_use_a_wheel_that_only_root_can_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(running, "anyone_may_read", lambda path: False)
    with PostgresServer() as server, psycopg.connect(server.url()) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


PYTEST_THAT_IS_KILLED = """
import sys, time
from pathlib import Path
from tests.servers.postgres import PostgresServer
from tests.servers.shared import SharedPostgres
own, shared = PostgresServer().start(), SharedPostgres(Path(sys.argv[1]))
import psycopg
with psycopg.connect(shared.admin_url) as db:
    folder = db.execute("SHOW data_directory").fetchone()[0]
print(own.pid, folder, own.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_servers_end_with_a_test_run_that_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", PYTEST_THAT_IS_KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        own, shared_data, own_folder = victim.stdout.readline().split()
        shared = int(Path(shared_data, "postmaster.pid").read_text().split()[0])
        victim.send_signal(signal.SIGKILL)
    wait_gone(int(own))
    wait_gone(shared)
    running.remove_folder(Path(own_folder))  # a server that is killed with its parent leaves its files
    running.wait_until(lambda: not Path(shared_data).exists(), f"{shared_data} to be removed")


@pytest.mark.slow
def test_the_shared_server_runs_until_its_last_user_closes_it(tmp_path: Path):
    first, second = SharedPostgres(tmp_path), SharedPostgres(tmp_path)
    assert first.admin_url == second.admin_url
    first.close()
    with psycopg.connect(second.admin_url) as db:
        data = db.execute("SHOW data_directory").fetchone()
    assert data is not None
    pid = int(Path(data[0], "postmaster.pid").read_text().split()[0])
    second.close()
    wait_gone(pid)
    third = SharedPostgres(tmp_path)
    with psycopg.connect(third.admin_url) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
    third.close()


def gone(pid: int) -> bool:
    return running.state_of(pid) in ("", "Z")


def wait_gone(pid: int) -> None:
    running.wait_until(lambda: gone(pid), f"process {pid} to end")
