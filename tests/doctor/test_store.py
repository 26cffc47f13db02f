"""The store as a doctor sees it: reachable, which it is, what it keeps, its clock; and it is only read."""

from __future__ import annotations

from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.doctor.findings import Finding
from onthedot.doctor.store import _clock, _way, look_at_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.redis import RedisStore
from onthedot.stores.sqlite import SqliteStore


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


async def seen(url: str, *, wanted: bool = True, settings: otd.Settings | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in await look_at_store(url, settings or otd.Settings(), wanted=wanted)}


async def test_a_file(tmp_path: Path):
    await (await SqliteStore.open(tmp_path / "otd.db")).close()
    found = await seen(f"sqlite:///{tmp_path}/otd.db")
    assert "SQLite 3." in found["store"].found
    assert found["store"].found.endswith("tables up to date")
    assert found["clock"].found == "this machine's own is the store's"
    assert {finding.state for finding in found.values()} == {"ok"}


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/none.db"
    assert (await seen(url))["store"].is_fault
    found = (await seen(url, wanted=False))["store"]
    assert (found.state, found.is_fault) == ("missing", False)
    assert is_empty(tmp_path)


async def test_a_file_that_is_no_store(tmp_path: Path):
    (tmp_path / "otd.db").write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    found = (await seen(f"sqlite:///{tmp_path}/otd.db"))["store"]
    assert (found.state, found.is_fault) == ("broken", True)
    assert "otd.db" in found.found


async def test_postgresql(postgres_url: str):
    broken = (await seen(postgres_url))["store"]
    assert "expected schema version 4, got 0" in broken.found
    await (await PostgresStore.open(postgres_url)).close()
    found = await seen(f"{postgres_url}?connections=7")
    assert ": PostgreSQL 1" in found["store"].found
    assert "fsync" in found["kept"].found
    assert "7 connections" in found["pools"].found
    assert found["clock"].state == "ok"
    assert "the store's (±" in found["clock"].found


async def test_redis(valkey_url: str):
    await (await RedisStore.open(valkey_url)).close()
    found = await seen(valkey_url)
    assert ": Valkey " in found["store"].found
    assert "a crash of the server's machine may lose" in found["kept"].found
    assert found["clock"].state == "ok"


@pytest.mark.parametrize(
    ("url", "state", "words"),
    [
        ("postgresql://db/shop?sslmode=disable", "missing", "not encrypted"),
        ("postgresql://db/shop?sslmode=require", "missing", "encrypted, but another server can pretend to be it"),
        ("postgresql://db/shop", "ok", "encrypted, and the server's certificate is checked"),
        ("redis://db/0?tls=off", "missing", "not encrypted"),
        ("rediss://db/0", "ok", "encrypted"),
    ],
)
def test_the_way_to_another_machine(url: str, state: str, words: str):
    [found] = _way(url)
    assert (found.name, found.state, found.is_fault) == ("connection", state, False)
    assert found.found.startswith(words)
    assert bool(found.remedy) == (state != "ok")
    assert _way("postgresql://localhost/shop") == _way("redis://127.0.0.1/0") == _way("sqlite:///jobs.db") == []


async def test_a_server_that_is_not_there():
    found = (await seen("postgresql://127.0.0.1:1/none?timeout=1"))["store"]
    assert (found.state, found.is_fault) == ("broken", True)
    assert "127.0.0.1:1" in found.found


async def test_no_password_is_told():
    found = (await seen("postgresql://ann:hidden@127.0.0.1:1/none?timeout=1"))["store"]
    assert "hidden" not in str(found)


async def test_a_url_that_is_none():
    with pytest.raises(otd.DefinitionError, match="store URL"):
        await seen("mysql://x")


async def test_memory():
    assert (await seen("memory:"))["store"].state == "ok"


async def test_pools_are_those_of_the_settings(tmp_path: Path):
    await (await SqliteStore.open(tmp_path / "otd.db")).close()
    settings = otd.Settings(seats=9, processes=3, roles=("worker",))
    found = (await seen(f"sqlite:///{tmp_path}/otd.db", settings=settings))["pools"]
    assert found.found == "9 seats and 3 processes execute"


async def test_pools_of_planning_and_of_the_api(postgres_url: str):
    await (await PostgresStore.open(postgres_url)).close()
    settings = otd.Settings(roles=("planner",), batch=7, api_rate=2.5, api_burst=9, api_followers=8, api_connections=3)
    found = (await seen(f"{postgres_url}?connections=7", settings=settings))["pools"]
    assert found.found == (
        "7 runs to a write are planned, 30 s ahead; the API takes 2.5 requests a second of a key, 9 at once, and "
        "8 followers; 7 connections to the store for each event loop; 3 for the API's"
    )


@pytest.mark.parametrize(
    ("ahead", "state", "words"), [(0, "ok", "0.00"), (90 * SECOND, "broken", "90.0"), (-90 * SECOND, "broken", "90.0")]
)
async def test_a_clock_that_is_off(ahead: int, state: str, words: str):
    class Standing(SystemClock):
        """So that what a busy machine takes between two looks is no distance between two clocks."""

        def now(self) -> int:
            return 1_800_000_000 * SECOND

    class Elsewhere(MemoryStore):
        @property
        def clock(self) -> None:  # type: ignore[override]
            """It is on another machine."""

        async def tell_time(self) -> int:
            return Standing().now() + ahead

    store = Elsewhere()
    found = await _clock(store, Standing())
    assert (found.state, words in found.found or ahead != 0) == (state, True)
    if ahead:
        assert ("behind the store's" if ahead > 0 else "ahead of the store's") in found.found
