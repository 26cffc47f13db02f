"""Defines the context of an attempt: a handler receives `ctx` to save checkpoints, progress, logs and results."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from itertools import count
from typing import Any, Protocol

from onthedot.clock import Micros, to_datetime
from onthedot.model.errors import StateError
from onthedot.model.job import Guarantee, Json
from onthedot.model.run import Checkpoint, Lease, Progress
from onthedot.output.records import Mark, Stream
from onthedot.runners.notes import Notes, encode_checkpoint, encode_result
from onthedot.runners.transactions import Completion

LONGEST_LINE = 8_000
"""The longest line, in characters. A longer line is split."""


class Reporter(Protocol):
    """Saves the checkpoints, notes and transactions of attempts. Called on any thread."""

    def checkpoint(self, lease: Lease, checkpoint: Checkpoint) -> Future[None]:
        """Write a checkpoint. Raises `LeaseLost` if the attempt has lost its lease."""
        ...

    def noted(self, notes: Notes) -> None:
        """Write these notes soon."""
        ...

    def now(self) -> Micros:
        """Return the time of this machine's clock, for log lines."""
        ...

    @property
    def result_bytes(self) -> int:
        """The maximum number of characters of JSON in a result."""
        ...

    def transaction(self, completion: Completion) -> AbstractAsyncContextManager[Any]:
        """Return a transaction of the store that completes this attempt's run."""
        ...

    def transaction_blocking(self, completion: Completion) -> AbstractContextManager[Any]:
        """Return the same transaction for a plain function in its thread."""
        ...


class Cancelled(threading.Event):
    """Tells a handler that its attempt is asked to stop. A plain function can wait for it."""

    told = False  # set in a signal handler, which must not take the event's lock

    def is_set(self) -> bool:
        return self.told or super().is_set()

    def __bool__(self) -> bool:
        return self.is_set()


class Context:
    """The attempt, as its handler sees it. A handler whose first parameter is named `ctx` receives one.

    `run_id` is the same for every attempt of a run, so it is an idempotency key. `fence` grows with every attempt. Send
    it along with each write to another system, and let that system refuse a fence that is smaller than the largest it
    has seen.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job(retry=otd.Retry(2, delay="1ms"), timeout="1m")
    ... async def pages(ctx: otd.Context) -> str:
    ...     first = ctx.last_checkpoint or 0
    ...     for page in range(first, 10):
    ...         if page == 5 and ctx.attempt == 1:
    ...             raise ConnectionError("in the middle")
    ...         await ctx.checkpoint(page + 1)
    ...     left = ctx.deadline - ctx.scheduled_at
    ...     return f"{ctx.job}, run {ctx.run_id}, fence {ctx.fence}: began at page {first}, in time: {bool(left)}"
    >>> async with sched:
    ...     run = await sched.submit("pages")
    ...     print(await run.result(timeout="10s"))
    pages, run 1, fence 2: began at page 5, in time: True
    """

    __slots__ = ("_deadline", "_last", "_lease", "_notes", "_reporter", "_revisions", "cancelled", "completion")

    def __init__(
        self, lease: Lease, reporter: Reporter | None = None, deadline: Micros | None = None, started_at: Micros = 0
    ) -> None:
        self._lease = lease
        self._reporter = reporter
        self._deadline = deadline
        self._notes = Notes(lease)
        self._last = lease.checkpoint
        self._revisions = count(1 if lease.checkpoint is None else lease.checkpoint.revision + 1)
        self.cancelled = Cancelled()
        self.completion = Completion(lease, started_at)

    @property
    def run_id(self) -> int:
        """The run's id, stable over attempts."""
        return self._lease.run_id

    @property
    def job(self) -> str:
        """The job's name."""
        return self._lease.record.job.name

    @property
    def scheduled_at(self) -> datetime:
        """The instant for which the run was requested, in UTC. It is the same for every attempt."""
        return to_datetime(self._lease.slot_at)

    @property
    def attempt(self) -> int:
        """The number of this attempt. The first one is 1."""
        return self._lease.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt in this store."""
        return self._lease.fence

    @property
    def deadline(self) -> datetime | None:
        """The time at which the attempt times out, in UTC. None if it has no time-out."""
        return None if self._deadline is None else to_datetime(self._deadline)

    # ── saved with the run ──────────────────────────────────────────────────────────────────────────────

    @property
    def last_checkpoint(self) -> Json:
        """The newest checkpoint of this run, from this attempt or an earlier one. None if there is none. Each access
        returns a new copy."""
        return None if self._last is None else json.loads(self._last.value)

    async def checkpoint(self, value: Json) -> None:
        """Save the progress of this run: JSON, at most 64 KiB. The checkpoint is stored when this call returns.

        The next attempt, after a failure or on another node, receives it as `last_checkpoint`. `LeaseLost` is raised if
        the run has another owner by now. Then nothing is written, and this attempt should end.

        >>> @sched.job
        ... async def count(ctx: otd.Context) -> int:
        ...     await ctx.checkpoint({"done": 7})
        ...     return ctx.last_checkpoint["done"]
        >>> async with sched:
        ...     print(await (await sched.submit("count")).result(timeout="10s"))
        7
        """
        checkpoint, saving = self._save(value)
        await asyncio.wrap_future(saving)
        self._saved(checkpoint)

    def checkpoint_blocking(self, value: Json) -> None:
        """Save a checkpoint, as `checkpoint` does, from a plain function. It waits in the function's thread.

        >>> @sched.job
        ... def count(ctx: otd.Context) -> int:
        ...     ctx.checkpoint_blocking([1, 2, 3])
        ...     return sum(ctx.last_checkpoint)
        >>> async with sched:
        ...     print(await (await sched.submit("count")).result(timeout="10s"))
        6
        """
        _refuse_on_loop("checkpoint_blocking", "await ctx.checkpoint(…)")
        checkpoint, saving = self._save(value)
        saving.result()
        self._saved(checkpoint)

    def _save(self, value: Json) -> tuple[Checkpoint, Future[None]]:
        text = encode_checkpoint(value)
        reporter = self._require_reporter()
        checkpoint = Checkpoint(next(self._revisions), text)
        return checkpoint, reporter.checkpoint(self._lease, checkpoint)

    def _saved(self, checkpoint: Checkpoint) -> None:
        if self._last is None or self._last.revision < checkpoint.revision:
            self._last = checkpoint

    def progress(self, done: float, of: float | None = None) -> None:
        """Report how much is done, and optionally the total. The newest report is written about once a second, and at
        the end of the attempt. So each call is cheap.

        >>> @sched.job
        ... async def copy(ctx: otd.Context) -> None:
        ...     for file in range(3):
        ...         ctx.progress(file + 1, of=3)
        >>> async with sched:
        ...     run = await sched.submit("copy")
        ...     await run.result(timeout="10s")
        ...     print((await sched.get_run(run)).progress)
        Progress(done=3, of=3)
        """
        for number in (done,) if of is None else (done, of):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise TypeError(f"progress: expected numbers, got {number!r}")
        if self._notes.progress(Progress(done, of)):
            self._require_reporter().noted(self._notes)

    def log(self, text: object, *args: object) -> None:
        """Add a line of text to the log of the run. The first and the last 32 KiB of each attempt are kept.

        Arguments fill the text's placeholders as in `logging`: `ctx.log("page %d of %d", 3, 10)`. If they do not fit,
        they follow the text as in `print`: `ctx.log("rows", 7)` keeps `rows 7`.

        >>> @sched.job
        ... async def greet(ctx: otd.Context) -> None:
        ...     ctx.log("hello")
        >>> async with sched:
        ...     run = await sched.submit("greet")
        ...     await run.result(timeout="10s")
        ...     print(await sched.logs(run))
        [LogRecord(attempt=1, text='hello\\n')]
        """
        self._log_as(Mark(self._require_reporter().now(), "log"), filled(str(text), args))

    def _log_as(self, mark: Mark, text: str) -> None:
        """Log a line with its mark: runners know its time, its stream and its step."""
        if self._notes.log(text, mark):
            self._require_reporter().noted(self._notes)

    # ── exactly once ─────────────────────────────────────────────────────────────────────────────────────────

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction of the store, for jobs under exactly_once. It yields the driver's own connection.

        At the end of the block, one commit stores what the handler wrote and the completion of the run. If the block
        raises an error, everything is rolled back. If the run has another owner by now, `LeaseLost` is raised at the
        end of the block, and everything is rolled back too. After the commit, the run has succeeded, whatever the
        handler does then. It is never retried, and later log lines and progress are not stored. A run without such a
        commit does not succeed. Do not commit on the connection yourself.

        >>> import asyncio, onthedot as otd
        >>> sched = otd.Scheduler("memory:")
        >>> @sched.job(guarantee="exactly_once")
        ... async def receipt(ctx: otd.Context, order: int) -> None:
        ...     async with ctx.transaction() as db:
        ...         await db.execute("update orders set receipted = true where id = $1", order)
        ...         ctx.result({"order": order})
        >>> async def main() -> None:
        ...     async with sched:
        ...         run = await sched.submit(receipt.call(order=7))
        ...         print(await run.result(timeout="10s"))
        >>> asyncio.run(main())
        {'order': 7}
        """
        self._check_guarantee("transaction")
        return self._require_reporter().transaction(self.completion)

    def transaction_blocking(self) -> AbstractContextManager[Any]:
        """Open a transaction, as `transaction` does, from a plain function. Each call of the connection waits in the
        function's thread.

        >>> @sched.job(guarantee="exactly_once")
        ... def refund(ctx: otd.Context, order: int) -> None:
        ...     with ctx.transaction_blocking() as db:
        ...         db.execute("update orders set refunded = true where id = $1", order)
        >>> async with sched:
        ...     print(await (await sched.submit(refund.call(order=7))).result(timeout="10s"))
        None
        """
        self._check_guarantee("transaction_blocking")
        _refuse_on_loop("transaction_blocking", "async with ctx.transaction() as db:")
        return self._require_reporter().transaction_blocking(self.completion)

    def result(self, value: Json) -> None:
        """Set the result of the run, under exactly_once. Call it before the end of the transaction, which stores the
        result.

        >>> @sched.job(guarantee="exactly_once")
        ... async def booking(ctx: otd.Context) -> None:
        ...     async with ctx.transaction():
        ...         ctx.result({"booked": ctx.run_id})
        >>> async with sched:
        ...     print(await (await sched.submit(booking.call())).result(timeout="10s"))
        {'booked': 1}
        """
        self._check_guarantee("result")
        if self.completion.state in ("unknown", "committed"):
            raise StateError(f"result: expected before the end of the transaction; run {self.run_id} is committed")
        self.completion.result = encode_result(value, self._require_reporter().result_bytes)

    def _check_guarantee(self, verb: str) -> None:
        guarantee = self._lease.record.job.guarantee
        if guarantee is not Guarantee.EXACTLY_ONCE:
            raise StateError(
                f"{verb}: expected a job with guarantee='exactly_once', {self.job!r} has {str(guarantee)!r}"
            )

    def _require_reporter(self) -> Reporter:
        if self._reporter is None:
            raise StateError("this context belongs to no running attempt, so it cannot save anything")
        return self._reporter

    def __repr__(self) -> str:
        return f"Context(job={self.job!r}, run_id={self.run_id}, attempt={self.attempt})"


class LiveLines:
    """Writes a program's output to the run's log, line by line, so that any node can read it while the program runs.

    It keeps the order. Two streams never share a line: a line ends when the other stream writes, or when it is too
    long.
    """

    def __init__(self, context: Context, step: str = "") -> None:
        self._context = context
        self._begun = ""  # a line that is not complete
        self._mark = Mark(0, "out", step)  # the mark of that line

    def say(self, at: Micros, stream: Stream, text: str) -> None:
        """Add some text of a stream."""
        if stream != self._mark.stream:
            self.flush()
        mark = Mark(at, stream, self._mark.step)
        if self._begun:  # it keeps the time of its beginning
            ended, line_end, text = text.partition("\n")
            self._begun += ended
            if line_end or len(self._begun) > LONGEST_LINE:
                self.flush()
        self._mark = self._mark if self._begun else mark
        whole, line_end, rest = text.rpartition("\n")
        if line_end:
            self._context._log_as(mark, whole)
        self._begun += rest
        if len(self._begun) > LONGEST_LINE:
            self.flush()

    def flush(self) -> None:
        """Write the incomplete line."""
        if self._begun:
            self._context._log_as(self._mark, self._begun)
            self._begun = ""


def filled(text: str, args: tuple[object, ...]) -> str:
    """Return a log line with its arguments: in its placeholders, or after the text if they do not fit.

    >>> filled("page %d of %d", (3, 10)), filled("rows", (7,)), filled("100%", ("done",)), filled("%(a)s", ({"a": 1},))
    ('page 3 of 10', 'rows 7', '100% done', '1')
    """
    if not args:
        return text
    values = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else args  # as `logging` does it
    try:
        line = text % values
    except (TypeError, ValueError, KeyError):
        line = text
    return " ".join(map(str, (text, *args))) if line == text else line


def _refuse_on_loop(verb: str, instead: str) -> None:
    """Raise `StateError` on a thread with a running event loop: waiting would block the loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise StateError(f"{verb}: expected to be called in a thread; write `{instead}`")
