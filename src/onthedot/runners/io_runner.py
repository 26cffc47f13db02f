"""Runs tasks that only wait for other systems (HTTP calls, containers), on a thread with an event loop of its own.

They cannot use the engine's loop, because it must be punctual. They cannot use the application's loop, because a
handler may block it. An `Executor` does the work for one kind of task. This module does what all attempts need: the
time-out, stopping early, one outcome, and the record of output.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from onthedot import fault_points
from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.run import Lease
from onthedot.model.verdict import Outcome
from onthedot.output.capture import Capture
from onthedot.output.records import Mark, Stream
from onthedot.output.redact import forms_of
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.context import Context, LiveLines
from onthedot.runners.outcomes import failed, timed_out, without_secrets
from onthedot.runners.runner import Host, OffLoopRunner
from onthedot.runners.task_filler import Fill, as_written
from onthedot.runners.task_template import Filled

T = TypeVar("T")

_log = logging.getLogger("onthedot")

_KEEP = 30.0  # seconds to keep a record
_JOIN = 3.0  # seconds for attempts to clean up when the runner is closed


class Recording(Protocol):
    """Keeps the records of attempts."""

    def path(self, lease: Lease) -> Path:
        """The file for an attempt's record, in an existing folder. Called in the runner's thread."""
        ...

    async def keep(self, lease: Lease) -> None:
        """Keep a complete record. Awaited on the engine's loop. An error here fails no attempt."""
        ...


class NotRecorded:
    """Keeps no records: output stays in the log of the run."""

    def path(self, lease: Lease) -> Path:
        """`/dev/null`."""
        del lease
        return Path(os.devnull)

    async def keep(self, lease: Lease) -> None:
        """Does nothing."""


NOT_RECORDED = NotRecorded()


class OutputWriter:
    """Writes an attempt's output to its record (all of it, within bounds) and to the log of its run."""

    def __init__(self, capture: Capture, context: Context, clock: Clock) -> None:
        self._capture = capture
        self._clock = clock
        self._live = LiveLines(context)

    def feed(self, stream: Stream, data: bytes) -> None:
        """Write some bytes."""
        self._live.say(self._clock.now(), stream, self._capture.feed(stream, data))

    def remark(self, text: str) -> None:
        """Write our own line. It is redacted, too, because it may quote the other side."""
        self.feed("err", f"{text}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Write the rest, and close the record."""
        for stream, text in self._capture.close():
            self._live.say(self._clock.now(), stream, text)
        self._live.flush()


class Executor(Protocol):
    """Executes tasks of one kind. Used on the runner's loop only."""

    async def warm_up(self) -> None:
        """Load what the first attempt needs. May fail: then that attempt tries again, and reports why."""
        ...

    async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
        """Execute one attempt. It is cancelled once if it has to end early, and leaves nothing behind."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class IoRunner(OffLoopRunner):
    """Runs attempts of one kind, each as a task of one event loop. `longest` is the time-out of jobs without one."""

    def __init__(
        self,
        host: Host,
        executor: Executor,
        *,
        longest: Micros = 0,
        fill: Fill = as_written,
        recording: Recording = NOT_RECORDED,
    ) -> None:
        super().__init__(host)
        self._executor = executor
        self._longest = longest
        self._fill = fill
        self._recording = recording
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: set[Attempt] = set()
        self._warming: asyncio.Task[None] | None = None

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def warm_up(self) -> None:
        """Prepare for a first attempt, so that it is as punctual as the others."""
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._begin_warming, loop)

    def start(self, attempts: list[Attempt]) -> None:
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._begin, loop, attempts)

    def stop(self, attempts: list[Attempt]) -> None:
        if self._loop is not None and attempts:
            self._loop.call_soon_threadsafe(self._end_early, attempts)

    def close(self) -> None:
        """End all attempts, and the thread."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            self._loop = self._thread = None
            loop.call_soon_threadsafe(lambda: loop.create_task(self._shut(loop)))
            thread.join(_JOIN + 1)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:  # made late: a node without such jobs needs no thread
            self._loop = asyncio.new_event_loop()
            name = f"onthedot {type(self._executor).__name__}"
            self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=name, daemon=True)
            self._thread.start()
        return self._loop

    # ── on the runner's own thread ──────────────────────────────────────────────────────────────────────────────────

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _begin_warming(self, loop: asyncio.AbstractEventLoop) -> None:
        self._warming = loop.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        try:
            await self._executor.warm_up()
        except Exception as error:  # noqa: BLE001 - the first attempt tries again, and reports it
            _log.info("%s is not ready: %s", type(self._executor).__name__, error)

    async def _shut(self, loop: asyncio.AbstractEventLoop) -> None:
        for attempt in self._running:
            self._cancel(attempt)
        tasks = {attempt.handle for attempt in self._running}
        if self._warming is not None:
            self._warming.cancel()
            tasks.add(self._warming)
        if tasks:
            await asyncio.wait(tasks, timeout=_JOIN)
        await self._executor.close()
        loop.stop()

    def _begin(self, loop: asyncio.AbstractEventLoop, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._running.add(attempt)
            attempt.handle = loop.create_task(self._perform(loop, attempt))

    def _end_early(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt not in self._running:
                continue
            if not attempt.started_at:  # a task that is cancelled before its first step never decides its outcome
                attempt.handle.cancel()
                self._running.discard(attempt)
                self._decide(attempt, stopped_before_start(attempt))
            else:
                self._cancel(attempt)

    def _cancel(self, attempt: Attempt) -> None:
        """Cancel once: a second cancel would disturb the clean-up."""
        if not attempt.handle.cancelling():
            attempt.handle.cancel()

    def _time_out(self, attempt: Attempt) -> None:
        if not attempt.handle.cancelling():
            attempt.timed_out = True
            self._cancel(attempt)

    async def _perform(self, loop: asyncio.AbstractEventLoop, attempt: Attempt) -> None:
        """Run one attempt. Every result and every error in here becomes one outcome."""
        attempt.started_at = self._clock.now()
        attempt.timeout = attempt.timeout or self._longest
        timer = loop.call_later(attempt.timeout / SECOND, self._time_out, attempt) if attempt.timeout else None
        if self._tell_started is not None:
            self._tell(self._tell_started, [attempt])
        fault_points.point("attempt.before_call")
        try:
            outcome = await self._execute(attempt)
        except asyncio.CancelledError as error:
            outcome = attempt.stop_as or failed(error)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its outcome
            outcome = failed(error)
        fault_points.point("attempt.after_call")
        if timer is not None:
            timer.cancel()
        self._running.discard(attempt)
        self._decide(attempt, timed_out(attempt.timeout) if attempt.timed_out else outcome)

    async def _execute(self, attempt: Attempt) -> Outcome:
        lease = attempt.lease
        deadline = attempt.started_at + attempt.timeout if attempt.timeout else None
        attempt.context = Context(lease, attempt.reporter, deadline, attempt.started_at)
        filled = await self._on_engine(self._fill(lease))
        path, most = self._recording.path(lease), lease.record.job.bounds.output
        capture = Capture(path, step="", limit=most, secrets=filled.secrets, clock=self._clock.now)
        said = OutputWriter(capture, attempt.context, self._clock)
        forms = forms_of(filled.secrets)
        try:
            return without_secrets(await self._executor.perform(attempt, filled, said), forms)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its outcome, without secrets
            return without_secrets(failed(error), forms)
        finally:
            said.close()
            await self._keep(attempt.context, lease)

    async def _keep(self, context: Context, lease: Lease) -> None:
        """Keep the record. If that fails, the log says so, and the job does not fail."""
        try:
            async with asyncio.timeout(_KEEP):
                await self._on_engine(self._recording.keep(lease))
        except Exception as error:  # noqa: BLE001 - the attempt has its outcome
            mark = Mark(self._clock.now(), "otd")
            context._log_as(mark, f"its output could not be kept: {failed(error).error}")

    async def _on_engine(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this on the engine's loop, which has the store."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._engine_loop))
