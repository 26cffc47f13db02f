"""Reads from a store what `rules/why_waiting.py` needs to tell why a run is not running."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.model.run import TERMINAL, RunRecord, RunState, WaitReason
from onthedot.operations.job_lookup import jobs_of
from onthedot.operations.live_workers import live_workers
from onthedot.rules.why_waiting import Surroundings, reasons
from onthedot.stores.protocol import Store


async def why_waiting(
    store: Store, run: RunRecord, standing: WaitReason | None, now: Micros, *, unnamed: int = 0
) -> list[str]:
    """What a run waits for, in words; see `reasons`."""
    waits = standing is not None and run.state is not RunState.RUNNING and run.state not in TERMINAL
    around = await _surroundings(store, run, now) if waits else Surroundings()
    return reasons(run, standing, around, now, unnamed=unnamed)


async def _surroundings(store: Store, run: RunRecord, now: Micros) -> Surroundings:
    record = (await jobs_of(store, [run])).get(run.job_id)
    queues = {queue.name: queue for queue in await store.queries.list_queues(now=now)}
    queue = queues.get(run.queue)
    return Surroundings(
        job=record,
        queue_paused=None if queue is None or queue.paused_at is None else queue.reason,
        places=[] if record is None else await live_workers(store, now),
        nodes={node.incarnation: node.id for node in await store.queries.list_nodes()},
    )
