"""`rediss://` uses TLS, and only with a server that has the right certificate. Debian's redis-server supports TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.errors import StoreUnavailable, StoreUnusable
from onthedot.model.job import Call, Job
from onthedot.stores.redis import RedisStore
from tests.servers import setup
from tests.servers.debian_redis import DebianRedis
from tests.servers.plugin import need

pytestmark = pytest.mark.slow

RULES = ["on", ">pass", "~{shop}:*", "~{shop}", "&{shop}:*", "+@all", "-@admin", "-@dangerous", "+info"]


@pytest.fixture(scope="module")
def server() -> Iterator[DebianRedis]:
    need(setup.REDIS)
    with DebianRedis(tls=True) as server:
        yield server


async def test_every_connection_uses_tls(server: DebianRedis):
    with server.client() as db:
        db.config_set("port", 0)  # from now on only TLS is possible
    sched = otd.Scheduler(server.tls_url())

    @sched.job
    async def double(number: int) -> int:
        return number * 2

    async with sched:
        run = await sched.submit("double", {"number": 21})
        assert await run.result(timeout="20s") == 42
    store = await RedisStore.open(server.tls_url())
    assert store.listener is not None
    await asyncio.wait_for(store.listener.listening.wait(), 10)  # also the connection for hints
    await store.close()


async def test_a_closed_store_leaves_no_connection_open(server: DebianRedis):
    """A TLS connection waits for the server to close it. This loop ends before that."""
    before = _open_sockets()
    store = await RedisStore.open(server.tls_url())
    await asyncio.gather(*(store.queries.get_job(f"job{number}") for number in range(5)))
    assert store.listener is not None
    await asyncio.wait_for(store.listener.listening.wait(), 10)
    assert _open_sockets() > before
    await store.close()
    await asyncio.sleep(0)
    assert _open_sockets() == before


def _open_sockets() -> int:
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(one).startswith("socket:")
    return found


async def test_the_documented_user_can_connect(server: DebianRedis):
    store = await RedisStore.open(server.tls_url())
    home = await store.redis._homes.here()
    await home.call("ACL", "SETUSER", "shop", "reset", *RULES)
    await store.close()
    shop = await RedisStore.open(server.tls_url(user="shop", password="pass") + "&prefix=shop")
    assert (await shop.put_job(Job(name="job", task=Call(handler="work")))).change == "created"
    await shop.close()
    with pytest.raises(StoreUnusable, match="it does not let this user in"):
        await RedisStore.open(server.tls_url(user="shop", password="wrong") + "&prefix=shop")


async def test_another_host_or_an_unknown_certificate_is_refused(server: DebianRedis):
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await RedisStore.open(server.tls_url(host="127.0.0.1"))
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await RedisStore.open(server.tls_url().partition("?")[0])


async def test_a_plain_text_connection_is_refused(server: DebianRedis):
    plain = server.tls_url().partition("?")[0].replace("rediss:", "redis:")
    with pytest.raises(StoreUnavailable, match="expected a server that answers"):
        await RedisStore.open(plain)
