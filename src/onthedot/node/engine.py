"""One node, wired: every service, its driver, and who wakes whom.

The engine runs on the loop it is started on. In production that is a loop on a thread of its own, so that a
handler which blocks the application's loop cannot stop the heartbeat; in tests and in the simulator it is one
virtual loop, with the same ticks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from onthedot import fault_points
from onthedot.access.audit_recorder import Recorder
from onthedot.clock import SECOND, Clock
from onthedot.define.job_writer import written
from onthedot.ids import Ids
from onthedot.loop import Driver, Loop, Service
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import DrainBegun, Events, JobPut, NodeLeft, StoreLost, StoreTrouble
from onthedot.model.job import Job, JobState
from onthedot.model.task import Command, Steps
from onthedot.node.assigner import Assigner
from onthedot.node.audit_sealer import Sealing
from onthedot.node.credential_cleanup import Forgetting
from onthedot.node.expiry import Expiry
from onthedot.node.fencing import SelfFencing
from onthedot.node.finisher import Finisher
from onthedot.node.gate_recount import GateRecount
from onthedot.node.heartbeat import Membership
from onthedot.node.leadership import Leadership
from onthedot.node.loop_courtesy import GiveWay
from onthedot.node.output_upkeep import OutputKeeper, OutputPruner, Patience
from onthedot.node.planner import Planner
from onthedot.node.probing import Probing
from onthedot.node.pruner import Pruner
from onthedot.node.reaper import Reaper
from onthedot.node.resumer import Resumer
from onthedot.node.timekeeping import Timekeeping
from onthedot.node.worker import Arming, Reserving, Worker
from onthedot.operations.put_job import put_job
from onthedot.operations.result_waiters import Ends
from onthedot.output.output_owner import NodeOutput
from onthedot.runners.attempt_notes import Desk
from onthedot.runners.factory import machine_abilities, make_runners, warm_up_children, warm_up_io
from onthedot.runners.hooks import HookCaller
from onthedot.runners.io_runner import NOT_RECORDED
from onthedot.runners.program import program_services
from onthedot.runners.program.program_ends import abilities
from onthedot.runners.program.protocol import Guard
from onthedot.runners.program.runner import ProgramRunner, SpoolSweep
from onthedot.runners.program.workspace import spool_of
from onthedot.runners.registry import Registry
from onthedot.runners.runner import Host, Runner
from onthedot.runners.task_filler import TaskFiller, secrets_of
from onthedot.runners.thread import ThreadRunner
from onthedot.settings import Settings
from onthedot.stores.hints import Hint, Loss
from onthedot.stores.protocol import Store
from onthedot.stores.store_clock import StoreClock
from onthedot.stores.values import PutJob

LAST_OUTPUT = 3.0
"""How long a stopping node tries to keep what its last attempts have left, in seconds."""


class Engine:
    """The services of one node on one store."""

    plain_functions: type[ThreadRunner] = ThreadRunner
    outside = True  # whether there is a world outside: programs, HTTP calls, containers; not in virtual time

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        ids: Ids,
        leaving: NodeOutput | None = None,
    ) -> None:
        self.store = store
        self.leaving = leaving
        self._wall = clock.now
        self.events = events
        self._settings = settings
        self._registry = registry
        registry.withdraw()
        self._sweeping = SpoolSweep(settings, clock)
        self.clock = clock = store.clock or StoreClock(clock)
        self._membership = Membership(store, clock, ids, settings, events)
        self._leadership = Leadership(store, self._membership, clock, settings, events)
        self._planner = Planner(store, self._leadership, clock, settings, events)
        self._desk = Desk(store, settings, clock, events)
        self._programs: ProgramRunner | None = None
        self._guard: Guard | None = None
        self.ends = Ends(store, settings)
        self._finisher = Finisher(store, settings, events, self._desk)
        self._worker = Worker(store, self._membership, self._finisher, registry, settings, events, clock, ids)
        self._loop = Loop(clock, ids, self._tell_trouble)
        self._idle = asyncio.Event()
        self._home: asyncio.AbstractEventLoop | None = None
        self._courtesy: GiveWay | None = None
        self._runners: dict[str, Runner] = {}
        self._hooking: HookCaller | None = None
        self.recorder = Recorder(store, clock, "program", written) if self.outside else None
        self._drivers = self._wire()

    def _wire(self) -> dict[str, Driver]:
        worker = self._worker
        reserving = Reserving(worker, on_held=lambda: drivers["arming"].wake())
        assigner = Assigner(self.store, self._leadership, self._settings, self.events)
        services: list[Service] = [
            self._membership,
            SelfFencing(self._membership, self.clock, self.events, worker.cut_off),
            Timekeeping(self.store, self._membership, self.clock, self._settings),
            self._leadership,
            self._planner,
            assigner,
            reserving,
            Arming(worker, on_room=lambda: drivers["worker"].wake()),
            self._desk,
            self._finisher,
            self.ends,
            Reaper(self.store, self._membership, self._settings, self.events),
            Expiry(self.store, self._settings, self.events),
            Pruner(self.store, self._leadership, self._settings, self.events),
            Resumer(self.store, self.clock, self._settings, self.events),
            GateRecount(self.store, self._settings, self.events),
            Probing(self.store, self._leadership, self._settings, self.events),
            *self._output_services(),
            *self._access_services(),
            self._sweeping,
        ]
        drivers = {service.name: self._loop.add(service) for service in services}
        self._membership.tasks = worker.tasks
        worker.desk = self._desk
        self._membership.on_fenced(worker.fenced)
        self._membership.on_cancel(worker.cancel)
        self._membership.on_free_to_work(drivers["worker"].wake)

        def heed(hint: Hint) -> None:
            if hint.kind == "ends":  # the most frequent one, and of no interest to the others
                if self.ends.wants(hint):
                    drivers["ends"].wake()
                return
            if self._planner.wants(hint):
                drivers["planner"].wake()
            if assigner.wants(hint):
                drivers["assigner"].wake()
            if reserving.wants(hint):
                drivers["worker"].wake()
            if self._membership.wants(hint):
                drivers["heartbeat"].wake()
            if self._leadership.wants(hint):
                drivers["leadership"].wake()

        self.store.hints.listen(heed)

        def heed_loss(loss: Loss) -> None:
            self.events.emit(StoreLost(*loss))
            reserving.store_has_lost()
            drivers["worker"].wake()

        self.store.hints.listen_for_loss(partial(self._at_home, heed_loss))
        return drivers

    def _output_services(self) -> list[Service]:
        if self.leaving is None:
            return []
        spool, outputs = self.leaving
        self._patience = Patience()
        most = self._settings.spool_bytes
        self._keeper = OutputKeeper(self.store, spool, outputs, self.events, self._wall, self._patience, most=most)
        pruner = OutputPruner(self.store, self._leadership, outputs, self.events, self._wall, self._patience)
        return [self._keeper, pruner]

    def _access_services(self) -> list[Service]:
        """Where there is no world outside there is no front door either: no keys, and nothing to audit."""
        if self.recorder is None:
            return []
        sealing = Sealing(self.store, self._leadership, self._settings, self.events)
        return [sealing, Forgetting(self.store, self._leadership, self._settings, self.events), self.recorder]

    def output_is_there(self) -> None:
        """An attempt's output was handed in (`output/spool.py`): keep it now."""
        if "outputs" in self._drivers:
            self._drivers["outputs"].wake()

    def _tell_trouble(self, service: str, error: Exception, again_in: int) -> None:
        self.events.emit(StoreTrouble(service, str(error), again_in))

    def _at_home(self, heed: Callable[[Loss], None], loss: Loss) -> None:
        """Whoever noticed it, on whatever thread: it is heeded on the engine's."""
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(heed, loss)

    @property
    def node_id(self) -> str:
        """This node's name in the store."""
        return self._membership.node_id

    # ── start ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, jobs: Sequence[Job], application_loop: asyncio.AbstractEventLoop) -> None:
        """Join, store the program's jobs, and begin to tick. Handlers run on the application's loop."""
        self._home = asyncio.get_running_loop()
        self._attach_runners(application_loop)
        if self._settings.works and self.outside:
            self._registry.offer(machine_abilities(self._settings))
            self._worker.tasks = self._membership.tasks = self._registry.task_names()
            warm_up_io(self._runners, jobs)
        self._worker.queues = self._membership.queues = self._settings.queues_for(jobs)
        self._desk.open(self._drivers["desk"].wake)
        self.ends.open(self._drivers["ends"].wake)
        if self._settings.works:
            warm_up_children(self._runners, jobs)
        await self._open_programs(jobs)
        await self._membership.join()
        await self._leadership.tick(self.clock.now())
        for job in jobs:
            put = await self.put_job(job)
            record, is_paused = put.record, put.record.state is JobState.PAUSED
            stored = JobPut(job.name, put.change, record.revision, put.planned, put.withdrawn, job.namespace, is_paused)
            self.events.emit(stored)
        self._loop.start()
        if application_loop is not asyncio.get_running_loop():
            self._courtesy = GiveWay(application_loop, self.clock)
            self._courtesy.start()

    def _attach_runners(self, application_loop: asyncio.AbstractEventLoop) -> None:
        here = asyncio.get_running_loop()
        self._runners = make_runners(
            self._host(), application_loop,
            plain_functions=self.plain_functions, fill=self._fill(), recording=self._records() or NOT_RECORDED,
        )  # fmt: skip
        if self._registry.hooks.wanted:
            self._hooking = HookCaller(self._registry.hooks, application_loop, here, self.events)
            self._finisher.on_accepted = self._hooking.accepted
        self._worker.attach(self._runners, on_free=self._seat_is_free, on_finish=self._drivers["finisher"].wake)

    def _host(self) -> Host:
        """What runners need to know of this node."""
        worker = self._worker
        return Host(
            asyncio.get_running_loop(), self.clock, self._settings, self._registry,
            ended=worker.ended, started=worker.started if self.events.wanted else None,
            stuck=worker.stuck, freed=worker.freed,
        )  # fmt: skip

    async def _open_programs(self, jobs: Iterable[Job]) -> None:
        """Run commands and steps from here on, if that is wanted here and this machine can."""
        settings, worker = self._settings, self._worker
        wanted = settings.programs
        if wanted is None:
            wanted = any(isinstance(job.task, Command | Steps) for job in jobs)
        if not wanted or not settings.works or not self.outside or self._programs is not None:
            return
        guard = await program_services.guard_of(settings)
        if guard is None:
            return
        self._guard = guard
        self._membership.on_renewed(guard.renew)
        neighbours = program_services.ProgramServices(
            guard, self.store, spool_of(settings), self._fill(), self._records()
        )
        self._programs = ProgramRunner(self._host(), neighbours)
        self._runners["program"] = self._sweeping.runner = self._programs
        self._registry.offer(abilities(guard.levels, settings.least_isolation))
        worker.tasks = self._membership.tasks = self._registry.task_names()

    def _fill(self) -> TaskFiller:
        return TaskFiller(secrets_of(self.store.documents, self._registry.providers))

    def _records(self) -> program_services.SpoolKeeper | None:
        if self.leaving is None:
            return None
        home = asyncio.get_running_loop()

        def handed_in() -> None:  # on whatever thread
            if not home.is_closed():
                home.call_soon_threadsafe(self.output_is_there)

        return program_services.SpoolKeeper(self.leaving.spool, handed_in)

    async def end_programs(self) -> None:
        """Let go of the guard, and of all that it runs. Twice is fine."""
        guard, self._guard = self._guard, None
        if self._programs is not None:
            await self._programs.left()
        if guard is not None:
            await guard.close()

    def _seat_is_free(self) -> None:
        if self._worker.stopping:
            self._idle.set()
            return
        self._drivers["worker"].wake()
        if len(self._worker.held):
            self._drivers["arming"].wake()

    async def put_job(self, job: Job, *, revision: int | None = None) -> PutJob:
        """Store a definition, with the runs of its next moments. If nobody said which queues this node serves, its own
        jobs' are among them from here on; others see that when it registers anew."""
        if self._settings.queues is None and job.queue not in self._worker.queues:
            self._worker.queues = self._membership.queues = (*self._worker.queues, job.queue)
        await self._open_programs([job])
        put = await put_job(self.store, job, clock=self.clock, settings=self._settings, revision=revision)
        if self.recorder is not None:
            await self.recorder.put(put)
        return put

    async def broken(self) -> BaseException:
        """Wait until a service breaks: a bug, not a fault of the store."""
        return await self._loop.broken()

    # ── stop ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, hurry: asyncio.Event) -> int:
        """Drain and leave: no new work, attempts end, verdicts are written, term and lease are handed over.

        `hurry` set, or the grace over: attempts are ended early, as far as that is possible. The heartbeat goes on
        until the last verdict is written. How many attempts were abandoned.
        """
        drivers, worker = self._drivers, self._worker
        worker.stopping = True
        self.events.emit(DrainBegun(worker.running, worker.running_ids))
        await self._loop.stop(drivers["worker"], drivers["planner"], drivers["arming"], drivers["leadership"])
        await self._try("leadership", self._leadership.resign())
        await self._try("worker", worker.release_held())
        fault_points.point("stop.draining")
        await self._drain(hurry)
        abandoned = worker.running
        await self._finish_all()
        if self._hooking is not None:
            await self._hooking.settled(SECOND)
        fault_points.point("stop.before_leave")
        with self._patience_for_output():
            await self._loop.stop()
            if self.leaving is not None:
                await self._try("outputs", self._keeper.keep_last(self.clock.now()))
        if self.recorder is not None:
            await self._try("audit", self.recorder.close())
        self.let_go()
        await self._try("heartbeat", self._membership.leave())
        self.events.emit(NodeLeft(self.node_id, abandoned, len(self._finisher.lease_ids())))
        return abandoned

    def let_go(self) -> None:
        """End what the engine keeps going outside of its own loop. Twice is fine."""
        for runner in self._runners.values():
            runner.close()
        self._runners = {}
        self._desk.close()
        if self._hooking is not None:
            self._hooking.close()
        if self._courtesy is not None:
            self._courtesy.stop()

    async def _try(self, service: str, courtesy: Coroutine[Any, Any, None]) -> None:
        """Hand over early what would run out by itself: a store that is away must not end the drain."""
        try:
            await courtesy
        except StoreUnavailable as error:
            self._tell_trouble(service, error, 0)

    async def crash(self) -> None:
        """Die without a word, as if the plug were pulled: for tests of what survives."""
        self._worker.stopping = True
        self._desk.close()
        self.store.hints.clear()
        await self._loop.abandon()

    async def _drain(self, hurry: asyncio.Event) -> None:
        hurried = asyncio.create_task(hurry.wait())
        give_up_at = self.clock.steady() + self._settings.grace
        try:
            while self._worker.running and not hurried.done():
                left = give_up_at - self.clock.steady()
                if left <= 0:
                    break
                await self._wait_for_an_end(hurried, left / SECOND)
        finally:
            hurried.cancel()
        if self._worker.running:
            self._worker.stop_running()
            await self._wait_for_last_words()

    async def _wait_for_an_end(self, hurried: asyncio.Task[object], seconds: float) -> None:
        self._idle.clear()
        ended = asyncio.create_task(self._idle.wait())
        await asyncio.wait({hurried, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()

    async def _wait_for_last_words(self) -> None:
        """Cancelled coroutines get a moment to clean up, and programs their grace; who ignores it is abandoned."""
        grace = self._settings.kill_after if self._programs is not None and self._programs.busy else 0
        give_up_at = self.clock.steady() + SECOND + grace
        while self._worker.running and (left := give_up_at - self.clock.steady()) > 0:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), left / SECOND)
            except TimeoutError:
                return

    @contextmanager
    def _patience_for_output(self) -> Iterator[None]:
        """A moment for what was handed in last; the rest waits in the spool for the next node."""
        if self.leaving is None:
            yield
            return
        over = asyncio.get_running_loop().call_later(LAST_OUTPUT, self._patience.give_up)
        try:
            yield
        finally:
            over.cancel()

    async def _finish_all(self) -> None:
        """Every verdict is with the store, or the grace is over: then the reaper will judge what is left."""
        try:
            await asyncio.wait_for(self._finisher.flushed(), self._settings.grace / SECOND)
        except TimeoutError:
            self._tell_trouble("finisher", StoreUnavailable("verdicts could not be written before the node left"), 0)
