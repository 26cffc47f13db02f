"""Redis servers that are away, unsuitable or full, and cancelled calls: errors and recovery."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from onthedot.clock import SECOND
from onthedot.model.errors import DefinitionError, StateError, StoreUnavailable, StoreUnusable
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger
from onthedot.stores.connect import open_store
from onthedot.stores.redis import RedisStore, server
from onthedot.stores.redis.server import check_server, read_persistence
from onthedot.stores.values import Node
from onthedot_verify.contract.workbench import Workbench, at, window
from tests.servers.valkey import ValkeyServer

TTL = 10 * SECOND


async def test_a_server_that_is_not_running_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}/0: expected a server that answers") as away:
        await RedisStore.open(f"redis://me:secret@127.0.0.1:{port}/0")
    assert "secret" not in str(away.value)


async def test_a_wrong_password_makes_the_store_unusable(valkey: ValkeyServer):
    with pytest.raises(StoreUnusable, match="it does not let this user in"):
        await RedisStore.open(valkey.url(password="wrong"))


async def test_a_user_with_the_documented_rights_is_enough(valkey: ValkeyServer):
    """As docs/operate/redis.md asks for: its keys and its channel, and of the dangerous commands only INFO."""
    rules = ["on", ">pass", "~{shop}:*", "~{shop}", "&{shop}:*", "+@all", "-@admin", "-@dangerous", "+info"]
    with valkey.client() as db:
        db.execute_command("ACL", "SETUSER", "shop", "reset", *rules)
    store = await RedisStore.open(valkey.url(user="shop", password="pass") + "?prefix=shop")
    assert (await store.put_job(Job(name="job", task=Call(handler="work")))).change == "created"
    assert store.listener is not None
    await asyncio.wait_for(store.listener.listening.wait(), 10)
    await store.close()
    with pytest.raises(StoreUnusable, match="this user may not do that"):
        await RedisStore.open(valkey.url(user="shop", password="pass"))
    with valkey.client() as db:
        db.execute_command("ACL", "DELUSER", "shop")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_server_that_evicts_keys_is_refused(valkey_server: ValkeyServer, policy: str):
    with valkey_server.client() as db:
        db.config_set("maxmemory-policy", policy)
    with pytest.raises(StoreUnusable, match=f"got {policy}, which would forget jobs"):
        await RedisStore.open(valkey_server.url())


def test_an_old_server_is_refused():
    with pytest.raises(StoreUnusable, match=r"expected Redis 7 or Valkey, or a later one, got 6\.2\.14"):
        check_server({"redis_version": "6.2.14"}, "redis://host")


@pytest.mark.parametrize(
    ("info", "settings", "lost", "weak"),
    [
        ({"aof_enabled": "1"}, {"appendfsync": "always", "save": ""}, "", False),
        ({"aof_enabled": "1"}, {"appendfsync": "everysec", "save": ""}, "the last one or two seconds", False),
        ({"aof_enabled": "1"}, {"appendfsync": "no", "save": ""}, "what the system had not written yet", False),
        ({"aof_enabled": "1"}, {}, "what the system had not written yet", False),
        ({"aof_enabled": "0"}, {"save": "3600 1"}, "all since the last snapshot", True),
        ({"aof_enabled": "0"}, {"save": ""}, "everything", True),
        ({"aof_enabled": "0"}, {}, "all since the last snapshot, if there are any", True),
    ],
)
def test_the_durability_of_the_settings_is_reported(
    info: dict[str, str], settings: dict[str, str], lost: str, weak: bool
):
    promise = read_persistence(info, settings)
    assert (promise.lost, promise.is_weak) == (lost, weak)


@pytest.mark.slow
async def test_weak_persistence_gives_a_warning(caplog: pytest.LogCaptureFixture):
    with ValkeyServer(appendonly="no") as server:
        store = await RedisStore.open(server.url())
        await store.close()
    assert "memory only; a crash of the server's machine may lose everything" in caplog.text


async def test_a_full_server_refuses_writes_and_keeps_its_data(valkey_server: ValkeyServer):
    store = await RedisStore.open(valkey_server.url())
    record = (await store.put_job(Job(name="job", task=Call(handler="work")))).record
    [run_id] = await store.submit([NewRun(record.id, submit_trigger("one"), 0)])
    with valkey_server.client() as db:
        db.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="its memory is full"):
            await store.submit([NewRun(record.id, submit_trigger("two"), 0)])
        assert (await store.queries.get_run(run_id)) is not None
        db.config_set("maxmemory", 0)
    await store.submit([NewRun(record.id, submit_trigger("two"), 0)])
    assert len(await store.queries.list_runs()) == 2
    await store.close()


async def test_a_call_to_a_server_that_stops_answering_times_out(valkey_server: ValkeyServer):
    store = await RedisStore.open(valkey_server.url() + "?timeout=1")
    await store.register(Node(id="node", incarnation="one"), ttl=TTL)
    valkey_server.pause()
    with pytest.raises(StoreUnavailable, match="ask again"):
        await store.beat("one", ttl=TTL)
    valkey_server.resume()
    assert await beat_again(store)
    await store.close()


async def beat_again(store: RedisStore) -> bool:
    for _ in range(100):
        try:
            beat = await store.beat("one", ttl=TTL)
        except StoreUnavailable:
            continue
        return beat.lease_until == beat.now + TTL
    raise AssertionError("the store did not come back")


async def test_a_cancelled_call_leaves_no_answer_for_the_next(store: RedisStore):
    """Whenever the cancel comes, no call reads the answer of another one."""
    names = [f"job{number}" for number in range(4)]
    records = {name: (await store.put_job(Job(name=name, task=Call(handler="work")))).record for name in names}
    for turn in range(200):
        name = names[turn % 4]
        task = asyncio.ensure_future(store.queries.get_job(names[(turn + 1) % 4]))
        for _ in range(turn % 9):
            await asyncio.sleep(0)
        task.cancel()
        found = await store.queries.get_job(name)
        assert found == records[name]
        await asyncio.gather(task, return_exceptions=True)


async def test_many_calls_at_once_each_get_their_own_answer(store: RedisStore):
    names = [f"job{number}" for number in range(40)]
    await asyncio.gather(*(store.put_job(Job(name=name, task=Call(handler="work"))) for name in names))
    found = await asyncio.gather(*(store.queries.get_job(name) for name in names))
    assert [record.job.name for record in found if record is not None] == names
    assert len({record.id for record in found if record is not None}) == 40


async def test_a_closed_store_refuses_calls(valkey_url: str):
    store = await RedisStore.open(valkey_url)
    await store.close()
    await store.close()
    with pytest.raises(StateError, match="expected an open store, but it was closed"):
        await store.queries.list_jobs()


async def test_a_read_only_store_writes_nothing(store: RedisStore, valkey: ValkeyServer, valkey_url: str):
    await store.put_job(Job(name="job", task=Call(handler="work")))
    reader = await RedisStore.open(valkey_url, read_only=True)
    assert [record.job.name for record in await reader.queries.list_jobs()] == ["job"]
    with pytest.raises(StoreUnusable, match="opened for reading only"):
        await reader.put_job(Job(name="other", task=Call(handler="work")))
    await reader.close()


async def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(DefinitionError, match=r"pip install 'onthedot\[redis\]'"):
        await open_store("redis://host/0")


async def test_an_unreadable_definition_stops_only_its_own_job(store: RedisStore, valkey: ValkeyServer):
    bench = Workbench(store)
    bad, good = await bench.define("bad", slots=[10]), await bench.define("good", slots=[10])
    node = await bench.node(ttl=100)
    with valkey.client() as db:
        db.hset("{onthedot}:definitions", f"{bad.id}:1", '1\n{"name":')
    store.redis._definitions.clear()
    queries = store.queries
    assert [record.job.name for record in await queries.list_jobs()] == ["good"]
    with pytest.raises(StoreUnusable, match=r"job 1, revision 1: .*put the job again"):
        await queries.get_job("bad")
    due = await store.due_schedules(until=at(100), limit=1)
    assert ([state.record.id for state in due.schedules], due.more) == ([good.id], False)
    bench.turn(10)
    doomed = [await bench.submit(bad, due=10), (await bench.slot_run(bad, 10)).id]
    fine = await bench.slot_run(good, 10)
    assert [lease.run_id for lease in await bench.take(node, 5)] == [fine.id]
    for run_id in doomed:
        run = await queries.get_run(run_id)
        assert run is not None
        assert (run.state, run.reason, run.attempts) == (RunState.DEAD, "unreadable", 0)
    assert [lease.run_id for lease in await store.recover(node)] == [fine.id]
    bench.turn(200)
    assert [lease.run_id for lease in await store.orphans(limit=9, now=bench.now)] == [fine.id]
    assert (await bench.put(bench.job(name="bad"), window(60, 60), expected=None)).record.revision == 2
    assert await queries.get_job("bad") is not None  # a new definition repairs it


async def test_a_read_succeeds_while_cached_definitions_are_dropped(store: RedisStore, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b", "c"):
        await store.put_job(Job(name=name, task=Call(handler="work")))
    monkeypatch.setattr(server, "KEPT_DEFINITIONS", 1)
    store.redis._definitions.clear()
    for name in ("a", "b"):
        assert await store.queries.get_job(name) is not None
    assert len(await store.queries.list_jobs()) == 3
