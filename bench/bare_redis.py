"""A bare loop on Redis: the driver's own scripts on one plain connection, one no-op task per run.

A script that takes and arms a batch, a no-op task for each run, a script that finishes the batch. There is no engine,
no lease to renew, no look at definitions; questions and answers are read as they are.
"""

from __future__ import annotations

import json
from typing import Any

from bench.bare import TASKS, perform
from onthedot.ids import SeededIds
from onthedot.stores.redis.connections import Connection, maker, open_connection, read_url, talk
from onthedot.stores.redis.scripts import script
from onthedot.stores.redis.store import MAX_BATCH

_LONG = 10**12
_SUCCEEDED = {"state": "succeeded", "outcome": "succeeded", "reason": ""}


class Bare:
    """One connection, and the scripts that it knows by name."""

    def __init__(self, db: Connection, tag: str, most_finished: int) -> None:
        self._db, self._tag, self._most_finished = db, tag, most_finished

    @classmethod
    async def connect(cls, url: str) -> Bare:
        """A connection with the driver's settings; the server has read the scripts."""
        address = read_url(url)
        db = maker(address)()
        await open_connection(db)
        for name in ("beat", "submit", "reserve", "finish"):
            await talk(db, "SCRIPT", "LOAD", script(name).text)
        return cls(db, address.tag, address.history)

    async def ask(self, name: str, **fields: Any) -> Any:
        """What a script says."""
        text = json.dumps({"me": "bare", "writes": 1, **fields}, separators=(",", ":"))
        return (await talk(self._db, "EVALSHA", script(name).sha, 1, self._tag, text))[2]

    async def register(self, name: str) -> None:
        node = {"id": name, "incarnation": name, "roles": [], "queues": [], "labels": [], "tasks": []}
        blank = {"host": "", "pid": 0, "seats": 0, "draining": False, "tzdata": ""}
        await self.ask("beat", incarnation=name, ttl=_LONG, node=node | blank)

    async def drain(self, executed: list[int], seed: int, name: str) -> None:
        """Take, perform, finish, until nothing is left that nobody else has; which runs were executed."""
        ids = SeededIds(f"{name} {seed}")
        await self.register(name)
        asked = {
            "incarnation": name, "seats": MAX_BATCH, "ahead": 0, "extra": 0, "quick": [], "horizon": 0, "lapse": 0,
            "queues": ["default"], "labels": [], "tasks": sorted(TASKS), "number": 0, "turns": MAX_BATCH,
            "looks": MAX_BATCH,
        }  # fmt: skip
        while True:
            (rows, _), *_ = await self.ask("reserve", lease_ids=ids.leases(MAX_BATCH), **asked)
            if not rows:
                return
            started_at, ended_at = await perform([row[1] for row in rows], executed)
            instants = {"started": started_at, "ended": ended_at}
            finishes = [{"run_id": row[1], "lease": row[0], **_SUCCEEDED, **instants} for row in rows]
            said = await self.ask("finish", finishes=finishes, most=self._most_finished)
            assert all(said), "nobody else has these leases"

    async def close(self) -> None:
        await self._db.disconnect()
