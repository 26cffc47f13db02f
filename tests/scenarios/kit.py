"""Plays scenarios given as data: a job, a script of events, and the exact fate of every slot and submitted run.

Each scenario runs with real engines in virtual time, on nodes of the simulator: a killed node writes nothing more, and
the answer of a call can be lost. Seconds count from noon. Starts are those that the handlers noted.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import onthedot as otd
from onthedot.clock import SECOND, Clock, to_micros
from onthedot.model.job import Job
from onthedot.model.run import NewRun, RunRecord, is_slot
from onthedot.operations.put_job import put_job, resume_job
from onthedot.runners.registry import Registry
from onthedot.stores.protocol import Store
from onthedot.testing import VirtualClock
from onthedot_verify.checker import RULES, Journal, check
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.faults import Fault, Weather
from onthedot_verify.simulation.loop import ClusterLoop
from onthedot_verify.simulation.network import CALLER
from onthedot_verify.simulation.node import Node, lengths
from onthedot_verify.simulation.recorder import Recorder

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(NOON)
JOB = "job"
FOREVER = 1e9
CLEAR_SKY = Weather(lost=0.0, hints_lost=0.0, slow=0.0, latency=0.0)
SETTINGS = otd.Settings()

OpenStore = Callable[[Clock], Store | Awaitable[Store]]
Work = Callable[[otd.Context], Awaitable[None]]


class At(NamedTuple):
    """One step of a script: the second, the name of a method of `World`, and its arguments."""

    second: float
    verb: str
    given: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}


def at(second: float, verb: str, *given: Any, **options: Any) -> At:
    """Make one step of a script."""
    return At(second, verb, given, options)


class Between(NamedTuple):
    """A start within a range of seconds, because a random backoff delayed it."""

    first: float
    last: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and self.first <= other <= self.last

    def __hash__(self) -> int:
        raise TypeError("a range of seconds can be compared, but not be a key")


class Fate(NamedTuple):
    """The fate of a run: state, recorded reason, seconds of its starts, and number of attempts."""

    state: str
    reason: str
    starts: list[Any]
    attempts: int


def ran(*starts: float | Between) -> Fate:
    """Return the fate of a run that started at these seconds and succeeded at the last start."""
    return Fate("succeeded", "", list(starts), len(starts))


def skipped(reason: str) -> Fate:
    return Fate("skipped", reason, [], 0)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of the table.

    `fates` has all slots up to `until`, by their second, and all submitted runs, by their name in the script.
    `ranges` are slots that were skipped when they were planned: (first, last, count, reason).
    """

    job: Mapping[str, Any] = field(default_factory=dict)
    takes: float = 0.0
    fails: tuple[tuple[float, int], ...] = ()  # attempts that raise an error, as (slot, attempt)
    nodes: str = "a"
    settings: otd.Settings = SETTINGS
    script: tuple[At, ...] = ()
    until: float
    fates: Mapping[Any, Fate]
    ranges: tuple[tuple[float, float, int, str], ...] = ()
    unchecked_rules: tuple[str, ...] = ()  # rules of the checker that do not fit the script


class World:
    """A store and its nodes, with a method for each step of a script."""

    def __init__(self, scenario: Scenario, loop: ClusterLoop, open_store: OpenStore) -> None:
        self.scenario = scenario
        self.loop = loop
        self.clock = VirtualClock(loop, NOON)
        self.journal = Journal(lambda: (self.clock.now(), self.clock.steady(), CALLER.get()))
        self._edits = 0  # each definition has this number as its mark
        self.registry, self.definition = self._program(scenario.job)
        self.names: dict[int, str] = {}
        self._open = open_store
        self._nodes = {name: number for number, name in enumerate("abc")}
        self.nodes: dict[str, Node] = {}

    async def open(self) -> None:
        opened = self._open(self.clock)
        self.raw: Store = await opened if isinstance(opened, Awaitable) else opened
        self.store: Any = Recorder(self.raw, self.journal)
        self.raw.hints.listen(self._spread)
        self.journal.add("nemesis", "begin", seed="scenario", settings=lengths(self.scenario.settings))

    def _spread(self, hint: Any) -> None:
        for node in self.nodes.values():
            if node.boot is not None:
                node.boot.network.hear(hint)

    def _program(self, options: Mapping[str, Any]) -> tuple[Registry, Job]:
        """Return the job with a handler that notes its starts and ends."""
        sched = otd.Scheduler("memory:", settings=self.scenario.settings)
        failing = set(self.scenario.fails)

        async def handle(ctx: otd.Context, mark: int, tenant: str = "") -> None:
            slot = to_micros(ctx.scheduled_at)
            seen = {"run": ctx.run_id, "job": JOB, "slot": slot, "attempt": ctx.attempt, "fence": ctx.fence}
            seen |= {"mark": mark, "tenant": tenant}
            self.journal.add("job", "start", **seen)
            outcome = "cancelled"
            try:
                await asyncio.sleep(self.scenario.takes)
                outcome = "failed"
                if ((slot - T0) / SECOND, ctx.attempt) in failing:
                    raise OSError("as the table says")
                outcome = "done"
            finally:
                self.journal.add("job", "end", **seen, outcome=outcome)

        self._edits += 1
        sched.job(**{"name": JOB, "args": {"mark": self._edits}, **options})(handle)
        return sched.registry, sched.jobs[JOB]

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────

    async def boot(self, name: str, *, works: bool = True) -> None:
        """Start a node that has the job and its handler, or one that only plans."""

        def program() -> tuple[Registry, list[Job]]:
            return (self.registry, [self.definition]) if works else (Registry(), [])

        settings = replace(self.scenario.settings, node_id=name)
        if name not in self.nodes:
            node = Node(
                self._nodes[name], "scenario", self.loop, self.store, self.journal, settings, program, self._strike
            )
            node.weather = CLEAR_SKY
            self.nodes[name] = node
        self.nodes[name].start()
        await asyncio.sleep(0.001)  # enough for the start, because calls take no time here
        assert self.nodes[name].up

    async def kill(self, name: str, length: float = FOREVER) -> None:
        """Kill a node. It boots again after `length` seconds."""
        self.nodes[name].kill(length)

    async def kill_at(self, name: str, op: str, length: float = FOREVER) -> None:
        """Kill a node after its next call of `op` was done, and before the answer."""
        self.nodes[name].armed.append(Fault(0.0, "crash", 0, length, op=op, when="after"))

    async def lose_answer(self, name: str, op: str) -> None:
        """Lose the answer of the node's next call of `op`. The call itself is done."""
        self.nodes[name].armed.append(Fault(0.0, "deaf", 0, 0.001, op=op, when="after"))

    def _strike(self, node: Node, fault: Fault) -> None:
        if fault.kind == "crash":
            node.kill(fault.length)
            return
        node.broken[fault.kind] = fault.amount
        self.loop.call_later(fault.length, node.broken.pop, fault.kind, None)

    # ── requests of users ────────────────────────────────────────────────────────────────────────────────────

    async def job_id(self) -> int:
        record = await self.raw.queries.get_job(JOB)
        assert record is not None
        return record.id

    async def put(self, **options: Any) -> None:
        """Create or edit the job."""
        self.registry, self.definition = self._program({**self.scenario.job, **options})
        await put_job(self.store, self.definition, clock=self.clock, settings=self.scenario.settings)

    async def pause(self) -> None:
        await self.store.pause_job(await self.job_id(), reason="by hand")

    async def resume(self, missed: Any = "none") -> None:
        await resume_job(
            self.store, await self.job_id(), missed=missed, clock=self.clock, settings=self.scenario.settings
        )

    async def submit(self, *names: str, key: str = "", trigger: str = "submit", tenant: str = "") -> None:
        """Submit runs that are due now, one for each name."""
        args = json.dumps({"mark": self._edits, "tenant": tenant}) if tenant else None
        job_id, now = await self.job_id(), self.clock.now()
        runs = await self.store.submit([NewRun(job_id, f"{trigger}:{name}", now, args, key) for name in names])
        for run, name in zip(runs, names, strict=True):
            self.names.setdefault(run, name)

    # ── results ──────────────────────────────────────────────────────────────────────────────────────────────

    async def fates(self) -> dict[float | str, Fate]:
        """Return the fates of every slot up to the end and of every submitted run."""
        found: dict[float | str, Fate] = {}
        for run in sorted(await self.raw.queries.list_runs(job=JOB, limit=10_000), key=lambda run: run.id):
            second = (run.slot_at - T0) / SECOND
            if not is_slot(run.trigger) or second <= self.scenario.until:
                name = second if is_slot(run.trigger) else self.names[run.id]
                assert name not in found, f"{name} has two fates"
                found[name] = self._fate(run)
        return found

    def _fate(self, run: RunRecord) -> Fate:
        noted = [event for event in self.journal.events if event["ev"] == "start" and event["run"] == run.id]
        # A node knows the store's clock to half a millisecond. A start may be that late, but never early.
        assert all(event["t_store"] >= run.slot_at for event in noted), f"run {run.id} started early"
        starts = [round((event["t_store"] - T0) / SECOND, 2) for event in noted]
        return Fate(run.state.value, run.reason, starts, run.attempts)

    def most_at_once(self) -> dict[str, int]:
        """Return for each tenant the highest number of attempts that ran at the same time."""
        running: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for event in self.journal.events:
            if event["src"] == "job":
                running[event["tenant"]] += 1 if event["ev"] == "start" else -1
                most[event["tenant"]] = max(most[event["tenant"]], running[event["tenant"]])
        return dict(most)

    async def ranges(self) -> tuple[tuple[float, float, int, str], ...]:
        skips = sorted(await self.raw.queries.list_skips(job=JOB, limit=10_000), key=lambda skip: skip.first)
        return tuple(((skip.first - T0) / SECOND, (skip.last - T0) / SECOND, skip.count, skip.reason) for skip in skips)


def play(scenario: Scenario, open_store: OpenStore) -> tuple[World, dict[float | str, Fate], tuple[Any, ...]]:
    """Run a scenario to its end, and return the world, the fates and the skipped ranges."""
    loop = ClusterLoop(Chance("scenario order"))
    world = World(scenario, loop, open_store)

    async def main() -> tuple[dict[float | str, Fate], tuple[Any, ...]]:
        await world.open()
        for name in scenario.nodes:
            await world.boot(name)
        for step in scenario.script:
            await _until(world, step.second)
            await getattr(world, step.verb)(*step.given, **step.options)
        await _until(world, scenario.until)
        found = await world.fates(), await world.ranges()
        world.journal.close()
        for node in world.nodes.values():
            node.kill(FOREVER)
        await world.raw.close()
        return found

    try:
        fates, ranges = loop.run_until_complete(main())
    finally:
        loop.bury_all()
        loop.close()
    assert not loop.trouble, loop.trouble
    return world, fates, ranges


async def _until(world: World, second: float) -> None:
    await asyncio.sleep(max(0.0, second - world.loop.time()))


def check_scenario(scenario: Scenario, open_store: OpenStore) -> World:
    """Play a scenario, and check that every fate is as expected and that the history breaks no rule."""
    world, fates, ranges = play(scenario, open_store)
    wrong = [
        f"{name}: expected {scenario.fates.get(name)}, found {fates.get(name)}"
        for name in {**scenario.fates, **fates}
        if scenario.fates.get(name) != fates.get(name)
    ]
    assert not wrong, "\n".join(wrong)
    assert ranges == scenario.ranges, f"expected {scenario.ranges}, found {ranges}"
    found = check(world.journal.events, only=[rule for rule in RULES if rule not in scenario.unchecked_rules])
    assert not found, "\n".join(map(str, found))
    return world
