"""Decides on which nodes a slot runs, and which worker the leader assigns a run to. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from onthedot.clock import SECOND, Micros
from onthedot.model.job import Job, ability_of
from onthedot.model.route import read_route


class Place(NamedTuple):
    """A living worker: what it can run, and how many runs it holds already."""

    node_id: str
    incarnation: str
    queues: frozenset[str]
    labels: frozenset[str]
    tasks: frozenset[str]
    load: int = 0


def can_run(place: Place, job: Job) -> bool:
    """Return whether this worker may run this job at all."""
    return job.queue in place.queues and job.labels <= place.labels and ability_of(job) in place.tasks


def targets(job: Job, places: Iterable[Place]) -> tuple[str, ...]:
    """Return the nodes on which each slot of the job runs: every able node with `on: all`; otherwise any node ("").

    >>> from onthedot.model.job import Call
    >>> targets(Job(name="j", task=Call(handler="j")), [])
    ('',)
    """
    if job.on == "any":
        return ("",)
    return tuple(sorted({place.node_id for place in places if can_run(place, job)}))


def assign(jobs: Sequence[tuple[int, Job, str]], places: Sequence[Place], *, most: int) -> list[tuple[int, str]]:
    """Choose workers for runs (id, job, the incarnation that had the run and did nothing). Return pairs (run,
    incarnation) in order.

    Each run goes to the able worker with the fewest runs. The worker that had it before gets it only if no other worker
    can. No worker gets more than `most`. A run without a place waits for the next round.
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


# ── which runs a store may leave to whom ─────────────────────────────────────────────────────────────────────


class Member(Protocol):
    """A living node, as a store knows it."""

    @property
    def id(self) -> str: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def roles(self) -> Collection[str]: ...
    @property
    def queues(self) -> Collection[str]: ...
    @property
    def labels(self) -> Collection[str]: ...
    @property
    def tasks(self) -> Collection[str]: ...
    @property
    def draining(self) -> bool: ...


class Need(NamedTuple):
    """What a run needs of a worker: the task that it can do, the job's route, and for some runs the node itself."""

    task: str
    route: str
    target: str = ""


class Serving:
    """What the living nodes can start.

    >>> from onthedot.stores.values import Node
    >>> serving = Serving([Node("a", "a-1", queues=("mail",), labels=("gpu",), tasks=("call:send",))])
    >>> serving.can_start(Need("call:send", "mail")), serving.can_start(Need("call:send", "mail\\tgpu,eu"))
    (True, False)
    >>> serving.can_start(Need("call:send", "mail", "a")), serving.can_start(Need("call:send", "mail", "b"))
    (True, False)
    >>> serving.can_start(Need("call:read", "mail")), serving.can_start(Need("call:read", "mail"), "a-1")
    (False, True)
    """

    def __init__(self, living: Iterable[Member]) -> None:
        nodes = list(living)
        self._living = {node.incarnation for node in nodes}
        self._workers = [node for node in nodes if "worker" in node.roles and not node.draining]
        self._known: dict[Need, bool] = {}

    def can_start(self, need: Need, holder: str | None = None) -> bool:
        """Return whether some worker can start a run. `holder` is the incarnation that has reserved it."""
        if holder in self._living:
            return True
        known = self._known.get(need)
        if known is None:
            known = self._known[need] = any(_can_start(node, need) for node in self._workers)
        return known


def _can_start(node: Member, need: Need) -> bool:
    if need.task not in node.tasks:
        return False
    if need.target:
        return node.id == need.target
    queue, labels = read_route(need.route)
    return queue in node.queues and labels <= set(node.labels)


TIME_TO_TAKE: Micros = 1 * SECOND
"""How long a worker that the leader has chosen may delay a due run."""


def is_left_lying(ready_at: Micros, now: Micros, *, alive: bool) -> bool:
    """Return whether an assigned run needs another worker: its worker is dead, or did not start the run in time."""
    return not alive or ready_at + TIME_TO_TAKE <= now
