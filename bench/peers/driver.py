"""Runs the measurements: by store, then by figure, then by round, and in each round all systems take turns.

So noise hits all systems, and the figures that were measured before the time is over are complete. A system that fails
twice in a figure is left out of it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from bench import server, valkey
from bench.peers.catalog import OURS, System
from bench.peers.child import Lacking
from bench.peers.environments import Environments
from bench.peers.figures import MEASUREMENTS, Files, Place, Scene, measures
from bench.peers.interruption import Interrupted, Interruption
from bench.results import BenchFailed, short
from bench.rounds import Plan
from tests.servers.running import ServerTrouble

LIMIT = 120.0  # seconds for one measurement
_FAILURES = 2

Key = tuple[str, str, str]
"""Store, figure, system."""


@dataclass(slots=True)
class Measured:
    """The results. Values are by the number of the round; a round in which a system failed has none."""

    values: dict[Key, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    notes: dict[Key, dict[int, dict[str, float]]] = field(default_factory=lambda: defaultdict(dict))
    failures: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Systems and stores that could not be measured, and why."""
    stopped: str = ""
    """Why not everything was measured; empty if everything was."""
    is_interrupted: bool = False
    """It was stopped by Ctrl-C or SIGTERM."""
    has_failed: bool = False
    """onthedot itself lost or doubled a run, or did not finish."""


class Databases:
    """Databases of one server."""

    def __init__(self, running: server.Server | valkey.Server) -> None:
        self._server = running

    def create(self) -> str:
        return self._server.create()

    def drop(self, url: str) -> None:
        self._server.drop(url)

    def settle(self, url: str) -> None:
        """Nothing happens by itself."""

    def cpu_seconds(self) -> float:
        return self._server.cpu_seconds()


class Postgres(Databases):
    """PostgreSQL analyses tables at any time, so it does that before the measurement."""

    def settle(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ANALYZE")


@contextmanager
def place_of(store: str, folder: Path) -> Iterator[Place]:
    """Give the place where stores of this kind are made; with its server, if it needs one."""
    if store == "postgres":
        with server.running() as postgres:
            yield Postgres(postgres)
    elif store == "redis":
        with valkey.running() as redis:
            yield Databases(redis)
    else:
        yield Files(folder, memory=store == "memory")


class Driver:
    """One run of the bench."""

    def __init__(self, plan: Plan, environments: Environments, interruption: Interruption, ends_at: float) -> None:
        self.plan = plan
        self.measured = Measured()
        self._environments = environments
        self._interruption = interruption
        self._ends_at = ends_at
        self._failed: Counter[Key] = Counter()

    def run(self, stores: Sequence[str], systems: Sequence[System], measurements: Sequence[str]) -> None:
        """Measure until everything is done, the time is over, or a signal comes."""
        try:
            for store in stores:
                folder = self.plan.folder / store
                folder.mkdir(exist_ok=True)
                try:
                    with place_of(store, folder) as place:
                        self._on(store, place, replace(self.plan, folder=folder), systems, measurements)
                except ServerTrouble as trouble:
                    self.measured.skipped[store] = str(trouble).splitlines()[0]
        except _TimeOver:
            self.measured.stopped = "the time was over"
        except Interrupted:
            self.measured.stopped, self.measured.is_interrupted = "it was stopped", True

    def _on(self, store: str, place: Place, plan: Plan, systems: Sequence[System], measurements: Sequence[str]) -> None:
        for measurement in measurements:
            some = [system for system in systems if measures(system, store, measurement)]
            for number in range(plan.rounds):
                said = []
                for system in some[number % len(some) :] + some[: number % len(some)] if some else []:
                    if time.monotonic() > self._ends_at:
                        raise _TimeOver
                    values = self._one(store, place, plan, system, measurement, number)
                    said += [f"{system.name} {' / '.join(map(short, values.values()))}"] if values else []
                if said:
                    line = f"{store}, {measurement}, round {number + 1}: {', '.join(sorted(said))}"
                    print(line, file=sys.stderr, flush=True)

    def _one(
        self, store: str, place: Place, plan: Plan, system: System, measurement: str, number: int
    ) -> Mapping[str, float]:
        """Measure once, and return the values. Empty if it failed, or if the system does not have the figure."""
        figures, measure = MEASUREMENTS[measurement]
        key = (store, measurement, system.name)
        if self._failed[key] >= _FAILURES:
            return {}
        gc.collect()
        scene = Scene(system, store, place, replace(plan, seed=plan.seed + number), self._environments.command(system))
        scene.url = place.create()

        async def within_limit() -> Mapping[str, float]:
            async with asyncio.timeout(LIMIT):
                return await measure(scene)

        try:
            values = self._interruption.run(within_limit())
        except Lacking:
            self._failed[key] = _FAILURES
            return {}
        except (BenchFailed, TimeoutError) as failure:
            why = str(failure) or f"{scene.name}: not done after {LIMIT:.0f} s"
            self._failed[key] += 1
            self.measured.failures.append(f"{measurement}, {why}")
            self.measured.has_failed |= system.name == OURS
            return {}
        finally:
            place.drop(scene.url)
        for figure in figures:
            self.measured.values[store, figure, system.name][number] = values[figure]
            if scene.notes:
                self.measured.notes[store, figure, system.name][number] = scene.notes
        return values


class _TimeOver(Exception):
    """No further measurement may start."""
