"""The reporter in a child process: sends checkpoints, progress and log lines to the worker's own reporter.

They use the same frames as the outcome. A checkpoint waits for its answer, and only one is sent at a time. Progress and
log lines need no answer. They are collected and sent a few times a second, and before the outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from concurrent.futures import Future
from typing import NoReturn

from onthedot.clock import MILLISECOND, SECOND, Clock, Micros, SystemClock
from onthedot.model.errors import LeaseLost, OnTheDotError, StateError
from onthedot.model.run import Checkpoint, Lease
from onthedot.output.records import Mark
from onthedot.runners.frames import receive, send
from onthedot.runners.notes import Notes
from onthedot.runners.transactions import Completion

TELL_EVERY: Micros = 200 * MILLISECOND
_MOST = 1 << 16  # bytes of an answer


class ChildReporter:
    """See `context.Reporter`. Serves one attempt: from before its handler is called until its outcome is sent."""

    result_bytes = 0  # only for exactly_once, which does not run in children

    def __init__(self, talk: socket.socket, clock: Clock | None = None) -> None:
        self._talk = talk
        self._clock = clock or SystemClock()
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._told_at: Micros = -TELL_EVERY
        self._notes: Notes | None = None
        self._timer: threading.Timer | None = None

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────

    def checkpoint(self, lease: Lease, checkpoint: Checkpoint) -> Future[None]:
        """Send the checkpoint. On an event loop, a thread waits for the answer, so that the loop is not blocked."""
        answer: Future[None] = Future()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._ask(lease, checkpoint, answer)
        else:
            threading.Thread(target=self._ask, args=(lease, checkpoint, answer), daemon=True).start()
        return answer

    def _ask(self, lease: Lease, checkpoint: Checkpoint, answer: Future[None]) -> None:
        with self._asking:
            try:
                self._send({"checkpoint": [checkpoint.revision, checkpoint.value]})
                told = receive(self._talk, _MOST)
            except OSError:
                told = None
        error = _error_in(told, lease)
        if not answer.set_running_or_notify_cancel():
            return  # the caller was cancelled
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    # ── progress and log ─────────────────────────────────────────────────────────────────────────────────────

    def noted(self, notes: Notes) -> None:
        """Send the notes, at most a few times a second."""
        self._notes = notes
        wait = self._told_at + TELL_EVERY - self._clock.steady()
        if wait <= 0:
            self._tell()
        else:
            self._timer = threading.Timer(wait / SECOND, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def _tell(self) -> None:
        if self._notes is not None and self._notes.waiting:
            self._told_at = self._clock.steady()
            note = self._notes.take()
            progress = None if note.progress is None else list(note.progress)
            with contextlib.suppress(OSError):  # the worker is gone, and will end this process
                self._send({"note": [progress, note.log]})

    def now(self) -> Micros:
        """See `context.Reporter`."""
        return self._clock.now()

    def trace(self, lease: Lease, text: str) -> None:
        """Add the traceback of the handler to its log. `close` sends it."""
        if text:
            self._notes = self._notes or Notes(lease)
            self._notes.log(text, Mark(self.now(), "err"))

    def close(self) -> None:
        """Send the last notes, and wait until they are sent."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell()
        with self._asking, self._sending:
            pass

    def _send(self, message: dict[str, object]) -> None:
        with self._sending:
            send(self._talk, message)

    # ── not in a child ───────────────────────────────────────────────────────────────────────────────────────

    def transaction(self, completion: Completion) -> NoReturn:
        """Raise `StateError`, because a connection cannot cross to another process. Such jobs are refused when they are
        defined."""
        raise StateError(f"run {completion.lease.run_id}: a child process has no transactions; set isolation='none'")

    def transaction_blocking(self, completion: Completion) -> NoReturn:
        """See `transaction`."""
        self.transaction(completion)


def _error_in(told: dict[str, object] | None, lease: Lease) -> OnTheDotError | None:
    match told:
        case {"saved": True}:
            return None
        case {"lost": str(text)}:
            return LeaseLost(text)
        case {"failed": str(text)}:
            return StateError(text)
    return LeaseLost(f"run {lease.run_id}: its worker is gone; another attempt continues from its last checkpoint")
