"""Turns the file and the journal of real processes into a history that the checker reads."""

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

# The rules that a file and a journal suffice for. The others need every write of the store, which is not recorded here.
RULES = ("S1", "S2", "S3", "S5", "S6", "S7", "S8", "S9", "S16", "S18", "matching by key", "matching by time")
_FOR_EVER = 2**62
_FAILED = ("failed", "timed_out")


async def broken_rules(nodes: Cluster) -> list[Violation]:
    """Return every violation of a rule in the history of these processes."""
    return check(await history_of(nodes), only=RULES)


async def history_of(nodes: Cluster) -> list[Event]:
    """Return the history of the nodes on one file."""
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
    """Return the events of all runs in order of time. At one instant, writes of the store come before notes of a job.

    A node knows the time of a remote store only approximately, and a write may see data that is newer than its own
    instant. Instants that contradict the logical order by at most `lag` are corrected.
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
    """Return the attempt with its instants in the order created, armed, executed, ended.

    Only contradictions of at most `lag` are corrected. A lost attempt may have later notes: its node did not know.
    """
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
    """Return the events of one run from pairs of attempts: as recorded, and with corrected instants."""
    key = {"run": run.id, "job_id": job_id, "trigger": run.trigger, "slot": run.slot_at}
    found = [(run.created_at, 3, _event("store", "submit", **key, due=run.slot_at, body=None))]
    failures = recoveries = 0
    due = [one.due_at for one, _ in attempts[1:]] + [run.due_at]  # when the next attempt is due
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
