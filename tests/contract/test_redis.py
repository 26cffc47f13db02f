"""The Redis store keeps the contract on Valkey, and its main parts on Debian's redis-server.

It runs again with steps of one run: the result must be the same for any length of a step.
"""

from __future__ import annotations

import pytest

from onthedot.stores.redis import RedisStore, queries
from onthedot_verify import contract
from tests.servers.debian_redis import DebianRedis


@pytest.mark.parametrize("check", contract.checks(), ids=str)
async def test_contract(check: contract.Check, valkey_url: str):
    store = await RedisStore.open(valkey_url)
    try:
        await check(contract.Workbench(store, contract.Capabilities(finds_attempts=False)))
    finally:
        await store.close()


SWEEPING = (
    "jobs", "edits", "control", "moved_slots", "queues", "retention", "upkeep", "cleanup", "gates", "overdue",
    "limit_places", "rates", "fixed_delays", "dependencies", "status",
)  # fmt: skip
"""Slices with decisions about many runs. `make soak` runs the other slices, too."""


@pytest.mark.parametrize(
    "check",
    [pytest.param(one, marks=[] if one.slice in SWEEPING else pytest.mark.soak) for one in contract.checks()],
    ids=str,
)
async def test_contract_in_steps_of_one_run(check: contract.Check, valkey_url: str):
    store = await RedisStore.open(valkey_url)
    store.redis.rows = 1
    try:
        await check(contract.Workbench(store, contract.Capabilities(finds_attempts=False)))
    finally:
        await store.close()


@pytest.mark.parametrize("check", [one for one in contract.checks() if one.slice == "queries"], ids=str)
@pytest.mark.parametrize(("scanned", "rows"), [(1, 1), (6, 3)])
async def test_pages_are_the_same_with_small_steps(
    check: contract.Check, scanned: int, rows: int, valkey_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "SCANNED", scanned)
    monkeypatch.setattr(queries, "ROWS", rows)
    await test_contract(check, valkey_url)


PARTS = (
    "reserve", "arm", "finish", "gates", "overdue", "limit_places", "rates", "control", "edits", "queues", "retention",
    "upkeep", "cleanup",
)  # fmt: skip


@pytest.mark.parametrize("check", [one for one in contract.checks() if str(one).startswith(PARTS)], ids=str)
async def test_contract_on_redis(check: contract.Check, debian_redis: DebianRedis):
    debian_redis.empty()
    store = await RedisStore.open(debian_redis.url())
    try:
        await check(contract.Workbench(store, contract.Capabilities(finds_attempts=False)))
    finally:
        await store.close()
