"""`Node`: one node of the cluster with the real engine, which can be booted, killed, frozen and stopped."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import cast

from onthedot.clock import SECOND
from onthedot.ids import SeededIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import Events
from onthedot.model.job import Job
from onthedot.node.engine import Engine
from onthedot.runners.registry import Registry
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot_verify.checker import Journal
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.clocks import NodeClock
from onthedot_verify.simulation.faults import CALM, Fault, Weather
from onthedot_verify.simulation.loop import PROCESS, ClusterLoop, Process
from onthedot_verify.simulation.network import CALLER, NetworkStore
from onthedot_verify.simulation.recorder import Recorder
from onthedot_verify.simulation.workload import LONGEST

Build = Callable[..., Engine]


class SimulatedEngine(Engine):
    """The engine of production, without commands and HTTP calls."""

    outside = False


class Boot:
    """One boot of a node."""

    def __init__(self, process: Process, network: NetworkStore, engine: Engine) -> None:
        self.process = process
        self.network = network
        self.engine = engine
        self.tasks: list[asyncio.Task[None]] = []
        self.started = False
        self.stopping = False


class Node:
    """A machine that boots the program again and again."""

    def __init__(
        self,
        number: int,
        seed: str,
        loop: ClusterLoop,
        store: Recorder,
        journal: Journal,
        settings: Settings,
        program: Callable[[], tuple[Registry, list[Job]]],
        break_it: Callable[[Node, Fault], None],
        build: Build = SimulatedEngine,
    ) -> None:
        self.name = "abcdefghijklmnopqrstuvwxyz"[number]
        self.clock = NodeClock(store.clock)
        self.boot: Boot | None = None
        self.weather: Weather = CALM
        self.broken: dict[str, float] = {}
        self.armed: list[Fault] = []  # faults that wait for a call
        self.calls = 0
        self.boots = 0
        self._seed = seed
        self._loop = loop
        self._store = store
        self._journal = journal
        self._settings = settings
        self._program = program
        self._break = break_it
        self._build = build
        self._down_until = 0.0

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Boot: a new process with the current program."""
        if self.boot is not None or self._loop.time() < self._down_until:
            return
        self.boots += 1
        name = f"{self.name}#{self.boots}"
        process = Process(name)
        context = copy_context()
        context.run(PROCESS.set, process)
        context.run(CALLER.set, name)
        context.run(self._boot, process)

    def _boot(self, process: Process) -> None:
        registry, jobs = self._program()
        chance = Chance(f"{self._seed} {process.name} cable")  # another word would change all seeds
        network = NetworkStore(self._store, process, chance, self._strike)
        network.weather, network.broken = self.weather, self.broken
        ids = SeededIds(f"{self._seed} {process.name}")
        engine = self._build(cast(Store, network), registry, self._settings, Events(), self.clock, ids)
        self.boot = Boot(process, network, engine)
        self._journal.add("worker", "boot")
        self.boot.tasks.append(self._loop.create_task(self._live(self.boot, jobs), name=f"{process.name} main"))

    async def _live(self, boot: Boot, jobs: list[Job]) -> None:
        """The main function of the process."""
        try:
            await boot.engine.start(jobs, self._loop)
            boot.started = True
            error = await boot.engine.broken()
        except StoreUnavailable:
            self._exit(boot, "failed", again_in=1.0)
            return
        except Exception as raised:  # noqa: BLE001 - a bug, recorded as one
            error = raised
        if boot.stopping and isinstance(error, StoreUnavailable):
            return
        where = traceback.extract_tb(error.__traceback__)[-1:]
        place = f" at {where[0].filename.rpartition('/')[2]}:{where[0].lineno}" if where else ""
        self._journal.add("worker", "broken", error=f"{type(error).__name__}: {error}{place}")
        self._exit(boot, "broken", again_in=1.0)

    def _exit(self, boot: Boot, how: str, *, again_in: float) -> None:
        """End the process. It boots again after a while."""
        if self.boot is not boot:
            return
        context = copy_context()
        context.run(CALLER.set, boot.process.name)  # not the process that ended it
        context.run(partial(self._journal.add, "worker", "exit", how=how))
        self.calls += boot.network.calls
        self._loop.kill(boot.process)
        self.boot = None
        self._down_until = self._loop.time() + again_in
        self._later(again_in, self.start)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        context = copy_context()
        context.run(PROCESS.set, None)
        self._loop.call_later(seconds, callback, context=context)

    # ── death ────────────────────────────────────────────────────────────────────────────────────────────────

    def kill(self, length: float) -> None:
        """kill -9, and a boot after `length`."""
        if self.boot is not None:
            self._exit(self.boot, "crash", again_in=length)

    def freeze(self, length: float) -> None:
        """SIGSTOP, and SIGCONT after `length`."""
        boot = self.boot
        if boot is None or boot.process.frozen:
            return
        self._loop.freeze(boot.process)
        self._later(length, lambda: self._loop.thaw(boot.process))

    def stop(self, length: float) -> None:
        """SIGTERM, and a boot `length` after the end."""
        boot = self.boot
        if boot is None or not boot.started or boot.stopping:
            return
        boot.stopping = True
        context = copy_context()
        context.run(PROCESS.set, boot.process)
        context.run(CALLER.set, boot.process.name)
        stop = self._loop.create_task(self._stop(boot, length), context=context, name=f"{boot.process.name} stop")
        boot.tasks.append(stop)

    async def _stop(self, boot: Boot, length: float) -> None:
        try:
            await boot.engine.stop(asyncio.Event())
        except StoreUnavailable:
            self._exit(boot, "failed", again_in=length)
        else:
            self._exit(boot, "stopped", again_in=length)

    # ── faults that wait for a call ──────────────────────────────────────────────────────────────────────────

    def _strike(self, call: str, when: str) -> bool:
        """Let the faults strike that wait for this call. Returns whether one struck at once."""
        due = [fault for fault in self.armed if fault.op == call and fault.when == when]
        for fault in due:
            self.armed.remove(fault)
            if fault.delay:
                self._later(fault.delay, partial(self._break, self, fault))
            else:
                self._break(self, fault)
        return any(not fault.delay for fault in due)

    @property
    def up(self) -> bool:
        """Whether clients can call this node."""
        boot = self.boot
        return boot is not None and boot.started and not boot.stopping and not boot.process.frozen

    def settle(self) -> None:
        """End all faults: the node is thawed, started and connected."""
        self.weather = CALM
        self.broken.clear()
        self.armed.clear()
        self.clock.skew = 0
        self.clock.drift(0)
        self._down_until = 0.0
        if self.boot is not None:
            self.boot.network.weather = CALM
            if self.boot.process.frozen:
                self._loop.thaw(self.boot.process)
        self.start()


def lengths(settings: Settings) -> dict[str, int]:
    """The settings that the checker needs: lengths of time in µs, and the seats of a node."""
    names = (
        *("node_ttl", "beat_every", "term_ttl", "reap_every", "plan_every", "poll_every", "lookahead", "lapse"),
        "late_after",
    )
    kept = {"kept": settings.retention.age or 0, "kept_failures": settings.retention.failures_age or 0}
    more = {"longest": round(LONGEST * SECOND), "seats": settings.seats}
    return {name: getattr(settings, name) for name in names} | kept | more
