"""A bare loop on Redis: the driver's scripts on one plain connection, and one no-op task per run.

One script takes and arms a batch, then each run has a no-op task, and one script finishes the batch. There is no
engine and no lease renewal, and it decodes no definitions.
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
    """One connection with the scripts loaded."""

    def __init__(self, db: Connection, tag: str, most_finished: int) -> None:
        self._db, self._tag, self._most_finished = db, tag, most_finished

    @classmethod
    async def connect(cls, url: str) -> Bare:
        """Open a connection with the driver's settings, and load the scripts into the server."""
        address = read_url(url)
        db = maker(address)()
        await open_connection(db)
        for name in ("beat", "submit", "reserve", "finish"):
            await talk(db, "SCRIPT", "LOAD", script(name).text)
        return cls(db, address.tag, address.history)

    async def call(self, name: str, **fields: Any) -> Any:
        """Call a script, and return its answer."""
        text = json.dumps({"me": "bare", "writes": 1, **fields}, separators=(",", ":"))
        return (await talk(self._db, "EVALSHA", script(name).sha, 1, self._tag, text))[2]

    async def register(self, name: str) -> None:
        node = {"id": name, "incarnation": name, "roles": [], "queues": [], "labels": [], "tasks": []}
        blank = {"host": "", "pid": 0, "seats": 0, "draining": False, "tzdata": ""}
        await self.call("beat", incarnation=name, ttl=_LONG, node=node | blank)

    async def drain(self, executed: list[int], seed: int, name: str) -> None:
        """Take, execute and finish batches until no run is free. The ids are added to `executed`."""
        ids = SeededIds(f"{name} {seed}")
        await self.register(name)
        asked = {
            "incarnation": name, "seats": MAX_BATCH, "ahead": 0, "extra": 0, "quick": [], "horizon": 0, "lapse": 0,
            "queues": ["default"], "labels": [], "tasks": sorted(TASKS), "number": 0, "turns": MAX_BATCH,
            "looks": MAX_BATCH,
        }  # fmt: skip
        while True:
            (rows, _), *_ = await self.call(
                "reserve", lease_call=ids.leases(MAX_BATCH).call, lease_count=MAX_BATCH, **asked
            )
            if not rows:
                return
            started_at, ended_at = await perform([row[1] for row in rows], executed)
            instants = {"started": started_at, "ended": ended_at}
            finishes = [{"run_id": row[1], "lease": row[0], **_SUCCEEDED, **instants} for row in rows]
            said = await self.call("finish", finishes=finishes, most=self._most_finished)
            assert all(said), "expected to finish every run: these leases belong to this loop"

    async def close(self) -> None:
        await self._db.disconnect()
