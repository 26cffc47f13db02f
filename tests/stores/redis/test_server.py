"""Hints travel between processes. If they are lost, only latency suffers."""

from __future__ import annotations

from onthedot.stores.redis import RedisStore
from onthedot.stores.values import Node
from tests.servers.valkey import ValkeyServer
from tests.stores.heard_hints import record_hints, wait_for_hint, wait_listening

TTL = 10_000_000


async def test_a_write_of_one_store_sends_a_hint_to_others_and_once_to_itself(stores: list[RedisStore]):
    await wait_listening(*stores)
    mine, others = record_hints(stores[0]), [record_hints(store) for store in stores[1:]]
    await stores[0].resume_queue("mail")
    for heard in others:
        await wait_for_hint(heard, "runs")
    await stores[1].probe()
    await wait_for_hint(mine, "beats")
    assert mine == ["runs", "beats"]  # its own with the answer, and not again from the server


async def test_a_heartbeat_sends_no_hint(stores: list[RedisStore]):
    await wait_listening(*stores)
    heard = record_hints(stores[1])
    await stores[0].register(Node(id="node", incarnation="one"), ttl=TTL)
    await stores[0].beat("one", ttl=TTL)
    await stores[0].probe()
    await wait_for_hint(heard, "beats")
    assert heard == ["beats"]


async def test_stores_with_different_prefixes_exchange_no_hints(store: RedisStore, valkey_url: str):
    other = await RedisStore.open(valkey_url + "?prefix=other")
    await wait_listening(store, other)
    heard = record_hints(other)
    await store.resume_queue("mail")
    await other.probe()
    await wait_for_hint(heard, "beats")
    assert heard == ["beats"]
    await other.close()


async def test_a_listener_that_lost_its_server_reconnects_and_sends_all_hints(store: RedisStore, valkey: ValkeyServer):
    await wait_listening(store)
    heard = record_hints(store)
    with valkey.client() as db:
        db.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    await wait_for_hint(heard, "runs")
    assert set(heard) == {"runs", "schedules", "beats", "terms", "ends"}
