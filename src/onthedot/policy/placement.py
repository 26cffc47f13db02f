"""Who is to run what: the nodes that a slot is meant for, and the worker that the leader gives a run to."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onthedot.job import Job, ability_of


class Place(NamedTuple):
    """A living worker: what it serves, and how many runs it holds already."""

    node_id: str
    incarnation: str
    queues: frozenset[str]
    labels: frozenset[str]
    tasks: frozenset[str]
    load: int = 0


def can_run(place: Place, job: Job) -> bool:
    """Whether this worker may run this job at all."""
    return job.queue in place.queues and job.labels <= place.labels and ability_of(job) in place.tasks


def targets(job: Job, places: Iterable[Place]) -> tuple[str, ...]:
    """The nodes that each slot of the job runs on: with `on: all` every one that can; else just anybody ("").

    >>> from onthedot.job import Call
    >>> targets(Job(name="j", task=Call(handler="j")), [])
    ('',)
    """
    if job.on == "any":
        return ("",)
    return tuple(sorted({place.node_id for place in places if can_run(place, job)}))


def assign(jobs: Sequence[tuple[int, Job, str]], places: Sequence[Place], *, most: int) -> list[tuple[int, str]]:
    """Places for runs (id, job, the incarnation that had it and did nothing), in their order: (run, incarnation).

    Each goes to the worker with the fewest runs among those that can do it, who has had it before only if nobody else
    can; nobody gets more than `most`. What finds no place waits for the next round.
    """
    chosen = []
    heap = [(place.load, place.incarnation, place) for place in places if place.load < most]
    heapq.heapify(heap)
    for run_id, job, before in jobs:
        passed: list[tuple[int, str, Place]] = []
        found = None
        while heap and found is None:
            entry = heapq.heappop(heap)
            if can_run(entry[2], job) and entry[1] != before:
                found = entry
            else:
                passed.append(entry)
        if found is None:
            found = next((entry for entry in passed if can_run(entry[2], job)), None)
            passed = [entry for entry in passed if entry is not found]
        for entry in passed:
            heapq.heappush(heap, entry)
        if found is not None:
            load, incarnation, place = found
            chosen.append((run_id, incarnation))
            if load + 1 < most:
                heapq.heappush(heap, (load + 1, incarnation, place))
    return chosen
