"""For more than one machine: everything under one prefix of a Redis or Valkey server.

    url          what the store's URL says              connections  lent to one call, ended when in doubt
    scripts/     one Lua file per operation             tables       what all slices stand on: asking, definitions
    failures     the server's errors in our words       wakeup       hints from process to process
    persistence  what the server keeps when it dies     rows         what is asked and answered, as our values
    sweeps       decisions about many runs, in steps    capping      how many finished runs are kept
    jobs control plan runs checkpoints nodes queues upkeep history finding documents

Every operation is one script, so each is atomic, and goes by the server's clock. What was acknowledged survives what
the server's persistence says (`RedisStore.persistence`): no more, and the store tells when it was less.
"""

from __future__ import annotations

from typing import Self

from onthedot.errors import OnTheDotError
from onthedot.stores.redis.capping import take_history
from onthedot.stores.redis.checkpoints import Checkpoints
from onthedot.stores.redis.control import Control
from onthedot.stores.redis.documents import Documents
from onthedot.stores.redis.finding import Finding
from onthedot.stores.redis.letters import Letters
from onthedot.stores.redis.nodes import Nodes
from onthedot.stores.redis.plan import Plan
from onthedot.stores.redis.sweeps import STEP
from onthedot.stores.redis.upkeep import Upkeep
from onthedot.stores.redis.url import read_url
from onthedot.stores.values import About


class RedisStore(Control, Plan, Checkpoints, Nodes, Upkeep, Finding, Letters, Documents):
    """All of it under one prefix of a server."""

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Self:
        """Connect to the server, and see that it is fit to keep what is acknowledged.

        With `read_only` nothing is written, and only what people ask for is answered. `StoreUnusable` for a server that
        is too old, forgets keys to make room, or does not let the user in; `StoreUnavailable` for one that cannot be
        reached; either says what to do.
        """
        url, most_finished = take_history(url)
        store = cls(read_url(url), read_only=read_only)
        store.most_finished = most_finished
        try:
            await store.connect()
            if not read_only:
                await store.namespace_gates()
        except OnTheDotError:
            await store.close()
            raise
        return store

    async def namespace_gates(self) -> None:
        """Bring a store of an earlier version up to date. Nobody who comes by here goes on before it is done."""
        if await self.ask("namespace_gates") == "0":
            return
        jobs = await self.list_jobs()
        rates = {(one.job.namespace, one.job.rate.name) for one in jobs if one.job.rate is not None}
        names = sorted((namespace, name) for namespace, name in rates if name and namespace != "default")
        for what in ("rates", "runs"):
            cursor = await self._page_of_gates(what, "0", names)
            while cursor != "0":
                cursor = await self._page_of_gates(what, cursor, names)

    async def _page_of_gates(self, what: str, cursor: str, names: list[tuple[str, str]]) -> str:
        said = await self.ask("namespace_gates", what=what, cursor=cursor, rows=STEP, names=names)
        return str(said)

    async def about(self) -> About:
        info = await self.server_info()
        valkey = info.get("valkey_version")
        version = valkey or info.get("redis_version", "unknown")
        product = "Valkey" if valkey else "Redis"
        return About(product, version, str(self.persistence), self.address.connections)


__all__ = ["RedisStore"]
