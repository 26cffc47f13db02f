"""Every store call that writes, on the state of `scene.py`. Some have several forms that take other locks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

import asyncpg

from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.after import After
from onthedot.model.job import Limit, ability_of
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import TERMINAL, Checkpoint, NewRun, OnBusy, Progress, RunState, submit_trigger
from onthedot.model.verdict import Finish
from onthedot.model.window import ScheduleState, Slot, Window
from onthedot.stores.documents import Noting
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.values import Node, Note, Placement, Replanned, ReserveRequest
from onthedot_verify.contract.workbench import SUCCESS, at, every, fixed_delay, recover, retry, window
from tests.stores.postgres.scene import BEFORE, NOW, SOON, TTL, Scene, asks, job, token

Move = Callable[[Scene, PostgresStore], Awaitable[object]]

MOVES: dict[str, Move] = {}
"""The calls by name."""


def _move(function: Move) -> Move:
    MOVES[function.__name__] = function
    return function


@_move
async def put_new(scene: Scene, store: PostgresStore) -> object:
    slots = [window(100, 200, [150], next_at=210)]
    return await store.put_job(job("new", every(), after=After("grid")), slots, now=NOW)


@_move
async def put_same(scene: Scene, store: PostgresStore) -> object:
    return await store.put_job(scene.jobs["plain"].job, now=NOW)


async def _edit(scene: Scene, store: PostgresStore, name: str, windows: Iterable[Window] = (), **fields: Any) -> object:
    return await store.put_job(replace(scene.jobs[name].job, owner="somebody", **fields), list(windows), now=NOW)


@_move
async def put_edit(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "plain")


@_move
async def put_edit_grid(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "grid", [window(100, 200, [155, 165], next_at=210)])


@_move
async def put_edit_schedules(scene: Scene, store: PostgresStore) -> object:
    windows = [window(100, 200, [155], name=name, next_at=210) for name in ("b", "a")]
    return await _edit(scene, store, "done", windows)


@_move
async def put_edit_delay(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "missed", [window(20, 20, delay=40)], schedules=(fixed_delay(40),))


@_move
async def put_edit_gated(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "lb", concurrency=Limit(2, name="pool"))


@_move
async def put_edit_fair(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "fair", [window(100, 200, [150], next_at=210)], schedules=(every(),))


@_move
async def put_edit_child(scene: Scene, store: PostgresStore) -> object:
    return await _edit(scene, store, "child", after=After("left", any=True))


async def _pause(scene: Scene, store: PostgresStore, name: str) -> object:
    return await store.pause_job(scene.jobs[name].id, reason="race", now=NOW)


@_move
async def pause(scene: Scene, store: PostgresStore) -> object:
    return await _pause(scene, store, "plain")


@_move
async def pause_grid(scene: Scene, store: PostgresStore) -> object:
    return await _pause(scene, store, "grid")


@_move
async def pause_gated(scene: Scene, store: PostgresStore) -> object:
    return await _pause(scene, store, "lb")


@_move
async def pause_delay(scene: Scene, store: PostgresStore) -> object:
    return await _pause(scene, store, "missed")


@_move
async def resume(scene: Scene, store: PostgresStore) -> object:
    return await store.resume_job(scene.jobs["still"].id, now=NOW)


async def _delete(scene: Scene, store: PostgresStore, name: str) -> object:
    return await store.delete_job(scene.jobs[name].id, now=NOW)


@_move
async def delete_job(scene: Scene, store: PostgresStore) -> object:
    return await _delete(scene, store, "plain")


@_move
async def delete_parent(scene: Scene, store: PostgresStore) -> object:
    return await _delete(scene, store, "left")


@_move
async def delete_child(scene: Scene, store: PostgresStore) -> object:
    return await _delete(scene, store, "child")


@_move
async def delete_gated(scene: Scene, store: PostgresStore) -> object:
    return await _delete(scene, store, "lb")


@_move
async def delete_delay(scene: Scene, store: PostgresStore) -> object:
    return await _delete(scene, store, "missed")


@_move
async def cancel_waiting(scene: Scene, store: PostgresStore) -> object:
    return await store.cancel([*scene.waiting["lb"], *scene.waiting["plain"], *scene.waiting["late"]], why="r", now=NOW)


@_move
async def cancel_running(scene: Scene, store: PostgresStore) -> object:
    return await store.cancel(scene.ids("right", "left", "plain", "la"), why="race", now=NOW)


@_move
async def cancel_first(scene: Scene, store: PostgresStore) -> object:
    """The first end of a run in a process also makes sure that the partitions exist."""
    store.database.months = frozenset()
    return await store.cancel([*scene.waiting["late"], *scene.ids("fair")], why="race", now=NOW)


@_move
async def except_slot(scene: Scene, store: PostgresStore) -> object:
    grid = scene.jobs["grid"].id
    run = NewRun(grid, submit_trigger("moved"), at(155))
    return await store.move_slot(grid, "s", at(150), reason="moved", run=run, now=NOW)


def _windows(scene: Scene, *names: str) -> list[tuple[ScheduleState, Window]]:
    found = []
    for name in names:
        for state in scene.schedules[name]:
            slots = [Slot(at(210), None)] if state.next_at is not None else []
            mark = max(state.watermark, at(200))
            found.append((state, Window(state.schedule_id, state.watermark, mark + 20 * SECOND, at(250), slots)))
    return found


@_move
async def plan(scene: Scene, store: PostgresStore) -> object:
    return await store.plan(scene.terms[0], _windows(scene, "grid", "done"), now=NOW)


@_move
async def plan_delays(scene: Scene, store: PostgresStore) -> object:
    return await store.plan(scene.terms[0], _windows(scene, "second", "first", "missed"), now=NOW)


def _new(scene: Scene, *names: str, key: str = "") -> list[NewRun]:
    return [NewRun(scene.jobs[name].id, submit_trigger("new"), NOW, key=key and f"{key}-{name}") for name in names]


@_move
async def submit(scene: Scene, store: PostgresStore) -> object:
    return await store.submit(_new(scene, "plain", "fair", "left"), now=NOW)


@_move
async def submit_keyed(scene: Scene, store: PostgresStore) -> object:
    return await store.submit(_new(scene, "plain", "fair", key="k"), now=NOW)


@_move
async def submit_noted(scene: Scene, store: PostgresStore) -> object:
    noting = Noting("list", ['{"run": "?1"}', "{}"], ["noted", ""], '"?1"')
    return await store.submit(_new(scene, "plain", "left", key="n"), noting=noting, now=NOW)


@_move
async def submit_again(scene: Scene, store: PostgresStore) -> object:
    """Runs that exist already, and may be ending."""
    leases = [scene.running[name][0] for name in ("right", "left", "plain")]
    return await store.submit([NewRun(one.record.id, one.trigger, one.due_at) for one in leases], now=NOW)


@_move
async def submit_within(scene: Scene, store: PostgresStore) -> object:
    db: Any = await asyncpg.connect(scene.url)
    try:
        async with db.transaction():
            new = _new(scene, "left", "plain", key="w")
            return await store.submit_within(db, new, [scene.jobs["left"], scene.jobs["plain"]], now=NOW)
    finally:
        db.terminate()


async def _reserve(scene: Scene, store: PostgresStore, names: Iterable[str], queue: str, ahead: int) -> object:
    tasks = frozenset(ability_of(scene.jobs[name].job) for name in names)
    ids = LeaseIds(token(), 4 + ahead)
    return await store.reserve(
        ReserveRequest(scene.two, ids, 4, ahead, horizon=TTL, tasks=tasks, queues=("default", queue)), now=NOW
    )


@_move
async def reserve(scene: Scene, store: PostgresStore) -> object:
    return await _reserve(scene, store, ("plain", "la", "late", "swap", "grid"), "default", 4)


@_move
async def reserve_fair(scene: Scene, store: PostgresStore) -> object:
    return await _reserve(scene, store, ("fair", "plain"), "fair", 0)


@_move
async def held_void(scene: Scene, store: PostgresStore) -> object:
    return await store.recover(scene.one, void_below=7)


async def _arm(scene: Scene, store: PostgresStore, *names: str, on_busy: OnBusy | None = SOON) -> object:
    leases = scene.reserved(*names)
    return await store.arm(leases, gates=asks(leases, on_busy), now=NOW)


@_move
async def arm(scene: Scene, store: PostgresStore) -> object:
    return await store.arm(scene.reserved("plain"), now=NOW)


@_move
async def arm_busy(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "wait", "la", on_busy=None)


@_move
async def arm_wait(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "wait", on_busy=OnBusy("wait", overdue="wait", late=True))


@_move
async def arm_skip(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "skip", on_busy=OnBusy("skip"))


@_move
async def arm_replace(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "swap", on_busy=OnBusy("replace"))


@_move
async def arm_limit(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "la")


@_move
async def arm_rate(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "rare", "paced")


@_move
async def arm_many(scene: Scene, store: PostgresStore) -> object:
    return await _arm(scene, store, "wait", "rare", "plain", "la")


@_move
async def release(scene: Scene, store: PostgresStore) -> object:
    return await store.release(scene.reserved("plain", "wait", "la", "rare"), now=NOW)


@_move
async def finish(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("plain"), now=NOW)


@_move
async def finish_fast(scene: Scene, store: PostgresStore) -> object:
    """In one statement. Stores use it if no job runs after another."""
    ends = [Finish(replace(lease), SUCCESS, BEFORE, NOW) for lease in scene.running["plain"]]
    return await store.finish(ends, now=NOW)


@_move
async def finish_gated(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("wait", "la", "skip"), now=NOW)


@_move
async def finish_retry(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("wait", "la", "plain", "fair", verdict=retry(110)), now=NOW)


@_move
async def finish_parents(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("right", "left"), now=NOW)


@_move
async def finish_delays(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("second", "first"), now=NOW)


@_move
async def finish_ahead(scene: Scene, store: PostgresStore) -> object:
    """Runs that were armed ahead and ended before their instants, in mixed order."""
    return await store.finish(sorted(scene.finishes("done"), key=lambda one: one.lease.trigger, reverse=True), now=NOW)


@_move
async def finish_fair(scene: Scene, store: PostgresStore) -> object:
    return await store.finish(scene.finishes("fair", "left"), now=NOW)


@_move
async def finish_first(scene: Scene, store: PostgresStore) -> object:
    """As `cancel_first`."""
    store.database.months = frozenset()
    return await store.finish(scene.finishes("fair", "left"), now=NOW)


@_move
async def reap(scene: Scene, store: PostgresStore) -> object:
    verdicts = [(replace(lease), recover(110)) for lease in scene.running["orphan"]]
    return await store.reap(verdicts, now=NOW)


@_move
async def orphans(scene: Scene, store: PostgresStore) -> object:
    return await store.orphans(limit=10, now=NOW)


@_move
async def recount_gates(scene: Scene, store: PostgresStore) -> object:
    return await store.recount_gates(now=NOW)


@_move
async def expire(scene: Scene, store: PostgresStore) -> object:
    return await store.expire(limit=10, now=NOW)


@_move
async def register(scene: Scene, store: PostgresStore) -> object:
    return await store.register(Node("two", "two-2"), ttl=TTL, now=NOW)


@_move
async def beat(scene: Scene, store: PostgresStore) -> object:
    return await store.beat(scene.one, ttl=TTL, now=NOW)


@_move
async def leave(scene: Scene, store: PostgresStore) -> object:
    await store.leave(scene.one, now=NOW)
    return None


@_move
async def drain(scene: Scene, store: PostgresStore) -> object:
    return await store.drain("one", now=NOW)


@_move
async def campaign(scene: Scene, store: PostgresStore) -> object:
    return await store.campaign(scene.one, ttl=TTL, shard=1, now=NOW)


@_move
async def campaign_late(scene: Scene, store: PostgresStore) -> object:
    return await store.campaign(scene.two, ttl=TTL, now=NOW)


@_move
async def renew(scene: Scene, store: PostgresStore) -> object:
    return await store.renew(scene.terms[0], ttl=TTL, now=NOW)


@_move
async def resign(scene: Scene, store: PostgresStore) -> object:
    return await store.resign(scene.terms[0], now=NOW)


@_move
async def checkpoint(scene: Scene, store: PostgresStore) -> object:
    leases = [*scene.running["left"], *scene.running["plain"]]
    return await store.checkpoint([(replace(lease), Checkpoint(1, "{}")) for lease in leases], now=NOW)


@_move
async def note(scene: Scene, store: PostgresStore) -> object:
    leases = [*scene.running["plain"], *scene.running["left"]]
    return await store.note([Note(replace(lease), 1, Progress(1, 2), "text") for lease in leases], now=NOW)


@_move
async def pause_queue(scene: Scene, store: PostgresStore) -> object:
    return await store.pause_queue("default", reason="race", now=NOW)


@_move
async def resume_queue(scene: Scene, store: PostgresStore) -> object:
    return await store.resume_queue("fair", now=NOW)


@_move
async def share_queue(scene: Scene, store: PostgresStore) -> object:
    return await store.share_queue("fair", {"a": 3}, now=NOW)


@_move
async def place(scene: Scene, store: PostgresStore) -> object:
    placements = [Placement(run_id, scene.two) for run_id in reversed(scene.waiting["placed"])]
    return await store.assign(scene.terms[0], placements, now=NOW)


@_move
async def set_shards(scene: Scene, store: PostgresStore) -> object:
    return await store.set_shards(3, now=NOW)


@_move
async def replan(scene: Scene, store: PostgresStore) -> object:
    states = [state for name in ("grid", "done") for state in scene.schedules[name]]
    rows = [Replanned(one.record.id, one.schedule_id, one.record.revision, one.watermark, at(230)) for one in states]
    return await store.replan(scene.terms[0], rows, done=True, now=NOW)


@_move
async def prune_runs(scene: Scene, store: PostgresStore) -> object:
    return await store.prune_runs(Cut(frozenset(TERMINAL), Mark(at(60), 2**53)), limit=2, now=NOW)


@_move
async def prune_dead(scene: Scene, store: PostgresStore) -> object:
    return await store.prune_runs(Cut(frozenset({RunState.DEAD}), Mark(NOW, 2**53)), limit=99, now=NOW)


@_move
async def prune_skips(scene: Scene, store: PostgresStore) -> object:
    return await store.prune_skips(NOW)


@_move
async def prune_nodes(scene: Scene, store: PostgresStore) -> object:
    return await store.prune_nodes(NOW)


@_move
async def put_document(scene: Scene, store: PostgresStore) -> object:
    return await store.documents.put_document("kind", "a", '{"a": 1}', version=scene.version, now=NOW)


@_move
async def put_new_document(scene: Scene, store: PostgresStore) -> object:
    return await store.documents.put_document("kind", "b", "{}", version=0, now=NOW)


@_move
async def delete_document(scene: Scene, store: PostgresStore) -> object:
    return await store.documents.delete_document("kind", "a", version=scene.version)


@_move
async def append_documents(scene: Scene, store: PostgresStore) -> object:
    return await store.documents.append_documents("list", ["{}", "{}"], keys=["noted", "x"], now=NOW)


@_move
async def settle_dead(scene: Scene, store: PostgresStore) -> object:
    return await store.settle_dead([(run_id, "rerun") for run_id in scene.dead])


@_move
async def commit(scene: Scene, store: PostgresStore) -> object:
    [done] = scene.finishes("once")
    transaction = await store.transactions.begin(done.lease, now=NOW)
    try:
        return await transaction.commit(done, now=NOW)
    finally:
        await transaction.rollback()
