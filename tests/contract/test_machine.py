"""In any order of calls, each store answers and shows the same as the oracle."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from onthedot.stores.memory import MemoryStore
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.protocol import Store
from onthedot.stores.redis import RedisStore
from onthedot.stores.sqlite import SqliteStore
from tests.contract.foci import FOCI, focused
from tests.contract.machine import Machine, walk
from tests.lanes import SOAK
from tests.servers.valkey import ValkeyServer
from tests.stores.postgres.emptied import empty

pytestmark = pytest.mark.slow

FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
THOROUGH = 40 if SOAK else 1


class MemoryMachine(Machine):
    def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
        return MemoryStore()


class SqliteMachine(Machine):
    def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        return loop.run_until_complete(SqliteStore.open(Path(self.folder.name) / "otd.db", inline=True))

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresMachine(Machine):
    url: str

    def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
        empty(self.url)
        return loop.run_until_complete(PostgresStore.open(self.url))


class RedisMachine(Machine):
    server: ValkeyServer

    def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
        self.server.empty()
        return loop.run_until_complete(RedisStore.open(self.server.url()))


@pytest.mark.timeout(600)  # hypothesis needs the time to shrink a failure
@pytest.mark.parametrize(("machine", "examples"), [(MemoryMachine, 80), (SqliteMachine, 40)])
def test_a_store_agrees_with_the_oracle(machine: type[Machine], examples: int):
    walk(machine, examples * THOROUGH)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("focus", FOCI)
def test_a_store_agrees_with_the_oracle_on_a_few_rules(focus: str):
    walk(focused(SqliteMachine, focus), 4 * THOROUGH)


@pytest.mark.timeout(600)
def test_postgres_agrees_with_the_oracle(migrated_url: str):
    walk(type("OnThisServer", (PostgresMachine,), {"url": migrated_url}), 4 * THOROUGH)


@pytest.mark.timeout(600)
def test_redis_agrees_with_the_oracle(valkey: ValkeyServer):
    walk(type("OnThisServer", (RedisMachine,), {"server": valkey}), 8 * THOROUGH)
