"""Taking work for a worker, in the SQL stores: what is chosen of what is due. Candidates are rows in this order:

age, run, job, revision, the job's state, trigger, slot_at, due_at, args, attempt, failures, recoveries, created_at,
target, queue, level, rank, whether the job has gates; and what else a driver wants
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.job import JobRecord
from onthedot.route import read_route
from onthedot.run import Checkpoint, Lease
from onthedot.stores.values import Ask

Candidate = Sequence[Any]
RUN, JOB, REVISION, STATE, ATTEMPT = 1, 2, 3, 4, 9  # where they stand in a candidate's row
QUEUE, RANK, GATED = 14, 16, 17


class Lines(NamedTuple):
    """What a worker may look into: lines (route and level) in which runs wait, and routes in which they have ranks."""

    plain: list[tuple[str, int]]
    ranked: list[str]
    paused: Collection[str]  # queues


def is_served(route: str, ask: Ask, paused: Collection[str]) -> bool:
    """Whether the worker has what runs in this route need, and their queue goes on."""
    queue, labels = read_route(route)
    return labels <= ask.labels and queue not in paused


def choose_due(rows: Iterator[Candidate], ask: Ask) -> tuple[list[Candidate], bool]:
    """One run for each seat, then the quick ones; and whether more is due than there was room for."""
    chosen = list(islice(rows, ask.seats))
    extra, more = ask.extra, 0
    for row in rows:
        if extra and row[JOB] in ask.quick and not row[GATED]:
            extra -= 1
            chosen.append(row)
            continue
        more += 1
        if not extra or more >= len(ask.lease_ids):
            break  # far enough: the quick ones may be anywhere behind a backlog
    return chosen, more > 0


def lease_of(
    row: Candidate, lease_id: str, record: JobRecord, ask: Ask, now: Micros, checkpoint: Checkpoint | None
) -> Lease:
    """The lease that a candidate is given out with."""
    (_, run_id, _, _, _, trigger, slot_at, due_at, args, attempt, failures, recoveries,
     created_at, target, queue, level, *_) = row  # fmt: skip
    return Lease(
        lease_id, run_id, record, trigger, slot_at, due_at, args, attempt + 1, failures, recoveries,
        ask.incarnation, created_at, now, 0, 0, target, queue, level, checkpoint,
    )  # fmt: skip
