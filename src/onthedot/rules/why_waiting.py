"""Explains why a run is not running: all reasons in words, the most important first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onthedot.clock import Micros, to_datetime
from onthedot.model.job import Job, JobRecord, JobState, ability_of
from onthedot.model.run import TERMINAL, RunRecord, RunState, WaitReason
from onthedot.rules.placement import Place, can_run


class Surroundings(NamedTuple):
    """The facts that decide why a run waits."""

    job: JobRecord | None = None  # None: the job is deleted
    queue_paused: str | None = None  # why its queue is paused; None: not paused
    places: Sequence[Place] = ()  # the living workers
    nodes: Mapping[str, str] = {}  # names of nodes by incarnation


def reasons(
    run: RunRecord, standing: WaitReason | None, around: Surroundings, now: Micros, *, unnamed: int = 0
) -> list[str]:
    """Return what a run waits for. The result is empty if the run has ended, or if it runs and nobody has cancelled it.
    `unnamed` is the number of runs at its gate that the caller may not see, in addition to those in `standing`.
    """
    if run.state in TERMINAL or standing is None:
        return []
    if run.state is RunState.RUNNING:
        return [f"its attempt is asked to stop: {standing.cancel_wanted}"] if standing.cancel_wanted else []
    found = [*_stopped(run, around), *_kept(run, standing, now, unnamed)]
    if around.job is not None:
        job = around.job.job
        able = [place for place in around.places if _serves(place, job, run.target)]
        found += _placed(run, standing, around.nodes, able)
        if not able and not any(ability_of(job) in place.tasks for place in around.places):
            found.append(f"a worker that can do {ability_of(job)!r}: no living one offers it")
    if not found and run.state is RunState.SCHEDULED:
        found.append("a free seat: its instant has come, and every worker that can run it is busy, or about to look")
    return found


def _stopped(run: RunRecord, around: Surroundings) -> Iterator[str]:
    """Return the reasons that people caused, such as a pause."""
    record = around.job
    if record is not None and record.state is JobState.PAUSED:
        until = "" if record.paused_until is None else f" until {_iso(record.paused_until)}"
        yield f"its job, which is paused{until}{_because(record.pause_reason)}"
    if around.queue_paused is not None:
        yield f"its queue {run.queue!r}, which is paused{_because(around.queue_paused)}"


def _kept(run: RunRecord, standing: WaitReason, now: Micros, unnamed: int) -> Iterator[str]:
    """Return the reasons in the run itself."""
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


def _placed(run: RunRecord, standing: WaitReason, nodes: Mapping[str, str], able: list[Place]) -> Iterator[str]:
    """Return whether a worker can run it, and which worker has it."""
    if standing.node and run.state is RunState.RESERVED:
        yield f"node {standing.node}, which has reserved it"
    if not able:
        where = f"node {run.target}, to live and" if run.target else "a living worker to"
        yield f"{where} serve queue {run.queue!r} with what the job needs: there is none"
    elif standing.for_leader:
        yield "the leader to find a place for it"
    elif standing.place:
        yield f"node {nodes.get(standing.place, standing.place)}, which the leader chose"


def _serves(place: Place, job: Job, target: str) -> bool:
    return can_run(place, job) and target in ("", place.node_id)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _iso(instant: Micros) -> str:
    return to_datetime(instant).isoformat()
