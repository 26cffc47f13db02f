"""`Trial`: makes the same call on a store and on the oracle, and compares all that the store shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from onthedot.model.errors import OnTheDotError, StoreUnavailable
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import TERMINAL
from onthedot.stores.protocol import Store
from onthedot_verify.contract.workbench import Workbench
from tests.contract.oracle import control, nodes, queues, show
from tests.contract.oracle.promises import check_gates
from tests.contract.oracle.world import Run, World

T = TypeVar("T")


class Trial:
    """A store, and the oracle's world."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.store = store
        self.bench = Workbench(store)
        self.world = World()
        self._seen: dict[int, int] = {}  # by run: a hash of its attempts and notes at the last look

    def close(self) -> None:
        self.do(self.store.close())
        self.loop.close()

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def both(self, call: Callable[[], Coroutine[Any, Any, T]], expected: Callable[[T], Any]) -> T | None:
        """Make a call on the store and on the oracle, which must give the same answer or the same error. Returns the
        answer, or None for an error. `expected` gets the store's answer. It returns None if it has checked that itself.
        """
        try:
            answer = self.do(self._ask(call))
        except OnTheDotError as error:
            self._expect_error(error, expected)
            return None
        try:
            wanted = expected(answer)
        except OnTheDotError as error:
            raise AssertionError(f"expected {type(error).__name__}, got {answer}") from error
        assert wanted is None or answer == wanted, f"expected {wanted}, got {answer}"
        if any(run.id == 0 for run in self.world.runs):
            self.world.learn(self.do(self.store.queries.list_runs()))
        return answer

    async def _ask(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask again after `StoreUnavailable`, as every caller does."""
        for _ in range(2):
            try:
                return await call()
            except StoreUnavailable as error:
                if "others had it" in str(error):
                    raise
        return await call()

    def _expect_error(self, raised: OnTheDotError, expected: Callable[[Any], Any]) -> None:
        wanted: object = "an answer"
        try:
            expected(None)
        except OnTheDotError as error:
            wanted = type(error)
        except Exception:  # noqa: BLE001, S110 - it needed an answer to check
            pass
        assert wanted is type(raised), f"expected {wanted}, got {raised!r}"

    def adopt(self, found: Sequence[Run], ids: Sequence[int]) -> None:
        """Take over the store's ids of new runs. Those of known runs must be equal."""
        for run, run_id in zip(found, ids, strict=True):
            if run.id == 0:
                assert self.world.run(run_id) is None, f"run {run_id} has two keys"
                run.id = run_id
            assert run.id == run_id, f"expected run {run.id}, got {run_id}"

    # ── comparison ───────────────────────────────────────────────────────────────────────────────────────────────

    def judge(self, *, entirely: bool = True) -> None:
        """Raise `AssertionError` unless the store shows what the oracle has: runs and jobs, or with `entirely`
        everything."""
        check_gates(self.world)
        self.do(self._judge_runs())
        self.do(self._judge_jobs())
        if entirely:
            self.do(self._judge_the_rest())

    async def _judge_runs(self) -> None:
        store, world = self.store, self.world
        listed = await store.queries.list_runs()
        world.learn(listed)
        same("runs", sorted(listed, key=lambda run: run.id), show.runs(world))
        live = [run.due_at for run in listed if run.state not in TERMINAL]
        same("order of live runs", live, sorted(live))
        ended = [run.ended_at or 0 for run in listed if run.state in TERMINAL]
        same("order of ended runs", ended, sorted(ended, reverse=True))
        same("live runs first", [run.state in TERMINAL for run in listed], [False] * len(live) + [True] * len(ended))
        for run in world.live():
            same(f"standing of run {run.id}", await store.queries.why_waiting(run.id), show.standing(world, run))
        await self._judge_attempts()

    async def _judge_the_rest(self) -> None:
        store, world = self.store, self.world
        same("nodes", await store.queries.list_nodes(), nodes.shown(world))
        same("terms", await store.queries.list_terms(), [world.term] if world.term else [])
        names = {*world.queues, *(run.queue for run in world.live())}
        same(
            "queues",
            await store.queries.list_queues(now=self.bench.now),
            [queues.shown(world, one, self.bench.now) for one in sorted(names)],
        )
        same("loads", await store.queries.count_loads(), queues.loads(world))
        same("held", await store.queries.count_held(), show.held(world))
        same("dead letters", sorted(run.id for run in await store.queries.list_dead()), show.dead(world))
        some = [run.id for run in world.runs[-3:]]
        same(
            "runs by id",
            await store.queries.get_runs(some),
            sorted((show.run(run) for run in world.runs[-3:]), key=lambda run: run.id),
        )
        for run in [*world.live()[:1], *world.ended()[:1]]:
            same("a run", await store.queries.get_run(run.id), show.run(run))
        same("counts", await store.queries.count_runs(), show.counts(world))
        same("what ops owns", await store.queries.count_owned("ops"), show.owned(world, "ops"))
        pruned = await store.queries.list_daily_counts()
        same("daily counts", {(one.job, one.day, one.state): one.count for one in pruned}, world.pruned)

    async def _judge_jobs(self) -> None:
        store, world = self.store, self.world
        listed = [told(record) for record in await store.queries.list_jobs()]
        same("jobs", listed, show.jobs(world))
        for job in [job for job in world.jobs.values() if job.state is not JobState.DELETED]:
            states = [show.told(state) for state in await store.queries.schedules_of(job.id)]
            same(f"schedules of {job.name}", states, show.schedules(job))
            same(f"parents of {job.name}", await store.queries.parents_of(job.id), show.parents(job))
        skips = sorted(await store.queries.list_skips(), key=repr)
        same("skips", skips, sorted(show.skips(world), key=repr))
        resumes = [record.id for record in await store.queries.due_resumes(now=self.bench.now)]
        same("due resumes", sorted(resumes), control.due_resumes(world, self.bench.now))

    async def _judge_attempts(self) -> None:
        """Compare runs whose attempts or notes have changed."""
        for run in self.world.runs:
            stamp = hash(
                (len(run.tried), run.checkpoint, tuple(note.number for note in run.notes.values()), run.is_live)
            )
            if self._seen.get(run.id) == stamp:
                continue
            self._seen[run.id] = stamp
            same(f"attempts of run {run.id}", await self.store.queries.list_attempts(run.id), show.attempts(run))
            same(f"checkpoint of run {run.id}", await self.store.queries.get_checkpoint(run.id), run.checkpoint)
            same(f"logs of run {run.id}", await self.store.queries.list_logs(run.id), show.logs(run))


def told(record: JobRecord) -> tuple[object, ...]:
    """The fields of a job that the oracle has as well."""
    pause = (record.pause_reason, record.paused_until)
    return (record.id, record.revision, record.job, record.state, record.created_at, record.updated_at, *pause)


def same(what: str, got: object, wanted: object) -> None:
    """Assert that the store shows what the oracle has."""
    assert got == wanted, f"{what}: {difference(got, wanted)}"


def difference(got: object, wanted: object) -> str:
    """The parts of two lists that are not in both."""
    if not isinstance(got, list) or not isinstance(wanted, list):
        return f"expected {wanted}, got {got}"
    more, less = [one for one in got if one not in wanted], [one for one in wanted if one not in got]
    return f"expected {less or wanted}, got {more or got}"
