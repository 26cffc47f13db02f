"""`simulate`: runs a cluster with a workload and faults, then without faults, and checks its history."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from onthedot.clock import SECOND, Clock
from onthedot.model.errors import StoreUnavailable
from onthedot.model.job import Job
from onthedot.model.retention import HOUR, Retention
from onthedot.node.engine import Engine
from onthedot.runners.registry import Registry
from onthedot.settings import Settings
from onthedot.simulate.virtual_loop import VirtualClock
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot_verify.checker import Journal, Violation, check, digest
from onthedot_verify.checker.history import Event
from onthedot_verify.simulation import faults as fault_schedules
from onthedot_verify.simulation import workload as workloads
from onthedot_verify.simulation.actions import Action, Client, draw_layouts
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.dependents import with_dependents
from onthedot_verify.simulation.faults import CALM, Fault, Weather
from onthedot_verify.simulation.handlers import registry
from onthedot_verify.simulation.loop import PROCESS, ClusterLoop
from onthedot_verify.simulation.network import CALLER
from onthedot_verify.simulation.node import Boot, Build, Node, SimulatedEngine, lengths
from onthedot_verify.simulation.outages import Outages, draw_outages
from onthedot_verify.simulation.recorder import Recorder
from onthedot_verify.simulation.workload import Workload
from onthedot_verify.simulation.zone_data import ZoneData

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
WORKDAY = 7_200.0  # seconds: work is drawn for at least this long, so that a shorter run is part of a longer one
SETTLE = 420.0  # seconds without faults at the end: longer than each limit of the liveness rules

KEPT = 600 * SECOND


def brief(kept: int = KEPT) -> Retention:
    """A retention so short that runs are pruned within an hour. In production it would be invalid, because verdicts are
    repeated and results are read up to an hour later. No call here takes nearly that long."""
    found = Retention(age=HOUR, failures_age=HOUR)
    object.__setattr__(found, "age", kept)
    object.__setattr__(found, "failures_age", 2 * kept)
    return found


def usual_settings() -> Settings:
    """Production's settings with few seats and less polling, because idle polling is most of the cost of an hour."""
    return Settings(
        seats=8, ahead=8, retention=brief(), poll_every=2 * SECOND, expire_every=4 * SECOND, prune_every=120 * SECOND,
        clock_every=SECOND,
    )  # fmt: skip


OpenStore = Callable[[Clock], Store | Awaitable[Store]]


@dataclass(frozen=True)
class Scenario:
    """Everything that a run depends on. If no faults are given, the seed draws them.

    >>> from onthedot_verify.simulation import CALM, Fault, Scenario
    >>> drawn = Scenario(seed="7", minutes=10)
    >>> mine = Scenario(minutes=10, weather=CALM, faults=(Fault(at=30, kind="freeze", node=0, length=20),))
    """

    seed: str = "1"
    minutes: float = 60.0
    nodes: int = 3
    jobs: int = 20
    fault_every: float = 40.0
    extra_faults: tuple[str, ...] = ()
    layout_every: float = 0.0
    """Mean seconds between two changes of the number of shards; 0: always one shard."""
    outage_every: float = 500.0
    """Mean seconds between two outages of all nodes, or delayed edits, each with jobs that notice it; 0: none."""
    exact: bool = True
    """Whether some jobs are under exactly_once. The store needs transactions for that."""
    weather: Weather = field(default_factory=Weather)
    faults: tuple[Fault, ...] | None = None
    workload: Workload | None = None
    settings: Settings = field(default_factory=usual_settings)

    @property
    def faulty_seconds(self) -> float:
        """How long there are faults. In the last seven minutes there are none, so that the cluster recovers.

        >>> drawn.faulty_seconds
        180.0
        """
        return max(60.0, self.minutes * 60 - SETTLE)

    def filled(self) -> Scenario:
        """The same scenario with the faults and the workload of its seed, to read it or to change a part of it.

        >>> filled = drawn.filled()
        >>> len(filled.faults) > 3, filled == drawn.filled(), mine.filled().faults == mine.faults
        (True, True, True)
        """
        seconds = self.faulty_seconds
        work, workday, outages = self.workload, max(WORKDAY, seconds + SETTLE), Outages()
        if self.outage_every:
            outages = draw_outages(self.seed, start=START, nodes=self.nodes, seconds=workday, every=self.outage_every)
        drawn = self.faults
        if drawn is None:
            found = fault_schedules.generate(
                self.seed, nodes=self.nodes, seconds=seconds, every=self.fault_every, extra=self.extra_faults
            )
            if work is None:
                found += [fault for fault in outages.faults if fault.at < seconds]
            drawn = tuple(found)
        if work is None:
            work = workloads.generate(
                self.seed, start=START, nodes=self.nodes, seconds=workday, jobs=self.jobs, exact=self.exact
            )
            work = outages.added_to(with_dependents(work, self.seed, nodes=self.nodes, seconds=workday))
        if self.layout_every and self.workload is None:
            layouts = draw_layouts(self.seed, self.nodes, seconds + SETTLE / 3, self.layout_every)
            actions = sorted([*work.actions, *layouts], key=lambda action: action.at)
            work = replace(work, actions=tuple(actions))
        return replace(self, faults=drawn, workload=work)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its history, the promises that it broke, and how much happened.

    >>> from onthedot_verify.simulation import CALM, Fault, Scenario, simulate
    >>> crash = Fault(at=30, kind="crash", node=0, length=5)
    >>> outcome = simulate(Scenario(minutes=8, nodes=2, jobs=2, weather=CALM, faults=(crash,)))
    >>> outcome.violations, f"{outcome.hours:.2f} hours", len(outcome.digest)
    ([], '0.13 hours', 64)
    >>> outcome.counts["nemesis"], outcome.counts["boot"]  # two nodes, one of them booted twice
    (1, 3)
    """

    scenario: Scenario
    events: list[Event]
    violations: list[Violation]
    steps: int
    calls: int

    @property
    def digest(self) -> str:
        """Equal for equal histories."""
        return digest(self.events)

    @property
    def hours(self) -> float:
        """The virtual hours that have passed."""
        length: int = self.events[-1]["t_mono"] - self.events[0]["t_mono"]
        return length / SECOND / 3600

    @property
    def counts(self) -> Counter[str]:
        """The number of events of each kind."""
        return Counter(event["ev"] for event in self.events)


def simulate(scenario: Scenario, *, store: OpenStore = MemoryStore, build: Build = SimulatedEngine) -> Outcome:
    """Run a scenario to its end and check its history.

    `store` opens the store under test, with the clock of the simulation. `build` makes each node's engine: pass one
    with a bug to see that a rule finds it.

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.simulation import Scenario, simulate
    >>> class Forgetful(MemoryStore):  # it accepts each finish, and writes nothing
    ...     async def finish(self, batch, **options):
    ...         return [True for _ in batch]
    >>> outcome = simulate(Scenario(seed="7", minutes=8, jobs=2), store=Forgetful)
    >>> "S18" in {violation.rule for violation in outcome.violations}
    True
    """
    loop = ClusterLoop(Chance(f"{scenario.seed} order"))
    cluster = Cluster(scenario.filled(), loop, store, build)
    collects = gc.isenabled()
    gc.disable()  # it takes a tenth of the time, and a seed does not decide when it runs
    try:
        loop.run_until_complete(cluster.run())
        calls = sum(node.calls for node in cluster.nodes)
    finally:
        loop.bury_all()
        loop.close()
        if collects:
            gc.enable()
    events = cluster.journal.events
    return Outcome(cluster.scenario, events, check(events), loop.steps, calls)


class Cluster:
    """The nodes, the store, the workload and the faults."""

    def __init__(self, scenario: Scenario, loop: ClusterLoop, open_store: OpenStore, build: Build) -> None:
        self.scenario = scenario
        self.loop = loop
        self.clock = VirtualClock(loop, START)
        self.journal = Journal(self._where)
        self.nodes: list[Node] = []
        self._open_store = open_store
        self._build = build
        self._weather = scenario.weather
        self._submitted: list[int] = []

    def _where(self) -> tuple[int, int, str]:
        return self.clock.now(), self.clock.steady(), CALLER.get()

    @property
    def _work(self) -> Workload:
        return cast(Workload, self.scenario.workload)

    async def run(self) -> None:
        """Two phases: faults, then recovery, in which liveness is demanded."""
        opened = self._open_store(self.clock)
        store = await opened if inspect.isawaitable(opened) else opened
        recorder = Recorder(store, self.journal)
        recorder.zone_data = ZoneData(self.scenario.seed, self.scenario.faulty_seconds, self.loop.time)
        scenario = self.scenario
        self.journal.add("nemesis", "begin", seed=scenario.seed, settings=lengths(scenario.settings))
        store.hints.listen(self._spread)
        for number in range(scenario.nodes):
            name = "abcdefghijklmnopqrstuvwxyz"[number]
            serves = self._work.serves.get(name, {})
            settings = replace(scenario.settings, node_id=name, **serves)  # type: ignore[arg-type]
            node = Node(
                number, scenario.seed, self.loop, recorder, self.journal, settings, self._program, self._strike,
                self._build,
            )  # fmt: skip
            node.weather = scenario.weather
            self.nodes.append(node)
            self.loop.call_later(number * 0.7, node.start)
        for fault in scenario.faults or ():
            if fault.at < scenario.faulty_seconds:  # the last node of a blackout may be too late
                self.loop.call_later(fault.at, self._break, fault)
        for action in self._work.actions:
            self.loop.call_later(action.at, self._ask, action)
        await asyncio.sleep(scenario.faulty_seconds)
        self._heal()
        await asyncio.sleep(SETTLE)
        await self._final(store)

    def _program(self) -> tuple[Registry, list[Job]]:
        """The program of a node that boots now."""
        jobs = self._work.version(self.loop.time())
        return registry(self.scenario.seed, self._work, self.journal), list(jobs.values())

    def _spread(self, hint: object) -> None:
        for node in self.nodes:
            if node.boot is not None:
                node.boot.network.hear(hint)  # type: ignore[arg-type]

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────

    def _break(self, fault: Fault) -> None:
        node = self.nodes[fault.node % len(self.nodes)]
        if fault.op:
            node.armed.append(fault)
        else:
            self._strike(node, fault)

    def _strike(self, node: Node, fault: Fault) -> None:
        where = f" at {fault.op}" if fault.op else ""
        told = f"{fault.kind}{where} for {fault.length} s" + (f" ({fault.amount})" if fault.amount else "")
        length = round(fault.length * SECOND)
        self.journal.add("nemesis", "nemesis", fault=told, on=node.name, kind=fault.kind, length=length)
        match fault.kind:
            case "crash":
                node.kill(fault.length)
            case "freeze":
                node.freeze(fault.length)
            case "stop":
                node.stop(fault.length)
            case "step":
                self.clock.step(round(fault.amount * SECOND))
            case "skew":
                node.clock.skew = round(fault.amount * SECOND)
                self._later(fault.length, setattr, node.clock, "skew", 0)
            case "drift":
                node.clock.drift(fault.amount)
                self._later(fault.length, node.clock.drift, 0)
            case _:
                node.broken[fault.kind] = fault.amount
                self._later(fault.length, node.broken.pop, fault.kind, None)

    def _later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        """Call back outside any process, because the current process may be dead by then."""
        context = copy_context()
        context.run(PROCESS.set, None)
        self.loop.call_later(seconds, callback, *args, context=context)

    def _heal(self) -> None:
        self.journal.add("nemesis", "heal")
        for node in self.nodes:
            node.settle()

    # ── actions ──────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, action: Action) -> None:
        """Perform the action on its node, or on the next one that is up. If none is up, nothing happens."""
        order = [*self.nodes[action.node :], *self.nodes[: action.node]]
        node = next((node for node in order if node.up), None)
        if node is None or node.boot is None:
            return
        boot = node.boot
        context = copy_context()
        context.run(PROCESS.set, boot.process)
        context.run(CALLER.set, boot.process.name)
        task = self._put(action, boot.engine) if action.kind == "put" else self._client(boot, node).perform(action)
        boot.tasks.append(self.loop.create_task(task, context=context))

    def _client(self, boot: Boot, node: Node) -> Client:
        return Client(boot.engine.store, node.clock, self.scenario.settings, self.journal, self._submitted)

    async def _put(self, action: Action, engine: Engine) -> None:
        """Deploy the job's definition of the instant of the action."""
        for attempt in range(20):
            try:
                await engine.put_job(self._work.version(action.at)[action.job])
            except StoreUnavailable:
                await asyncio.sleep(0.2 * (attempt + 1))
            else:
                return

    async def _final(self, store: Store) -> None:
        """Kill all nodes, and record what the store has."""
        for node in self.nodes:
            node.settle = lambda: None  # type: ignore[method-assign]
            node.kill(1e9)
        for run in sorted(await store.queries.list_runs(limit=1_000_000), key=lambda run: run.id):
            recorded = await store.queries.list_attempts(run.id)
            self.journal.add(
                "api", "final", run=run.id, state=str(run.state), attempts=run.attempts, failures=run.failures,
                recoveries=run.recoveries, recorded=len(recorded),
            )  # fmt: skip
        counted = [
            [row.job, str(row.state), row.count] for row in await store.queries.list_daily_counts(limit=1_000_000)
        ]
        self.journal.add("api", "rollup", counted=counted)
        self.journal.add("nemesis", "over")
        self.journal.close()
        await store.close()


__all__ = ["CALM", "Cluster", "Outcome", "Scenario", "simulate"]
