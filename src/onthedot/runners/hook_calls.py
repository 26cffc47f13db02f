"""Calls hooks after verdicts are stored: coroutines on the application's loop, functions on a thread of their own.

No hook is waited for by anything that matters: a slow one delays other functions among the hooks, never a verdict.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from onthedot.clock import SECOND, Micros
from onthedot.model.events import Events, HookFailed
from onthedot.model.verdict import Finish
from onthedot.runners.hooks import Ended, Hook, Hooks, ended
from onthedot.runners.outcomes import failed
from onthedot.runners.params import arguments_of

_Call = tuple[str, Hook, Ended]


class Hooking:
    """Who calls the hooks. `accepted` and `settled` are for the engine's thread."""

    def __init__(
        self,
        hooks: Hooks,
        application_loop: asyncio.AbstractEventLoop,
        engine_loop: asyncio.AbstractEventLoop,
        events: Events,
    ) -> None:
        self._hooks = hooks
        self._application_loop = application_loop
        self._engine_loop = engine_loop
        self._events = events
        self._work: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # application's loop only
        self._open = 0
        self._settled = asyncio.Event()
        self._settled.set()

    # ── on the engine's thread ───────────────────────────────────────────────────────────────────────────────

    def accepted(self, finishes: Sequence[Finish]) -> None:
        """The store has these verdicts: tell whoever wants to know."""
        for finish in finishes:
            for kind, hook in self._hooks.calls(finish):
                self._open += 1
                self._settled.clear()
                self._begin((kind, hook, ended(finish, arguments_of(finish.lease))))

    async def settled(self, patience: Micros) -> None:
        """Wait until all hooks have returned, but no longer than that."""
        try:
            await asyncio.wait_for(self._settled.wait(), patience / SECOND)
        except TimeoutError:
            self._events.emit(HookFailed("", "hooks", f"{self._open} of them have not returned; not waited for"))

    def close(self) -> None:
        """Let go of the thread."""
        if self._thread is not None:
            self._work.put(None)

    def _begin(self, call: _Call) -> None:
        if inspect.iscoroutinefunction(call[1]):
            if not self._application_loop.is_closed():
                self._application_loop.call_soon_threadsafe(self._create_task, call)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="onthedot hooks", daemon=True)
            self._thread.start()
        self._work.put(call)

    def _returned(self, job: str, kind: str, error: str | None) -> None:
        self._open -= 1
        if not self._open:
            self._settled.set()
        if error is not None:
            self._events.emit(HookFailed(job, kind, error))

    # ── elsewhere ────────────────────────────────────────────────────────────────────────────────────────────

    def _create_task(self, call: _Call) -> None:
        task = self._application_loop.create_task(self._await(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, call: _Call) -> None:
        kind, hook, told = call
        error = None
        try:
            await hook(told)
        except BaseException as raised:  # whatever a hook raises is told, and changes nothing
            error = failed(raised).error
            if isinstance(raised, GeneratorExit) and not self._application_loop.is_running():
                raise  # the loop is gone: nobody is left to tell
        self._tell(told.job, kind, error)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            kind, hook, told = call
            error = None
            try:
                answer = hook(told)
                if inspect.iscoroutine(answer):
                    answer.close()
                    error = "returned a coroutine that nobody awaits; define it with 'async def'"
            except BaseException as raised:  # noqa: BLE001 - a hook changes nothing, whatever it raises
                error = failed(raised).error
            self._tell(told.job, kind, error)

    def _tell(self, job: str, kind: str, error: str | None) -> None:
        if not self._engine_loop.is_closed():
            self._engine_loop.call_soon_threadsafe(self._returned, job, kind, error)
