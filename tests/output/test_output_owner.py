"""The owner of output: each store has a folder of its own in a shared location, and records where it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from onthedot.clock import SystemClock
from onthedot.ids import RandomIds
from onthedot.model.errors import StoreError
from onthedot.model.events import Event, Events, OutputsPruned
from onthedot.model.retention import HOUR
from onthedot.node.output_upkeep import OutputPruner
from onthedot.output.output_owner import ID, KIND, Owner, claim_output, find_owner
from onthedot.output.output_store import Name, OutputStore
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.node.test_output_upkeep import Led
from tests.servers.s3 import S3Server

IDS = RandomIds()


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/otd.db"}
    servers = {"postgres": "postgres_url", "redis": "valkey_url"}
    kind = request.param
    opened = await open_store(urls[kind] if kind in urls else request.getfixturevalue(servers[kind]))
    yield opened
    await opened.close()


async def test_concurrent_claims_agree_on_one_folder(store: Store):
    assert await find_owner(store) == Owner("")
    owners = await asyncio.gather(*(claim_output(store, "s3://logs/a?region=eu", IDS) for _ in range(8)))
    assert len(set(owners)) == 1
    assert await find_owner(store) == owners[0] == Owner(owners[0].folder, "s3://logs/a?region=eu")


async def test_a_store_keeps_its_folder_when_the_location_changes(store: Store, tmp_path: Path):
    first = await claim_output(store, "s3://logs/a", IDS)
    second = await claim_output(store, str(tmp_path), IDS)
    assert second == Owner(first.folder, str(tmp_path))
    assert await claim_output(store, "", IDS) == await find_owner(store) == Owner(first.folder)


async def test_a_relative_location_is_stored_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert (await claim_output(MemoryStore(), "here", IDS)).output == str(tmp_path / "here")


async def test_the_default_location_is_not_stored():
    store = MemoryStore()
    assert await claim_output(store, "", IDS) == Owner("")
    assert await store.documents.get_document(KIND, ID) is None


@pytest.mark.parametrize("body", ["[]", '{"folder": "../..", "output": ""}', '{"folder": 7, "output": ""}'])
async def test_a_stored_folder_that_is_no_id_is_refused(body: str):
    store = MemoryStore()
    await store.documents.put_document(KIND, ID, body, version=0)
    with pytest.raises(StoreError, match="32 hexadecimal digits"):
        await find_owner(store)


@pytest.fixture(params=["directory", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "directory":
        return str(tmp_path / "shared")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.url(server.fresh_prefix())


async def test_two_stores_in_one_location_do_not_prune_each_other(shared: str, tmp_path: Path):
    """Neither store knows run 7. Each removes only its own copy."""
    (tmp_path / "log").write_text("")
    name = Name(7, 1, "a-1")
    stores = [MemoryStore(), MemoryStore()]
    outputs = [OutputStore((await claim_output(store, shared, IDS)).location(shared, None)) for store in stores]
    for each in outputs:
        await each.keep(name, tmp_path / "log")
    heard: list[Event] = []
    await pruner(stores[0], outputs[0], heard.append).tick(0)
    assert heard == [OutputsPruned(1)]
    assert await outputs[0].index(name) is None
    assert await outputs[1].index(name) is not None


def pruner(store: Store, outputs: OutputStore, hear: Callable[[Event], None]) -> OutputPruner:
    """A pruner whose clock is two hours ahead."""
    return OutputPruner(store, Led(), outputs, Events([hear]), lambda: SystemClock().now() + 2 * HOUR)  # type: ignore[arg-type]
