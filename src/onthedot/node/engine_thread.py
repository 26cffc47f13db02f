"""The engine's own thread: user code that blocks the application's loop must not stop the heartbeat.

A thread of its own does not protect the engine by itself. A busy loop with turns of about a millisecond releases the
interpreter's lock only for very short moments. Another thread cannot take the lock in them: in measurements the engine
waited for seconds. So the engine sends pulses, and a small callback on the application's loop checks them. If a pulse
is overdue, the callback releases the interpreter's lock until the engine has had its turn, for 5 ms at most
(`GiveWay`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from onthedot.access.audit_recorder import Recorder
from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.ids import Ids
from onthedot.loop_thread import ping_loop
from onthedot.model.errors import StateError, StoreUnavailable
from onthedot.model.events import Events
from onthedot.model.job import Job
from onthedot.node.engine import Engine
from onthedot.observe.event_delivery import Delivery, deliver_rest
from onthedot.output.output_owner import NodeOutput, open_node_output
from onthedot.runners.registry import Registry
from onthedot.settings import Settings
from onthedot.stores.addresses import exposed, shown_url
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store

T = TypeVar("T")

logger = logging.getLogger("onthedot")

_CALM: Micros = 50 * MILLISECOND  # between two checks while no start is late: about 0.1 % of a core
_BUSY: Micros = 5 * MILLISECOND
_LATE: Micros = 1 * MILLISECOND
_LONGEST_TURN = 5 * MILLISECOND / SECOND


class EngineThread:
    """Runs one engine, from `start` to `stop`, on a loop that only it uses."""

    def __init__(
        self,
        store: str | Store,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        ids: Ids,
        deliveries: Sequence[Delivery] = (),
    ) -> None:
        self._given = store
        self._registry = registry
        self._settings = settings
        self._events = events
        self._clock = clock
        self._ids = ids
        self._deliveries = tuple(deliveries)  # sends events to the program's subscribers while the engine runs
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._stop_wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._error: Exception | None = None
        self._unwanted = False

    async def start(self, jobs: Sequence[Job]) -> None:
        """Start the thread, and return when the engine ticks. Raise the error that prevented the start."""
        application_loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = application_loop.create_future()
        self.ended: asyncio.Future[BaseException | None] = application_loop.create_future()

        def settle(future: asyncio.Future[Any], value: BaseException | None) -> None:
            if future.done():
                return
            if future is ready and value is not None:
                future.set_exception(value)
            else:
                future.set_result(value)

        def tell(future: asyncio.Future[Any], value: BaseException | None) -> None:
            if not application_loop.is_closed():
                application_loop.call_soon_threadsafe(settle, future, value)

        def main() -> None:
            broke: BaseException | None = None
            try:
                asyncio.run(self._main(jobs, application_loop, lambda: tell(ready, None)))
            except BaseException as error:  # noqa: BLE001 - a thread's error must reach the program that started it
                broke = error
            deliver_rest(self._deliveries, self._clock)
            if broke is not None:
                tell(ready, broke)
            tell(self.ended, broke)

        for delivery in self._deliveries:
            delivery.open()
        self._thread = threading.Thread(target=main, name="onthedot engine", daemon=True)
        self._thread.start()
        await ready

    async def _main(
        self, jobs: Sequence[Job], application_loop: asyncio.AbstractEventLoop, ready: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._break)
        if self._unwanted:
            return
        store = await open_store(self._given, clock=self._clock) if isinstance(self._given, str) else self._given
        url = self._given if isinstance(self._given, str) else None
        if url is not None:
            await _warn_of_store(url, store)
        output: NodeOutput | None = None
        courtesy = GiveWay(application_loop, self._clock)
        try:
            output = await open_node_output(self._settings, url, store, self._ids)
            self._engine = Engine(store, self._registry, self._settings, self._events, self._clock, self._ids, output)
            await self._engine.start(jobs, application_loop)
            if self._settings.node_id:
                await _warn_of_namesakes(self._engine)
            courtesy.start()
            ready()
            await self._until_stopped(self._engine)
        finally:
            courtesy.stop()
            if self._engine is not None:
                self._engine.let_go()
                await self._engine.end_programs()
            if output is not None:
                output.spool.close()
            if isinstance(self._given, str):
                await store.close()  # a store that the caller opened stays open

    async def _until_stopped(self, engine: Engine) -> None:
        broken = asyncio.create_task(engine.broken())
        stop = asyncio.create_task(self._stop_wanted.wait())
        await asyncio.wait({broken, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if broken.done():
            raise broken.result()
        if self._error is not None:
            raise self._error
        broken.cancel()
        await engine.stop(self._hurry)

    def _break(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Break the engine after a callback on its loop has raised: this is a bug, and the scheduler must not seem to
        work.
        """
        error = context.get("exception")
        if isinstance(error, Exception):
            self._error = self._error or error
            self._stop_wanted.set()
        else:
            loop.default_exception_handler(context)

    async def stop(self) -> None:
        """Drain and leave. Raise the error that broke the engine, if there was one."""
        self._set(self._stop_wanted)
        error = await asyncio.shield(self.ended)
        if self._thread is not None:
            self._thread.join(timeout=1)
        if error is not None:
            raise error

    def give_up(self) -> None:
        """Leave when the start is complete, because its caller has given up."""
        self._unwanted = True
        self.hurry()
        self._set(self._stop_wanted)

    def hurry(self) -> None:
        """Stop now: attempts that are still running are ended early."""
        self._set(self._hurry)

    def ping(self, answer: Callable[[], None]) -> None:
        """Call this function on the engine's event loop, or here at once if that loop has ended."""
        ping_loop(self._loop, answer)

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(event.set)

    @property
    def clock(self) -> Clock:
        """The engine's copy of the store's clock."""
        return self._clock if self._engine is None else self._engine.clock

    @property
    def recorder(self) -> Recorder | None:
        """Return the recorder of this program's changes; None in virtual time."""
        return None if self._engine is None else self._engine.recorder

    async def on_store(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """Run work with the store on the engine's loop. Call this from the application's loop."""
        return await self.on_engine(lambda engine: work(engine.store))

    def _ticking(self) -> tuple[Engine, asyncio.AbstractEventLoop]:
        if self._loop is None or self._engine is None or self._loop.is_closed():
            raise StateError("the scheduler is not running; call start() first, or use 'async with'")
        return self._engine, self._loop

    async def on_any_loop(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        """Run work with the engine's store: on this loop if the store allows any loop, otherwise on the engine's. The
        work uses nothing else of the engine that changes."""
        engine, _ = self._ticking()
        return await (work(engine) if engine.store.any_loop else self.on_engine(work))

    async def on_engine(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        """Run work with the engine on the engine's loop. Call this from the application's loop."""
        engine, loop = self._ticking()
        future = asyncio.run_coroutine_threadsafe(work(engine), loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if future.cancelled() and asking is not None and not asking.cancelling():  # the engine's end did it
                raise StateError("the scheduler stopped before it could answer; ask again when it runs") from None
            raise


async def _warn_of_store(url: str, store: Store) -> None:
    """Log the risks of this store's configuration."""
    if trouble := exposed(url):
        logger.warning("the connection to %s is %s", shown_url(url), trouble)
    with suppress(StoreUnavailable):  # the engine asks again, and reports it
        if caution := (await store.about()).caution:
            logger.warning("%s: %s", shown_url(url), caution)


async def _warn_of_namesakes(engine: Engine) -> None:
    """Log other living nodes with the name that the settings give this one."""
    with suppress(StoreUnavailable):
        for node in await engine.namesakes():
            logger.warning(
                "node %r: another living node has this name (process %d on %s). If it was killed, its lease ends by "
                "itself; if it works, give each node its own name, or 'node drain' and lists mix them up",
                engine.node_id, node.pid, node.host,
            )  # fmt: skip


class GiveWay:
    """Lets the engine's thread run although the application's loop is busy."""

    def __init__(self, application_loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._application_loop = application_loop
        self._clock = clock
        self._turn = threading.Event()
        self._pulse_due: Micros = 0
        self._look_due: Micros = 0
        self._period = _CALM
        self._pulse_timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # ── on the engine's loop ─────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Begin to send pulses, and to check them on the application's loop."""
        self.pulse()
        self._application_loop.call_soon_threadsafe(self._look_later)

    def stop(self) -> None:
        """Send no more pulses. The next check is the last."""
        self._stopped = True
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()

    def pulse(self) -> None:
        """Record that the engine is awake."""
        self._turn.set()
        self._pulse_due = self._clock.steady() + self._period
        self._pulse_timer = asyncio.get_running_loop().call_later(self._period / SECOND, self.pulse)

    # ── on the application's loop ────────────────────────────────────────────────────────────────────────────

    def _look_later(self) -> None:
        self._look_due = self._clock.steady() + self._period
        self._application_loop.call_later(self._period / SECOND, self.look)

    def look(self) -> bool:
        """If the engine is late, let it run first. Return whether it was late."""
        if self._stopped:
            return False
        now = self._clock.steady()
        overdue = now > self._pulse_due + _LATE
        if overdue:
            self._turn.clear()
            self._turn.wait(_LONGEST_TURN)  # this releases the interpreter's lock
        crowded = overdue or now > self._look_due + _LATE
        self._period = _BUSY if crowded else _CALM
        self._look_later()
        return overdue
