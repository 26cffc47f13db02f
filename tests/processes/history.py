"""What real processes leave behind, as a history that the checker reads: their file, and the jobs' own journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onthedot.model.job import JobRecord
from onthedot.model.job_json import encode
from onthedot.model.run import TERMINAL, AttemptRecord, RunRecord
from onthedot.settings import Settings
from onthedot.stores.sqlite import SqliteStore
from onthedot_verify.checker import Violation, check
from onthedot_verify.checker.history import Event
from onthedot_verify.simulation.node import lengths
from tests.processes.kit import Cluster
from tests.processes.node import settings

# What a file and a journal can show. The others need every write of the store, which nobody notes here.
RULES = ("S1", "S2", "S3", "S5", "S6", "S7", "S8", "S9", "S16", "S18", "matching by key", "matching by time")
_FOR_EVER = 2**62
_FAILED = ("failed", "timed_out")


async def judged(nodes: Cluster) -> list[Violation]:
    """Every rule that the history of these processes breaks."""
    return check(await history_of(nodes), only=RULES)


async def history_of(nodes: Cluster) -> list[Event]:
    """The history of the nodes on one file."""
    store = await SqliteStore.open(nodes.database)
    try:
        runs = await store.queries.list_runs(limit=1_000_000)
        attempts = {run.id: await store.queries.list_attempts(run.id) for run in runs}
        return events_of(settings("", 2.0), await store.queries.list_jobs(), runs, attempts, nodes.journal)
    finally:
        await store.close()


def events_of(
    lived_by: Settings,
    jobs: Iterable[JobRecord],
    runs: Iterable[RunRecord],
    attempts: Mapping[int, list[AttemptRecord]],
    journal: Path,
    *,
    lag: int = 0,
) -> list[Event]:
    """The events of all runs, in the order of their instants; what the store did comes before what a job noted then.

    On a store elsewhere a node knows the time only about, and what a write sees may be younger than the instant at
    which it began: instants that contradict the order of things by no more than `lag` are put right.
    """
    found = [(0, 0, _event("nemesis", "begin", settings=lengths(lived_by)))]
    ids: dict[tuple[str, str], int] = {}
    for record in jobs:
        job = record.job
        ids[job.namespace, job.name] = record.id
        edit = {"job": job.name, "job_id": record.id, "rev": record.revision, "change": "created", "marks": {}}
        found.append((0, 1, _event("store", "edit", definition=encode(job), **edit)))
    noted = _of_journal(journal)
    last = {(event["run"], event["fence"]): at for at, _, event in noted}
    for run in runs:
        told = [(one, _in_order(one, run, last, lag)) for one in attempts[run.id]]
        found += _of_run(run, ids[run.namespace, run.job], told)
    joined = {event["inc"] for _, _, event in found if "inc" in event}
    found += [(0, 2, _event("store", "join", inc=name, ttl=_FOR_EVER)) for name in joined]
    found += noted
    ordered = sorted(found, key=lambda entry: entry[:2])
    return [event | {"seq": seq, "t_store": at, "t_mono": at} for seq, (at, _, event) in enumerate(ordered, 1)]


def _event(src: str, ev: str, **facts: Any) -> Event:
    return {"src": src, "ev": ev, "node": "", **facts}


def _in_order(attempt: AttemptRecord, run: RunRecord, noted: Mapping[tuple[int, int], int], lag: int) -> AttemptRecord:
    """Made, armed, executed, ended: in this order, if the clocks do not contradict it by more than the lag. What was
    lost may well be noted later: its node did not know."""
    armed, ended = attempt.armed_at, attempt.ended_at
    if 0 < run.created_at - armed <= lag:
        armed = run.created_at
    last = max(noted.get((attempt.run_id, attempt.fence), 0), armed)
    if 0 < last - ended <= lag and attempt.outcome != "lost":
        ended = last
    return replace(attempt, armed_at=armed, ended_at=ended)


def _of_run(
    run: RunRecord, job_id: int, attempts: list[tuple[AttemptRecord, AttemptRecord]]
) -> list[tuple[int, int, Event]]:
    """Of one run: its attempts as they are recorded, each with itself put in order."""
    key = {"run": run.id, "job_id": job_id, "trigger": run.trigger, "slot": run.slot_at}
    found = [(run.created_at, 3, _event("store", "submit", **key, due=run.slot_at, body=None))]
    failures = recoveries = 0
    due = [one.due_at for one, _ in attempts[1:]] + [run.due_at]  # of what follows each
    for number, (one, placed) in enumerate(attempts, 1):
        lease = {"lease": one.lease_id, "attempt": one.attempt, "inc": one.node}
        counts = {"failures": failures, "recoveries": recoveries}
        armed = _event("store", "arm", **key, **lease, **counts, fence=one.fence, due=one.due_at, rev=one.revision)
        found.append((placed.armed_at, 4, armed))
        failed, lost = one.outcome in _FAILED, one.outcome == "lost"
        failures, recoveries = failures + failed, recoveries + lost
        state = str(run.state) if number == len(attempts) and run.state in TERMINAL else "scheduled"
        verdict = {"state": state, "outcome": one.outcome, "due": due[number - 1], "failed": failed, "recovered": lost}
        ended = _event("store", "finish", run=run.id, **lease, **verdict, ok=True, ended=one.ended_at)
        found.append((placed.ended_at, 6, ended))
    if run.state in ("skipped", "cancelled") and not attempts:
        assert run.ended_at is not None
        found.append((run.ended_at, 6, _event("store", "expire", **key, state=str(run.state), reason=run.reason)))
    counted = {"attempts": run.attempts, "failures": run.failures, "recoveries": run.recoveries}
    final = _event("api", "final", run=run.id, state=str(run.state), recorded=len(attempts), **counted)
    return [*found, (_FOR_EVER, 7, final)]


def _of_journal(journal: Path) -> list[tuple[int, int, Event]]:
    found = []
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        if entry["event"] in ("start", "end", "stopped"):
            seen = {name: entry[name] for name in ("run", "job", "slot", "attempt", "fence")} | {"mark": 0}
            if entry["event"] == "start":
                found.append((entry["at"], 5, _event("job", "start", **seen)))
            else:
                outcome = "done" if entry["event"] == "end" else "cancelled"
                found.append((entry["at"], 5, _event("job", "end", **seen, outcome=outcome)))
    return found
