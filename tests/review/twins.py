"""Two stores side by side: the same call to both, and what came of it in words that do not depend on the store.

Run ids need not be the same (SQLite draws numbers that it may not use), so a run is named by its key; nor which of the
lease ids that an ask brought goes to which run, so a lease is named by its run and its ask.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from onthedot.errors import OnTheDotError, StoreUnavailable
from onthedot.job import JobRecord
from onthedot.run import ArmAnswer, Armed, AttemptRecord, Blocked, Busy, Lease, RunRecord, Skipped
from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Parent, PutJob
from onthedot.window import ScheduleState
from onthedot_verify.contract.workbench import Workbench
from tests.review.dictionaries import DictStore

T = TypeVar("T")
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None

Call = Callable[["Twin"], Awaitable[Any]]


class Twin:
    """One of the two: its store, its bench, and the names of its runs."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.bench = Workbench(store)
        self.with_fences = True  # PostgreSQL may arm the runs of one call in another order
        self.names: dict[int, str] = {}
        self.lease_names: dict[str, str] = {}

    async def learn(self) -> None:
        """Note every run by its key."""
        for run in sorted(await self.store.list_runs(limit=100_000), key=lambda run: run.id):
            self.names.setdefault(run.id, f"{run.job}/{self.trigger(run.trigger)}/{run.slot_at}")

    def trigger(self, trigger: str) -> str:
        """What asked for a run; another run, by its name."""
        kind, _, of = trigger.partition(":")
        return f"after:{self.names[int(of)]}" if kind == "after" else trigger

    def id_of(self, name: str) -> int:
        return next(run_id for run_id, one in reversed(self.names.items()) if one == name)

    def plain(self, value: Any) -> Any:
        """The value without anything that two stores may choose for themselves."""
        match value:
            case Lease():
                return (
                    self.plain(value.lease_id), self.names[value.run_id], value.record.id, value.record.revision,
                    value.due_at, value.args, value.attempt, value.failures, value.recoveries, value.incarnation,
                    value.reserved_at, value.armed_at, value.fence * self.with_fences,
                )  # fmt: skip
            case Armed() if not self.with_fences and value.fence:
                return self.plain(value._replace(fence=0))
            case AttemptRecord() if not self.with_fences and value.fence:
                return self.plain(replace(value, fence=0))
            case RunRecord():
                said = re.sub(r"run (\d+)", lambda found: self.names[int(found[1])], value.reason)
                rest = [
                    getattr(value, one.name) for one in fields(value) if one.name not in ("id", "reason", "trigger")
                ]
                return (self.names[value.id], said, *rest)  # its name says what asked for it
            case Parent():
                return (value.name, value.run_id and self.names[value.run_id], value.ended_at)
            case Busy() | Blocked() | Skipped():
                return (type(value).__name__, value.gate, self.names[value.holder])
            case ScheduleState() | PutJob():  # SQLite tells why a job is paused with the job itself only
                rest = [self.plain(getattr(value, one.name)) for one in fields(value) if one.name != "record"]
                return (value.record.id, value.record.revision, value.record.state, *rest)
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

    async def gates(self) -> tuple[dict[str, set[str]], dict[str, str]]:
        """Who holds which gate, and who waits at which."""
        raise NotImplementedError


class DictTwin(Twin):
    store: DictStore

    def __init__(self) -> None:
        super().__init__(DictStore())

    async def gates(self) -> tuple[dict[str, set[str]], dict[str, str]]:
        holders, runs = self.store.holders, self.store.runs.values()
        for run in runs:  # its two tables agree
            assert {gate.key for gate in run.gates} == {key for key, held_by in holders.items() if run.id in held_by}
        held = {key: {self.names[run_id] for run_id in held_by} for key, held_by in holders.items() if held_by}
        return held, {self.names[run.id]: run.blocked_on.key for run in runs if run.blocked_on}


class SqliteTwin(Twin):
    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self._sqlite = store

    async def gates(self) -> tuple[dict[str, set[str]], dict[str, str]]:
        held: dict[str, set[str]] = {}
        for key, run_id in await self._rows("SELECT key, run_id FROM gate_holders"):
            held.setdefault(key, set()).add(self.names[run_id])
        blocked = await self._rows("SELECT blocked_on, id FROM runs WHERE blocked_on IS NOT NULL")
        return held, {self.names[run_id]: key for key, run_id in blocked}

    async def _rows(self, statement: str) -> list[tuple[str, int]]:
        return await self._sqlite.database.writer.run(lambda tx: tx.db.execute(statement).fetchall())


class Twins:
    """Both, on one loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(dir=FAST)
        self.dicts = DictTwin()
        self.pair: tuple[Twin, Twin] = (self.dicts, self.other())

    def other(self) -> Twin:
        """The one beside the dictionaries."""
        return SqliteTwin(self.do(SqliteStore.open(Path(self._folder.name) / "otd.db", inline=True)))

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def close(self) -> None:
        for twin in self.pair:
            self.do(twin.store.close())
        self.loop.close()
        self._folder.cleanup()

    def turn_to(self, now: int) -> None:
        for twin in self.pair:
            twin.bench.now = now

    def both(self, call: Call) -> tuple[Any, Any]:
        """Make the same call to both; what they said must be the same."""
        first, second = (self.do(self._ask(twin, call)) for twin in self.pair)
        plain = [twin.plain(answer) for twin, answer in zip(self.pair, (first, second), strict=True)]
        assert plain[0] == plain[1], f"the twins answer differently: {plain[0]} and {plain[1]}"
        return first, second

    async def _ask(self, twin: Twin, call: Call) -> Any:
        """A server that was too slow is asked again, as every caller does. Locks are no excuse: nobody else is here."""
        for _ in range(2):
            try:
                return await self._ask_once(twin, call)
            except StoreUnavailable as error:
                if "others had it" in str(error):
                    raise
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
        """All that can be seen of both is the same."""
        first, second = (self.do(self._seen(twin)) for twin in self.pair)
        for what, was in first.items():
            assert was == second[what], f"the twins differ in {what}"

    async def _seen(self, twin: Twin) -> dict[str, Any]:
        seen = {what: twin.plain(value) for what, value in (await twin.bench.everything()).items()}
        seen["runs"] = twin.plain(await twin.bench.runs())  # in the order in which they are listed
        seen["attempts"] = sorted(seen["attempts"], key=repr)
        seen["attempts"] = [[one[2:] for one in of_run] for of_run in seen["attempts"]]  # without the run's number
        seen["gates"] = await twin.gates()
        jobs = await twin.store.list_jobs()
        seen["parents"] = [[twin.plain(one) for one in await twin.store.parents_of(job.id)] for job in jobs]
        return seen


def answered(answers: Iterable[ArmAnswer], kind: type[Any]) -> bool:
    """Whether all of them are of this kind."""
    return all(isinstance(answer, kind) for answer in answers)
