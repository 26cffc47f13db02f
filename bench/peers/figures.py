"""Measures the figures, each on a new store. What is not part of a figure happens before or after its clock runs.

    submit, at_once, bulk   jobs per second from one process, for one second: one by one; 64 at the same time; 1,000 per
                            call (or one by one, if the system has no such call)
    start                   from before the call to the start of the handler, on an idle system: 100 times, in no fixed
                            rhythm. The worker is another process, if the system allows that.
    drain1, drain2, drain4  a full queue, worked off by so many processes: jobs per second from the first start of a
                            handler to the last. Nodes of systems that fetch or acknowledge all jobs in one go tell when
                            that began or ended.
    herd                    1,000 jobs that are due at one instant: how long after it the last one starts
    first                   from the start of a worker's process until its first job starts

A measurement fails if a job is lost or executed twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from bench.peers.catalog import OURS, System
from bench.peers.child import Child, child
from bench.results import BenchFailed
from bench.rounds import Plan, percentile

SECONDS, LEAST_SECONDS = 1.0, 0.1
STARTS, WARM = 100, 2
PAUSE = 0.015  # seconds, and up to as much again by chance: the system is idle each time
HERD = 1_000
LEAD = 4.0  # seconds to store the herd
MARGIN = 0.3  # and so many must be left when it is stored
LOOK_EVERY = 0.01


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    name: str
    title: str
    unit: str
    more_is_better: bool


FIGURES = (
    Figure("submit", "single submit", "/s", True),
    Figure("at_once", "64 submits at once", "/s", True),
    Figure("bulk", "bulk submit", "/s", True),
    Figure("start_p50", "submit to start, p50", "ms", False),
    Figure("start_p99", "submit to start, p99", "ms", False),
    Figure("drain1", "throughput, 1 process", "/s", True),
    Figure("drain2", "throughput, 2 processes", "/s", True),
    Figure("drain4", "throughput, 4 processes", "/s", True),
    Figure("herd", "herd, last start", "ms", False),
    Figure("first", "process start to first job", "ms", False),
)


class Place(Protocol):
    """Where a store is made."""

    def create(self) -> str:
        """Make a new and empty store, and return its URL."""
        ...

    def drop(self, url: str) -> None:
        """Remove it."""

    def settle(self, url: str) -> None:
        """Do what the server would do by itself after a while."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server until now."""
        ...


@dataclass(slots=True)
class Scene:
    """One measurement: a system on a new store."""

    system: System
    store: str
    place: Place
    plan: Plan
    command: Sequence[str]
    """The command that starts a node, without its URL and options."""
    url: str = ""
    notes: dict[str, float] = field(default_factory=dict)
    """Further values, for the report."""
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def name(self) -> str:
        return f"{self.system.name} on {self.store}"

    @property
    def is_single(self) -> bool:
        """Whether one process has to both submit and work."""
        return self.store in self.system.single_process

    def node(self, *flags: str) -> Any:
        """Run a process of the system, until the block ends."""
        name = f"{self.system.name}-{self.store}-{next(self._numbers)}"
        return child(name, [*self.command, self.url, *self.system.options, *flags], self.plan.folder)

    @asynccontextmanager
    async def pair(self) -> AsyncIterator[tuple[Child, Child]]:
        """Run a client and a worker. They are one process if the system needs that."""
        async with AsyncExitStack() as stack:
            client: Child = await stack.enter_async_context(self.node())
            await client.ask("prepare")
            worker: Child = client if self.is_single else await stack.enter_async_context(self.node())
            if not self.is_single:
                await client.ask("connect")
            await worker.ask("start")
            yield client, worker


Values = dict[str, float]


async def rate(scene: Scene, verb: str) -> Values:
    """Measure how many jobs per second one process submits."""
    async with scene.node() as node:
        await node.ask("prepare")
        await node.ask("connect")
        submitted, seconds = await node.ask(verb, scene.plan.seconds(SECONDS, LEAST_SECONDS))
        if verb == "bulk" and not (await node.ask("version"))["has_bulk"]:
            scene.notes["one_by_one"] = 1
    return {verb: submitted / seconds}


async def start(scene: Scene) -> Values:
    """Measure the time from a submit to the start of the job, again and again."""
    chance, times = random.Random(scene.plan.seed), WARM + scene.plan.count(STARTS, 5)
    async with scene.pair() as (client, worker):
        called = []
        for number in range(times):
            await asyncio.sleep(PAUSE * (1 + chance.random()))
            called.append(await client.ask("one", number))
            await executed([worker], number + 1)
        said = await worker.ask("stop")
    started = dict(zip(said["numbers"], said["instants"], strict=True))
    check(scene, times, said["numbers"])
    waits = [(started[number] - called[number]) / 1e6 for number in range(WARM, times)]
    return {"start_p50": percentile(waits, 0.5), "start_p99": percentile(waits, 0.99)}


async def drain(scene: Scene, processes: int) -> Values:
    """Measure how fast so many workers work off a full queue."""
    jobs = scene.plan.count(scene.system.stores[scene.store]) * min(processes, 2)
    async with AsyncExitStack() as stack:
        filler: Child = await stack.enter_async_context(scene.node())
        await filler.ask("prepare")
        await filler.ask("connect")
        await filler.ask("fill", jobs)
        workers = [filler]
        if not scene.is_single:
            await filler.ask("disconnect")
            await asyncio.to_thread(scene.place.settle, scene.url)
            workers = [await stack.enter_async_context(scene.node()) for _ in range(processes)]
            await asyncio.gather(*(worker.ask("executed") for worker in workers))  # their programs are loaded
        server = scene.place.cpu_seconds()
        await asyncio.gather(*(worker.ask("start") for worker in workers))
        await executed(workers, jobs)
        said = await asyncio.gather(*(worker.ask("stop") for worker in workers))
        server = scene.place.cpu_seconds() - server
        left = await filler.ask("left")
    check(scene, jobs, [number for one in said for number in one["numbers"]])
    if left:
        raise BenchFailed(f"{scene.name}: expected no job to be left, found {left}")
    scene.notes["worker_cpu_us"] = sum(one["cpu"] for one in said) / jobs * 1e6
    scene.notes["server_cpu_us"] = server / jobs * 1e6
    instants = [instant for one in said for instant in one["instants"]]
    began = min((one["began"] for one in said if one["began"] is not None), default=min(instants))
    ended = max((one["ended"] for one in said if one["ended"] is not None), default=max(instants))
    return {f"drain{processes}": jobs / ((ended - began) / 1e9)}


async def herd(scene: Scene) -> Values:
    """Measure when the last of many jobs starts that are due at one instant."""
    jobs = scene.plan.count(HERD, 10)
    async with scene.pair() as (client, worker):
        await client.ask("one", jobs)  # it is awake
        await executed([worker], 1)
        due = time.time_ns() + int(LEAD * 1e9)
        await client.ask("fill_at", jobs, due)
        if time.time_ns() > due - MARGIN * 1e9:
            raise BenchFailed(f"{scene.name}: {jobs} jobs were not stored within {LEAD - MARGIN:g} s")
        await executed([worker], jobs + 1)
        said = await worker.ask("stop")
    check(scene, jobs + 1, said["numbers"])
    pairs = zip(said["numbers"], said["instants"], strict=True)
    late = [(instant - due) / 1e6 for number, instant in pairs if number != jobs]
    scene.notes["herd_first"] = min(late)
    if min(late) < 0 and scene.system.name == OURS:
        raise BenchFailed(f"{scene.name}: a run started {-min(late):.3f} ms early")
    return {"herd": max(late)}


async def first(scene: Scene) -> Values:
    """Measure how long a new process needs to start its first job."""
    if scene.store != "memory":
        async with scene.node() as client:
            await client.ask("prepare")
            await client.ask("connect")
            await client.ask("one", 0)
            await client.ask("disconnect")
    began = time.time_ns()
    async with scene.node("--first") as worker:
        await executed([worker], 1)
        said = await worker.ask("stop")
    check(scene, 1, said["numbers"])
    return {"first": (said["instants"][0] - began) / 1e6}


MEASUREMENTS: dict[str, tuple[tuple[str, ...], Callable[[Scene], Awaitable[Values]]]] = {
    "submit": (("submit",), lambda scene: rate(scene, "submit")),
    "at_once": (("at_once",), lambda scene: rate(scene, "at_once")),
    "bulk": (("bulk",), lambda scene: rate(scene, "bulk")),
    "start": (("start_p50", "start_p99"), start),
    "drain1": (("drain1",), lambda scene: drain(scene, 1)),
    "drain2": (("drain2",), lambda scene: drain(scene, 2)),
    "drain4": (("drain4",), lambda scene: drain(scene, 4)),
    "herd": (("herd",), herd),
    "first": (("first",), first),
}
"""Each measurement, and the figures that it gives."""


def measures(system: System, store: str, measurement: str) -> bool:
    """Return whether a measurement makes sense for this system and store."""
    if measurement in ("drain2", "drain4") and store in system.single_process:
        return False
    return store in system.stores and measurement not in system.without.get(store, ())


async def executed(workers: Sequence[Child], wanted: int) -> None:
    """Wait until so many handlers have started."""
    while sum([await worker.ask("executed") for worker in workers]) < wanted:  # noqa: ASYNC110 - in other processes
        await asyncio.sleep(LOOK_EVERY)


def check(scene: Scene, wanted: int, numbers: Sequence[int]) -> None:
    """Check that every job was executed once."""
    doubled = len(numbers) - len(set(numbers))
    lost = wanted - len(set(numbers))
    if doubled or lost:
        raise BenchFailed(f"{scene.name}: of {wanted} jobs {lost} lost, {doubled} doubled")


class Files:
    """SQLite files in a folder; for stores in memory only a URL."""

    def __init__(self, folder: Path, *, memory: bool = False) -> None:
        self._folder = folder
        self._memory = memory
        self._numbers = count()

    def create(self) -> str:
        return "memory:" if self._memory else f"sqlite:///{self._folder / f'{next(self._numbers)}.db'}"

    def drop(self, url: str) -> None:
        if not self._memory:
            for file in self._folder.glob(f"{Path(url.removeprefix('sqlite:///')).stem}.db*"):
                file.unlink()

    def settle(self, url: str) -> None:
        """Nothing happens by itself."""

    def cpu_seconds(self) -> float:
        return 0.0
