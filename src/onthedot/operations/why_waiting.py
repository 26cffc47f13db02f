"""Why a run is not running: everything that keeps it, in words, the first to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onthedot.clock import Micros, to_datetime
from onthedot.model.job import Job, JobRecord, JobState, ability_of
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.operations.job_lookup import jobs_of
from onthedot.operations.live_workers import living_places
from onthedot.rules.placement import Place, can_run
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, Queue, WaitReason


async def why_waiting(
    store: Store, run: RunRecord, standing: WaitReason | None, now: Micros, *, unnamed: int = 0
) -> list[str]:
    """What a run waits for; nothing if it has ended, or runs and nobody wants it to stop. So many runs hold its gate
    beside those that `why_waiting` names: whoever asks may not know which."""
    if run.state in TERMINAL or standing is None:
        return []
    if run.state is RunState.RUNNING:
        return [f"its attempt is asked to stop: {standing.cancel_wanted}"] if standing.cancel_wanted else []
    record = (await jobs_of(store, [run])).get(run.job_id)
    queues = {queue.name: queue for queue in await store.queries.list_queues(now=now)}
    found = [*_stopped(record, queues.get(run.queue)), *_kept(run, standing, now, unnamed)]
    nodes = await store.queries.list_nodes()
    if record is not None:
        places = await living_places(store, now)
        able = [place for place in places if _serves(place, record.job, run.target)]
        found += _placed(run, standing, nodes, able)
        if not able and not any(ability_of(record.job) in place.tasks for place in places):
            found.append(f"a worker that can do {ability_of(record.job)!r}: no living one offers it")
    if not found and run.state is RunState.SCHEDULED:
        found.append("a free seat: its instant has come, and every worker that can run it is busy, or about to look")
    return found


def _stopped(record: JobRecord | None, queue: Queue | None) -> Iterator[str]:
    """What people have stopped."""
    if record is not None and record.state is JobState.PAUSED:
        until = "" if record.paused_until is None else f" until {_iso(record.paused_until)}"
        yield f"its job, which is paused{until}{_because(record.pause_reason)}"
    if queue is not None and queue.paused_at is not None:
        yield f"its queue {queue.name!r}, which is paused{_because(queue.reason)}"


def _kept(run: RunRecord, standing: WaitReason, now: Micros, unnamed: int) -> Iterator[str]:
    """What the run itself has to wait for."""
    if standing.gate:
        yield f"the gate {standing.gate}, which is held by {_holders(standing.holders, unnamed)}"
    if standing.granted_at is not None and standing.granted_at > now:
        yield f"its rate, which lets it start at {_iso(standing.granted_at)}"
    elif run.due_at > now:
        yield f"its instant, {_iso(run.due_at)}"


def _holders(named: Sequence[int], unnamed: int) -> str:
    """
    >>> _holders([4, 7], 1), _holders([], 2), _holders([], 0)
    ('run 4, 7 and another run', '2 other runs', 'nobody')
    """
    told = [f"run {', '.join(map(str, named))}"] if named else []
    told += [] if not unnamed else ["another run" if unnamed == 1 else f"{unnamed} other runs"]
    return " and ".join(told) or "nobody"


def _placed(run: RunRecord, standing: WaitReason, nodes: Sequence[Node], able: list[Place]) -> Iterator[str]:
    """Whether there is anybody who may run it."""
    if standing.node and run.state is RunState.RESERVED:
        yield f"node {standing.node}, which has reserved it"
    if not able:
        where = f"node {run.target}, to live and" if run.target else "a living worker to"
        yield f"{where} serve queue {run.queue!r} with what the job needs: there is none"
    elif standing.for_leader:
        yield "the leader to find a place for it"
    elif standing.place:
        names = [node.id for node in nodes if node.incarnation == standing.place]
        yield f"node {(names or [standing.place])[0]}, which the leader chose"


def _serves(place: Place, job: Job, target: str) -> bool:
    return can_run(place, job) and target in ("", place.node_id)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _iso(instant: Micros) -> str:
    return to_datetime(instant).isoformat()
