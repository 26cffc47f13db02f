"""The engine: one node, with all its services.

It makes the services in the order in which they need each other. A service wakes itself when another service gives it
work. In its constructor it registers callbacks with the services that give it work. Hints of the store arrive here.

The engine runs on the loop it is started on. In production that loop has its own thread (`engine_thread.py`), so that
a handler which blocks the application's loop cannot stop the heartbeat. In tests and in the simulator it is one virtual
loop, with the same ticks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onthedot import fault_points
from onthedot.access.audit_recorder import Recorder
from onthedot.clock import SECOND, Clock
from onthedot.define.check import missing_parents
from onthedot.define.job_writer import written
from onthedot.ids import Ids
from onthedot.loop import Loop, Service
from onthedot.model.errors import StoreUnavailable
from onthedot.model.events import DrainBegun, Events, JobPut, NodeLeft, StoreLost, StoreTrouble
from onthedot.model.job import Job, JobState
from onthedot.node.access_upkeep import AuditSealer, CredentialCleanup
from onthedot.node.armer import Armer
from onthedot.node.assigner import Assigner
from onthedot.node.clock_sync import ClockSync
from onthedot.node.finisher import Finisher
from onthedot.node.heartbeat import Membership
from onthedot.node.late_nodes import LateNodes
from onthedot.node.leadership import Leadership
from onthedot.node.output_upkeep import OutputKeeper, OutputPruner, Patience
from onthedot.node.planner import Planner
from onthedot.node.pruner import Pruner
from onthedot.node.reaper import Reaper
from onthedot.node.reserver import Reserver
from onthedot.node.runner_set import RunnerSet
from onthedot.node.seats import Seats
from onthedot.node.self_fencing import SelfFencing
from onthedot.node.sweeps import Expiry, GateRecount, Resumer
from onthedot.operations.put_job import put_job
from onthedot.operations.result_waiters import Ends
from onthedot.output.output_owner import NodeOutput
from onthedot.runners.program.runner import SpoolSweep
from onthedot.runners.registry import Registry
from onthedot.runners.reporter import StoreReporter
from onthedot.runners.thread import ThreadRunner
from onthedot.settings import Settings
from onthedot.store_clock import StoreClock
from onthedot.stores.hints import Hint, Loss
from onthedot.stores.protocol import Store
from onthedot.stores.values import Node, PutJob

logger = logging.getLogger("onthedot.node")

LAST_OUTPUT = 3.0
"""How long, in seconds, a stopping node tries to store the output of its last attempts."""


class Engine:
    """The services of one node on one store."""

    plain_functions: type[ThreadRunner] = ThreadRunner
    outside = True  # whether it may run programs, HTTP calls and containers; not in virtual time
    audits = True  # whether changes are recorded in the audit

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        ids: Ids,
        output: NodeOutput | None = None,
    ) -> None:
        self.store = store
        self.output = output
        self.events = events
        self._settings = settings
        self._machine_clock = clock
        self.clock = clock = store.clock or StoreClock(clock)
        registry.withdraw()
        self._membership = Membership(store, clock, ids, settings, events)
        self._membership.serve(tasks=registry.task_names())
        self._leadership = Leadership(store, self._membership, clock, settings, events)
        self._planner = Planner(store, self._leadership, clock, settings, events)
        self._assigner = Assigner(store, self._leadership, settings, events)
        self._reporter = StoreReporter(store, settings, clock, events)
        self._finisher = Finisher(store, registry, settings, events, clock, ids, self._reporter)
        self._seats = Seats(self._membership, self._finisher, registry, settings, events, clock, self._reporter)
        self._armer = Armer(store, self._membership, self._seats, settings, events, clock)
        self._reserver = Reserver(
            store, self._membership, self._finisher, self._seats, self._armer, settings, clock, ids
        )  # fmt: skip
        self.ends = Ends(store, settings)
        self._patience = Patience()
        self._keeper = None if output is None else self._output_keeper(output)
        self._spool_sweep = SpoolSweep(settings, self._machine_clock)
        self._runners = RunnerSet(
            store, registry, settings, events, clock, self._membership, self._seats, self._finisher, self._spool_sweep,
            self._keeper, plain_functions=self.plain_functions, outside=self.outside,
        )  # fmt: skip
        self.recorder = Recorder(store, clock, "program", written) if self.audits else None
        self._home: asyncio.AbstractEventLoop | None = None
        self._idle = asyncio.Event()
        self._seats.on_free(self._idle.set)
        self._loop = Loop(clock, ids, self._tell_trouble)
        for service in self._services():
            self._loop.add(service)
        store.hints.listen(self._hear)
        store.hints.listen_for_loss(self._hear_of_loss)

    def _services(self) -> list[Service]:
        """Return all services that tick on this node."""
        store, settings, events = self.store, self._settings, self.events
        return [
            self._membership,
            SelfFencing(self._membership, self.clock, events, self._seats.cut_off),
            ClockSync(store, self._membership, self.clock, settings),
            self._leadership,
            self._planner,
            self._assigner,
            self._reserver,
            self._armer,
            self._reporter,
            self._finisher,
            self.ends,
            Reaper(store, self._membership, settings, events),
            Expiry(store, settings, events),
            Pruner(store, self._leadership, settings, events),
            Resumer(store, self.clock, settings, events),
            GateRecount(store, settings, events),
            LateNodes(store, self._leadership, settings, events),
            *self._output_services(),
            *self._access_services(),
            self._spool_sweep,
        ]

    def _output_keeper(self, output: NodeOutput) -> OutputKeeper:
        return OutputKeeper(
            self.store, output.spool, output.outputs, self.events, self._machine_clock.now, self._patience,
            most=self._settings.spool_bytes,
        )  # fmt: skip

    def _output_services(self) -> list[Service]:
        if self.output is None or self._keeper is None:
            return []
        outputs, wall = self.output.outputs, self._machine_clock.now
        return [
            self._keeper,
            OutputPruner(self.store, self._leadership, outputs, self.events, wall, self._patience),
        ]

    def _access_services(self) -> list[Service]:
        """Return the services for audit and keys: none if there is no audit."""
        if self.recorder is None:
            return []
        sealer = AuditSealer(self.store, self._leadership, self._settings, self.events)
        return [sealer, CredentialCleanup(self.store, self._leadership, self._settings, self.events), self.recorder]

    # ── hints of the store ─────────────────────────────────────────────────────────────────────────────────

    def _hear(self, hint: Hint) -> None:
        """Wake the services that this hint concerns."""
        if hint.kind == "ends":  # the most frequent hint: no other service needs it
            if self.ends.wants(hint):
                self.ends.wake()
            return
        if self._planner.wants(hint):
            self._planner.wake()
        if self._assigner.wants(hint):
            self._assigner.wake()
        if self._reserver.wants(hint):
            self._reserver.wake()
        if self._membership.wants(hint):
            self._membership.wake()
        if self._leadership.wants(hint):
            self._leadership.wake()

    def _hear_of_loss(self, loss: Loss) -> None:
        """Handle lost writes of the store on the engine's thread. Any thread may call this."""
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(self._store_has_lost, loss)

    def _store_has_lost(self, loss: Loss) -> None:
        self.events.emit(StoreLost(*loss))
        self._reserver.store_has_lost()

    def _tell_trouble(self, service: str, error: Exception, again_in: int) -> None:
        self.events.emit(StoreTrouble(service, str(error), again_in))

    @property
    def node_id(self) -> str:
        """This node's name in the store."""
        return self._membership.node_id

    # ── start ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, jobs: Sequence[Job], application_loop: asyncio.AbstractEventLoop) -> None:
        """Join, store the program's jobs, and begin to tick. Handlers run on the application's loop."""
        self._home = asyncio.get_running_loop()
        self._runners.open(application_loop, jobs)
        self._membership.serve(queues=self._settings.queues_for(jobs))
        self._reporter.open()
        await self._runners.open_programs(jobs)
        await self._membership.join()
        await self._leadership.tick(self.clock.now())
        for job in jobs:
            put = await self.put_job(job)
            record, is_paused = put.record, put.record.state is JobState.PAUSED
            stored = JobPut(job.name, put.change, record.revision, put.planned, put.withdrawn, job.namespace, is_paused)
            self.events.emit(stored)
            if put.change == "changed":
                logger.info(
                    "job %r: the stored definition was not this program's, which replaces it: revision %d", job.name,
                    record.revision,
                )  # fmt: skip
        await self._warn_of_missing_parents(jobs)
        self._loop.start()

    async def namesakes(self) -> list[Node]:
        """Return the other living nodes that have this node's name and do not drain."""
        own = self._membership.incarnation
        living = await self.store.queries.list_nodes(living=True)
        return [node for node in living if node.id == self.node_id and node.incarnation != own and not node.draining]

    async def _warn_of_missing_parents(self, jobs: Sequence[Job]) -> None:
        """Log each job of the program whose `after` names a job that is not stored: the name may be mistyped."""
        for job in jobs:
            parents = () if job.after is None else job.after.parents
            get_job = self.store.queries.get_job
            stored = [f"{job.namespace}/{name}" for name in parents if await get_job(name, namespace=job.namespace)]
            if warning := missing_parents(job, stored):
                logger.warning("job %r: %s", job.name, warning)

    async def put_job(self, job: Job, *, revision: int | None = None) -> PutJob:
        """Store a definition, and plan its next runs. If the settings name no queues, this node serves the job's queue
        from here on; other nodes see that when it registers again."""
        queues = self._membership.queues
        if self._settings.queues is None and job.queue not in queues:
            self._membership.serve(queues=(*queues, job.queue))
        await self._runners.open_programs([job])
        put = await put_job(self.store, job, clock=self.clock, settings=self._settings, revision=revision)
        if self.recorder is not None:
            await self.recorder.put(put)
        return put

    async def broken(self) -> BaseException:
        """Wait until a service breaks: a bug, not a fault of the store."""
        return await self._loop.broken()

    # ── stop ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, hurry: asyncio.Event) -> int:
        """Drain and leave: take no new work, let attempts end, write verdicts, hand over term and lease.

        When `hurry` is set or the grace is over, attempts are ended early, as far as that is possible. The heartbeat
        continues until the last verdict is written. Returns how many attempts were abandoned.
        """
        self.events.emit(DrainBegun(self._seats.taken, self._seats.run_ids, self._seats.unfired + self._armer.arming))
        self._membership.begin_leaving()
        await self._loop.stop(self._reserver, self._planner, self._armer, self._leadership)
        await self._try(self._leadership, self._leadership.resign())
        await self._try(self._reserver, self._armer.release_all())
        fault_points.point("stop.draining")
        await self._drain(hurry)
        abandoned = self._seats.taken
        await self._finish_all()
        await self._runners.hooks_called(SECOND)
        fault_points.point("stop.before_leave")
        with self._patience_for_output():
            await self._loop.stop()
            if self._keeper is not None:
                await self._try(self._keeper, self._keeper.keep_last(self.clock.now()))
        if self.recorder is not None:
            await self._try(self.recorder, self.recorder.close())
        self.let_go()
        await self._try(self._membership, self._membership.leave())
        self.events.emit(NodeLeft(self.node_id, abandoned, len(self._finisher.lease_ids())))
        return abandoned

    def let_go(self) -> None:
        """Close the helpers of the engine that work outside its loop. Calling it twice is fine."""
        self._runners.close()
        self._reporter.close()
        self.store.hints.forget(self._hear, self._hear_of_loss)

    async def end_programs(self) -> None:
        """Close the guard, which ends all its programs. Calling it twice is fine."""
        await self._runners.end_programs()

    async def _try(self, service: Service, courtesy: Coroutine[Any, Any, None]) -> None:
        """Release something early that would otherwise expire. An unavailable store does not end the drain."""
        try:
            await courtesy
        except StoreUnavailable as error:
            self._tell_trouble(service.name, error, 0)

    async def crash(self) -> None:
        """Stop without writing anything, as if the power failed. For tests."""
        self._reporter.close()
        self.store.hints.forget(self._hear, self._hear_of_loss)
        await self._loop.abandon()

    async def _drain(self, hurry: asyncio.Event) -> None:
        hurried = asyncio.create_task(hurry.wait())
        give_up_at = self.clock.steady() + self._settings.grace
        try:
            while self._seats.taken and not hurried.done():
                left = give_up_at - self.clock.steady()
                if left <= 0:
                    break
                await self._wait_for_an_end(hurried, left / SECOND)
        finally:
            hurried.cancel()
        if self._seats.taken:
            self._seats.stop_all()
            await self._wait_for_last_words()

    async def _wait_for_an_end(self, hurried: asyncio.Task[object], seconds: float) -> None:
        self._idle.clear()
        ended = asyncio.create_task(self._idle.wait())
        await asyncio.wait({hurried, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()

    async def _wait_for_last_words(self) -> None:
        """Cancelled coroutines get a second to clean up, and programs their grace. An attempt that ignores this is
        abandoned."""
        grace = self._settings.kill_after if self._runners.programs_run else 0
        give_up_at = self.clock.steady() + SECOND + grace
        while self._seats.taken and (left := give_up_at - self.clock.steady()) > 0:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), left / SECOND)
            except TimeoutError:
                return

    @contextmanager
    def _patience_for_output(self) -> Iterator[None]:
        """Limit how long the node waits for its last output. The rest stays in the spool for the next node."""
        over = asyncio.get_running_loop().call_later(LAST_OUTPUT, self._patience.give_up)
        try:
            yield
        finally:
            over.cancel()

    async def _finish_all(self) -> None:
        """Wait until every verdict is stored, or the grace is over: then the reaper decides about the rest."""
        try:
            await asyncio.wait_for(self._finisher.flushed(), self._settings.grace / SECOND)
        except TimeoutError:
            self._tell_trouble(
                self._finisher.name, StoreUnavailable("verdicts could not be written before the node left"), 0
            )
