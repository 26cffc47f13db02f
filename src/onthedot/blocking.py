"""Offers the scheduler's verbs to programs without an event loop: Flask, Django, a plain script.

A thread runs the event loop (`loop_thread.py`). Every verb calls the scheduler's own verb there.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from onthedot.loop_thread import LoopThread
from onthedot.model.errors import StateError
from onthedot.operations.blocking_verbs import BlockingVerbs
from onthedot.operations.run_request import given_connection
from onthedot.scheduler import Scheduler

T = TypeVar("T")


class BlockingScheduler(BlockingVerbs):
    """A scheduler for programs without an event loop. It has the same verbs, and each call returns when it is done.

    Call `start` once in each process (after a fork, not before), and `stop` at the end. Or use `with`. Verbs may be
    called on any thread, and so may the shortcuts of the `BlockingRun` that `submit` returns.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> with otd.BlockingScheduler(sched) as blocking:
    ...     blocking.submit(add.call(1, 2)).result(timeout="10s")
    3
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._thread: LoopThread | None = None
        self._changing = threading.Lock()

    def start(self) -> None:
        """Open the store, store the jobs, and start the node. Coroutine handlers run on the event loop of the thread.

        >>> blocking.start()
        >>> blocking.result(blocking.submit(add.call(2, 3)), timeout="10s")
        5
        >>> blocking.stop()
        """
        with self._changing:
            if self._thread is not None:
                raise StateError("the scheduler is running already; stop it before you start it again")
            thread = LoopThread()
            try:
                thread.ask(self.scheduler.start())
            except BaseException:  # whatever kept it from starting: its thread must not stay
                thread.close()
                raise
            self._thread = thread

    def stop(self) -> None:
        """Stop the node. It takes no new work, waits up to `settings.grace` for its attempts, hands over, and closes
        the store.

        A second call does nothing.

        >>> import atexit
        >>> blocking.start()
        >>> _ = atexit.register(blocking.stop)  # at the end of the program at the latest
        >>> blocking.stop()
        """
        with self._changing:
            thread, self._thread = self._thread, None
            if thread is not None:
                try:
                    thread.ask(self.scheduler.stop())
                finally:
                    thread.close()

    def stop_now(self) -> None:
        """Stop waiting for attempts. Call this on another thread while `stop` is waiting.

        >>> import threading
        >>> blocking.start()
        >>> impatient = threading.Timer(30, blocking.stop_now)
        >>> impatient.start()
        >>> blocking.stop()
        >>> impatient.cancel()
        """
        self.scheduler.stop_now()

    def __enter__(self) -> BlockingScheduler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _door(self) -> Scheduler:
        return self.scheduler

    def _on_this_thread(self, connection: Any) -> Any:
        return given_connection(connection)

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        thread = self._thread
        if thread is None:
            work.close()
            raise StateError("the scheduler is not running; call start() first, or use 'with'")
        return thread.ask(work)
