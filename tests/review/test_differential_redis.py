"""The dictionaries and Redis say and show the same: both driven by the same random calls."""

from __future__ import annotations

import pytest

from onthedot.stores.redis import RedisStore
from tests.review.test_differential import Machine, walk
from tests.review.test_places import crowd
from tests.review.twins import Twin, Twins
from tests.servers.valkey import ValkeyServer


class RedisTwin(Twin):
    def __init__(self, store: RedisStore, server: ValkeyServer) -> None:
        super().__init__(store)
        self._server = server

    async def gates(self) -> tuple[dict[str, set[str]], dict[str, str]]:
        held = self._members("holders")
        blocked = {name: key for key, names in self._members("waiting").items() for name in names}
        return held, blocked

    def _members(self, kind: str) -> dict[str, set[str]]:
        start = f"{{onthedot}}:{kind}:"
        with self._server.client() as db:
            found = {key.removeprefix(start): db.zrange(key, 0, -1) for key in db.keys(start + "*")}
        return {key: {self.names[int(run_id)] for run_id in members} for key, members in found.items()}


class RedisTwins(Twins):
    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        super().__init__()

    def other(self) -> Twin:
        self._server.empty()
        return RedisTwin(self.do(RedisStore.open(self._server.url())), self._server)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is worth the time it takes to find its shortest form
def test_dictionaries_and_redis_do_the_same(valkey: ValkeyServer):
    class OnThisServer(Machine):
        def make_twins(self) -> Twins:
            return RedisTwins(valkey)

    walk(OnThisServer, 20)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dictionaries_and_redis_do_the_same_at_full_limits(valkey: ValkeyServer):
    crowd(lambda: RedisTwins(valkey), 3)
