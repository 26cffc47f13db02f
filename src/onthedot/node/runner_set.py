"""The runners of one node: one for each kind of task that it can do here.

Handlers, HTTP calls and containers can be run from the start on. Programs need a guard process: it starts when the
first job with a command or steps is stored, or at once if the settings require it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from onthedot.clock import Clock, Micros
from onthedot.model.events import Events
from onthedot.model.job import Job
from onthedot.model.task import Command, Steps
from onthedot.node.finisher import Finisher
from onthedot.node.heartbeat import Membership
from onthedot.node.output_upkeep import OutputKeeper
from onthedot.node.seats import Seats
from onthedot.runners.factory import machine_abilities, make_runners, warm_up_children, warm_up_io
from onthedot.runners.guard.protocol import Guard
from onthedot.runners.hooks import HookCaller
from onthedot.runners.io_runner import NOT_RECORDED
from onthedot.runners.program import services as program_services
from onthedot.runners.program.runner import ProgramRunner, SpoolSweep
from onthedot.runners.program.services import abilities
from onthedot.runners.program.workspace import spool_of
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Host, Runner
from onthedot.runners.task_filler import TaskFiller, secrets_of
from onthedot.runners.thread import ThreadRunner
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class RunnerSet:
    """Makes the runners, reports to the node which tasks they can run, and ends them."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        membership: Membership,
        seats: Seats,
        finisher: Finisher,
        spool_sweep: SpoolSweep,
        keeper: OutputKeeper | None,
        *,
        plain_functions: type[ThreadRunner],
        outside: bool,
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._events = events
        self._clock = clock
        self._membership = membership
        self._seats = seats
        self._finisher = finisher
        self._spool_sweep = spool_sweep
        self._keeper = keeper
        self._plain_functions = plain_functions
        self._outside = outside
        self._runners: dict[str, Runner] = {}
        self._programs: ProgramRunner | None = None
        self._guard: Guard | None = None
        self._hooks: HookCaller | None = None

    @property
    def programs_run(self) -> bool:
        """Whether programs run now."""
        return self._programs is not None and self._programs.busy

    def open(self, application_loop: asyncio.AbstractEventLoop, jobs: Sequence[Job]) -> None:
        """Make the runners, ready for these jobs. Coroutines run on the application's loop. This loop controls all
        other runners.
        """
        settings = self._settings
        self._runners = make_runners(
            self._host(), application_loop,
            plain_functions=self._plain_functions, fill=self._fill(), recording=self._records() or NOT_RECORDED,
        )  # fmt: skip
        if self._registry.hooks.wanted:
            self._hooks = HookCaller(self._registry.hooks, application_loop, asyncio.get_running_loop(), self._events)
            self._finisher.on_accepted(self._hooks.accepted)
        self._seats.open(self._runners)
        if not settings.works:
            return
        if self._outside:
            self._offer(machine_abilities(settings))
            warm_up_io(self._runners, jobs)
        warm_up_children(self._runners, jobs)

    async def open_programs(self, jobs: Iterable[Job]) -> None:
        """Run commands and steps from here on, if the settings allow them and this machine supports them."""
        settings = self._settings
        wanted = settings.programs
        if wanted is None:
            wanted = any(isinstance(job.task, Command | Steps) for job in jobs)
        if not wanted or not settings.works or not self._outside or self._programs is not None:
            return
        guard = await program_services.guard_of(settings)
        if guard is None:
            return
        self._guard = guard
        self._membership.on_renewed(guard.renew)
        services = program_services.ProgramServices(
            guard, self._store, spool_of(settings), self._fill(), self._records()
        )
        self._programs = ProgramRunner(self._host(), services)
        self._runners["program"] = self._programs
        self._spool_sweep.open(self._programs)
        self._offer(abilities(guard.levels, settings.least_isolation))

    def _offer(self, abilities: Iterable[str]) -> None:
        self._registry.offer(abilities)
        self._membership.serve(tasks=self._registry.task_names())

    def _host(self) -> Host:
        """Return the data about this node that the runners need."""
        seats = self._seats
        return Host(
            asyncio.get_running_loop(), self._clock, self._settings, self._registry,
            ended=seats.ended, started=seats.started if self._events.wanted else None,
            stuck=seats.stuck, freed=seats.freed,
        )  # fmt: skip

    def _fill(self) -> TaskFiller:
        return TaskFiller(secrets_of(self._store.documents, self._registry.providers))

    def _records(self) -> program_services.SpoolKeeper | None:
        """Return where the runners submit output; None if this node keeps no output."""
        keeper, home = self._keeper, asyncio.get_running_loop()
        if keeper is None:
            return None

        def handed_in() -> None:  # on whatever thread
            if not home.is_closed():
                home.call_soon_threadsafe(keeper.wake)

        return program_services.SpoolKeeper(keeper.spool, handed_in)

    async def hooks_called(self, patience: Micros) -> None:
        """Wait until the hooks of ended attempts were called, at most for this time."""
        if self._hooks is not None:
            await self._hooks.settled(patience)

    def close(self) -> None:
        """End everything that runs outside the engine's loop. Calling it twice is fine."""
        for runner in self._runners.values():
            runner.close()
        self._runners = {}
        if self._hooks is not None:
            self._hooks.close()

    async def end_programs(self) -> None:
        """Close the guard, which ends all its programs. Calling it twice is fine."""
        guard, self._guard = self._guard, None
        if self._programs is not None:
            await self._programs.left()
        if guard is not None:
            await guard.close()
