"""Keeps what a node reported and where handlers failed, for the report of a test that fails."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

from onthedot.clock import Clock, Micros, to_datetime
from onthedot.model.events import Event
from onthedot.observe.log_lines import Lines, format_line
from onthedot.runners.registry import Handler, Registry
from onthedot.scheduler import Scheduler

_MOST = 60


class EventLog:
    """Sees all that happens in a harness, whichever node does it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scheduler: Scheduler | None = None
        self._told: list[tuple[Micros, Event]] = []
        self._failed: dict[tuple[str, type[BaseException]], str] = {}

    def watch(self, scheduler: Scheduler) -> Registry:
        """Return the program's handlers, unchanged but watched."""
        self._scheduler = scheduler
        return _Watched(scheduler.registry, self._note)

    def hear(self, event: Event) -> None:
        """Keep an event with its instant. It is put into words only when it is read."""
        self._told.append((self._clock.now(), event))

    def lines(self) -> list[str]:
        """Every event as `onthedot up` writes it, with its day, in UTC."""
        if self._scheduler is None:
            return []
        settings, names = self._scheduler.settings, tuple(self._scheduler.jobs)
        words = Lines(late_after=settings.late_after, grace=settings.grace, names=names, zone=UTC)
        found = [line for at, event in self._told for line in words.of(event, at)]
        return [f"{to_datetime(line.at):%Y-%m-%d} {format_line(line, zone=UTC)}" for line in found]

    def tracebacks(self) -> list[str]:
        """Return the tracebacks of failed handlers: for each handler the first error of every type."""
        return list(self._failed.values())

    def report(self) -> str:
        """Return a report for a failed test: the newest lines, and every traceback."""
        lines = self.lines()
        left_out = [f"… {len(lines) - _MOST} lines before"] if len(lines) > _MOST else []
        return "\n".join([*left_out, *lines[-_MOST:], *self.tracebacks()])

    def _note(self, name: str, error: BaseException) -> None:
        key = name, type(error)
        if key not in self._failed and not isinstance(error, asyncio.CancelledError | GeneratorExit):
            frames = error.__traceback__ and error.__traceback__.tb_next  # without our own frames
            text = "".join(traceback.TracebackException(type(error), error, frames).format())
            self._failed[key] = f"\n{name}: {text.rstrip()}"


class _Watched(Registry):
    """A program's registry. It records the errors that its handlers raise."""

    def __init__(self, registry: Registry, note: Callable[[str, BaseException], None]) -> None:
        super().__init__()
        self._handlers, self._rules, self.hooks = registry._handlers, registry._rules, registry.hooks
        self._note = note

    def get(self, name: str) -> Handler:
        handler = super().get(name)
        function, note = handler.function, self._note

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                note(name, error)
                raise

        @functools.wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                note(name, error)
                raise

        return replace(handler, function=wait if handler.is_coroutine else call)
