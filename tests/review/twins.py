"""Makes the same calls to the SQL store and to the Redis store, and compares their answers and contents.

Their run ids may differ (the SQL store draws numbers that it may not use), so a run is named by its key. A run may get
another lease id of the same request, so a lease is named by its run and the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from onthedot.model.errors import OnTheDotError, StoreUnavailable
from onthedot.model.job import JobRecord
from onthedot.model.run import Blocked, Busy, Lease, RunRecord, Skipped
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.redis import RedisStore
from onthedot.stores.values import Parent
from onthedot_verify.contract.workbench import Workbench
from tests.servers.valkey import ValkeyServer

T = TypeVar("T")

Call = Callable[["Twin"], Awaitable[Any]]
Gates = tuple[dict[str, set[str]], dict[str, str]]


class Twin:
    """One of the two stores, with its workbench and the names of its runs and leases."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.bench = Workbench(store)
        self.names: dict[int, str] = {}
        self.lease_names: dict[str, str] = {}

    async def close(self) -> None:
        await self.store.close()

    async def learn(self) -> None:
        """Give every new run its name: job, trigger and slot."""
        for run in sorted(await self.store.queries.list_runs(limit=100_000), key=lambda run: run.id):
            self.names.setdefault(run.id, f"{run.job}/{self.trigger(run.trigger)}/{run.slot_at}")

    def trigger(self, trigger: str) -> str:
        """Return the trigger of a run; in `after:`, with the name of the other run instead of its id."""
        kind, _, of = trigger.partition(":")
        return f"after:{self.names[int(of)]}" if kind == "after" else trigger

    def id_of(self, name: str) -> int:
        return next(run_id for run_id, one in reversed(self.names.items()) if one == name)

    def plain(self, value: Any) -> Any:
        """Return the value without the ids that each store may choose by itself."""
        match value:
            case Lease():
                return (
                    self.plain(value.lease_id), self.names[value.run_id], value.record.id, value.record.revision,
                    value.due_at, value.args, value.attempt, value.failures, value.recoveries, value.incarnation,
                    value.reserved_at, value.armed_at, value.fence,
                )  # fmt: skip
            case RunRecord():
                said = re.sub(r"run (\d+)", lambda found: self.names[int(found[1])], value.reason)
                rest = [
                    getattr(value, one.name) for one in fields(value) if one.name not in ("id", "reason", "trigger")
                ]
                return (self.names[value.id], said, *rest)  # its name contains the trigger
            case Parent():
                return (value.name, value.run_id and self.names[value.run_id], value.ended_at)
            case Busy() | Blocked() | Skipped():
                return (type(value).__name__, value.gate, self.names[value.holder])
            case JobRecord():
                return tuple(getattr(value, one.name) for one in fields(value))
            case Exception():
                return type(value).__name__
            case str():
                return self.lease_names.get(value, value)
            case dict():
                return {key: self.plain(one) for key, one in value.items()}
            case tuple() if hasattr(value, "_fields"):
                return (type(value).__name__, *map(self.plain, value))
            case list() | tuple():
                return [self.plain(one) for one in value]
            case _ if is_dataclass(value) and not isinstance(value, type):
                return (type(value).__name__, *(self.plain(getattr(value, one.name)) for one in fields(value)))
        return value

    def gates(self) -> Gates:
        """Return the holders of each gate, and the gate at which each blocked run waits."""
        raise NotImplementedError


class SqlTwin(Twin):
    """The SQL store, in memory."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        super().__init__(self.memory)

    def rows(self, statement: str) -> list[Any]:
        """Return the rows of a query."""
        return self.memory.database.db.execute(statement).fetchall()

    def running(self) -> set[str]:
        """Return the lease ids of the running attempts."""
        return {lease_id for (lease_id,) in self.rows("SELECT lease_id FROM runs WHERE state = 'running'")}

    def gates(self) -> Gates:
        held: dict[str, set[str]] = {}
        for key, run_id in self.rows("SELECT key, run_id FROM gate_holders"):
            held.setdefault(key, set()).add(self.names[run_id])
        blocked = self.rows("SELECT id, blocked_on FROM runs WHERE blocked_on IS NOT NULL")
        return held, {self.names[run_id]: key for run_id, key in blocked}


class RedisTwin(Twin):
    """The Redis store, on a server of its own."""

    def __init__(self, store: RedisStore, server: ValkeyServer) -> None:
        super().__init__(store)
        self._db: Any = server.client()

    async def close(self) -> None:
        self._db.close()
        await super().close()

    def gates(self) -> Gates:
        held = self._members("holders")
        blocked = {name: key for key, names in self._members("waiting").items() for name in names}
        return held, blocked

    def _members(self, kind: str) -> dict[str, set[str]]:
        start = f"{{onthedot}}:{kind}:"
        found = {key.removeprefix(start): self._db.zrange(key, 0, -1) for key in self._db.keys(start + "*")}
        return {key: {self.names[int(run_id)] for run_id in members} for key, members in found.items()}


class Twins:
    """Both stores, on one event loop."""

    def __init__(self, server: ValkeyServer) -> None:
        self.loop = asyncio.new_event_loop()
        self.sql = SqlTwin()
        server.empty()
        self.pair: tuple[Twin, Twin] = (self.sql, RedisTwin(self.do(RedisStore.open(server.url())), server))

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def close(self) -> None:
        for twin in self.pair:
            self.do(twin.close())
        self.loop.close()

    def turn_to(self, now: int) -> None:
        for twin in self.pair:
            twin.bench.now = now

    def both(self, call: Call) -> tuple[Any, Any]:
        """Make the same call to both, check that the answers are equal, and return both."""
        first, second = (self.do(self._ask(twin, call)) for twin in self.pair)
        plain = [twin.plain(answer) for twin, answer in zip(self.pair, (first, second), strict=True)]
        assert plain[0] == plain[1], f"expected equal answers, got {plain[0]} from SQL and {plain[1]} from Redis"
        return first, second

    async def _ask(self, twin: Twin, call: Call) -> Any:
        """Make the call, and repeat it if the server was too slow, as every caller does."""
        for _ in range(2):
            with suppress(StoreUnavailable):
                return await self._ask_once(twin, call)
        return await self._ask_once(twin, call)

    async def _ask_once(self, twin: Twin, call: Call) -> Any:
        try:
            answer = await call(twin)
        except StoreUnavailable:
            raise
        except OnTheDotError as error:
            answer = error
        await twin.learn()
        return answer

    def compare(self) -> None:
        """Check that the visible content of both stores is equal."""
        first, second = (self.do(self._seen(twin)) for twin in self.pair)
        for what, was in first.items():
            assert was == second[what], f"expected equal {what} in both stores"

    async def _seen(self, twin: Twin) -> dict[str, Any]:
        seen = {what: twin.plain(value) for what, value in (await twin.bench.everything()).items()}
        seen["runs"] = twin.plain(await twin.bench.runs())  # in the order of the listing
        seen["attempts"] = sorted(seen["attempts"], key=repr)
        seen["attempts"] = [[one[2:] for one in of_run] for of_run in seen["attempts"]]  # without the id of the run
        seen["gates"] = twin.gates()
        jobs = await twin.store.queries.list_jobs()
        seen["parents"] = [[twin.plain(one) for one in await twin.store.queries.parents_of(job.id)] for job in jobs]
        return seen
