"""Fixtures that start servers for tests, and the list of untested things at the end. For `pytest_plugins`.

| fixture | what it is |
|---|---|
| `postgres_url` | a fresh, empty database on the shared PostgreSQL; dropped after the test |
| `postgres` | the shared PostgreSQL of the test run: more databases, and templates to copy them from |
| `postgres_server` | a PostgreSQL for one test, which may stop, restart and pause it |
| `valkey` | the shared Valkey of the process; tests use their own keys |
| `valkey_url` | the same, emptied |
| `valkey_server` | a Valkey for one test, which may stop, restart and pause it |
| `debian_redis` | the shared redis-server of the process, from Debian |
| `pgbouncer` | a pooler in transaction mode before the shared PostgreSQL |
| `podman` | a container engine for one test module, with a busybox image |
| `s3_server` | an S3 server for one test, which may kill, restart and pause it |
| `s3` | the shared S3 server of the process; `s3.fresh_prefix()` gives an unused prefix |
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers import setup
from tests.servers.debian_redis import DebianRedis
from tests.servers.pgbouncer import PgBouncer
from tests.servers.podman import Podman
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import S3Server
from tests.servers.shared import SharedPostgres
from tests.servers.valkey import ValkeyServer

NOT_TESTED = "NOT TESTED: "


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SharedPostgres]:
    base = tmp_path_factory.getbasetemp()
    in_parallel = hasattr(request.config, "workerinput")  # then each process has its own folder below that of the run
    shared = SharedPostgres(base.parent if in_parallel else base)
    yield shared
    shared.close()


@pytest.fixture
def postgres_url(postgres: SharedPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres: SharedPostgres) -> Iterator[PgBouncer]:
    need(setup.PGBOUNCER)
    with PgBouncer(postgres.port, postgres.password) as pooler:
        yield pooler


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def valkey_url(valkey: ValkeyServer) -> str:
    valkey.empty()
    return valkey.url()


@pytest.fixture(scope="session")
def debian_redis() -> Iterator[DebianRedis]:
    need(setup.REDIS)
    with DebianRedis() as server:
        yield server


@pytest.fixture
def valkey_server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    need(setup.PODMAN)
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED}{setup.PODMAN.purpose}: its networks and cgroups need root")
    with Podman() as engine:
        if reason := engine.why_not():
            pytest.skip(f"{NOT_TESTED}{setup.PODMAN.purpose}: podman cannot run one here: {reason}")
        yield engine.start()


@pytest.fixture
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


def need(program: setup.Program) -> None:
    """Skip the test if the program is missing and cannot be installed here. Fail if it could be installed."""
    if program.found():
        return
    if program.may_be_installed():
        pytest.fail(f"{program.command} is missing, and can be installed: {program.install_line}", pytrace=False)
    pytest.skip(NOT_TESTED + program.why_missing())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was not tested, whatever the report options are."""
    reasons = set()
    for report in terminalreporter.getreports("skipped"):
        if isinstance(report.longrepr, tuple) and NOT_TESTED in report.longrepr[2]:
            reasons.add(report.longrepr[2].partition(NOT_TESTED)[2])
    for reason in sorted(reasons):
        terminalreporter.write_line(NOT_TESTED + reason, yellow=True, bold=True)
