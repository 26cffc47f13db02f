"""Hints cross between processes; losing them costs latency only."""

from __future__ import annotations

from onthedot.stores.redis import RedisStore
from onthedot.stores.values import Node
from tests.servers.valkey import ValkeyServer
from tests.stores.hearing import heard_by, listening, until

TTL = 10_000_000


async def test_what_one_writes_another_hears_and_itself_once(stores: list[RedisStore]):
    await listening(*stores)
    mine, others = heard_by(stores[0]), [heard_by(store) for store in stores[1:]]
    await stores[0].resume_queue("mail")
    for heard in others:
        await until(heard, "runs")
    await stores[1].probe()
    await until(mine, "beats")
    assert mine == ["runs", "beats"]  # its own with the answer, and not again by the server


async def test_a_beat_wakes_nobody(stores: list[RedisStore]):
    await listening(*stores)
    heard = heard_by(stores[1])
    await stores[0].register(Node(id="node", incarnation="one"), ttl=TTL)
    await stores[0].beat("one", ttl=TTL)
    await stores[0].probe()
    await until(heard, "beats")
    assert heard == ["beats"]


async def test_stores_with_other_prefixes_hear_nothing_of_each_other(store: RedisStore, valkey_url: str):
    other = await RedisStore.open(valkey_url + "?prefix=other")
    await listening(store, other)
    heard = heard_by(other)
    await store.resume_queue("mail")
    await other.probe()
    await until(heard, "beats")
    assert heard == ["beats"]
    await other.close()


async def test_a_listener_that_lost_its_server_listens_again_and_has_everybody_look(
    store: RedisStore, valkey: ValkeyServer
):
    await listening(store)
    heard = heard_by(store)
    with valkey.client() as db:
        db.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    await until(heard, "runs")
    assert set(heard) == {"runs", "schedules", "beats", "terms", "ends"}
