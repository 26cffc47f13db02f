"""Events on their way to standard output.

The engine's thread must not wait for a terminal (Ctrl-S stops one for as long as you like): it only puts events into
a queue. Wording and writing are done on a thread of their own. When the queue is full, lines are left out and
counted, so that a stopped terminal costs neither memory nor the node's lease.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import click

from onthedot.clock import SECOND, Clock, Micros
from onthedot.events import Event
from onthedot.observe.json_lines import json_line
from onthedot.observe.log import Lines, Tone, format_line

MOST = 10_000
_COLOURS: dict[Tone, dict[str, object]] = {
    "plain": {},
    "quiet": {"dim": True},
    "good": {"fg": "green"},
    "warning": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
}


class Printer(Protocol):
    """From events to text."""

    def of(self, event: Event, at: Micros) -> list[str]: ...

    def pause(self, now: Micros) -> list[str]: ...

    def pause_in(self, now: Micros) -> Micros | None: ...

    def left_out(self, number: int) -> str: ...


class PeoplePrinter:
    """Lines for people."""

    def __init__(self, lines: Lines, *, colours: bool) -> None:
        self._lines = lines
        self._paint = _paint if colours else None

    def of(self, event: Event, at: Micros) -> list[str]:
        return [format_line(line, paint=self._paint) for line in self._lines.of(event, at)]

    def pause(self, now: Micros) -> list[str]:
        return [format_line(line, paint=self._paint) for line in self._lines.pause(now)]

    def pause_in(self, now: Micros) -> Micros | None:
        return self._lines.pause_in(now)

    def left_out(self, number: int) -> str:
        return f"… {number} events left out: the output was not read fast enough"


class JsonPrinter:
    """Lines for machines: every event, at once."""

    def of(self, event: Event, at: Micros) -> list[str]:
        return [json_line(event, at)]

    def pause(self, now: Micros) -> list[str]:
        del now
        return []

    def pause_in(self, now: Micros) -> Micros | None:
        del now
        return None

    def left_out(self, number: int) -> str:
        return f'{{"event": "EventsLeftOut", "count": {number}}}'


def _paint(word: str, tone: Tone) -> str:
    return click.style(word, **_COLOURS[tone])  # type: ignore[arg-type]  # the styles above


class Outbox:
    """Takes events on any thread, writes them on its own.

    When that cannot go on (nobody reads any more, or a bug), `error` says why and `on_broken` is called: a node that
    nobody can watch should stop in order, not run on in silence.
    """

    def __init__(self, printer: Printer, clock: Clock, *, on_broken: Callable[[], None], most: int = MOST) -> None:
        self.error: Exception | None = None
        self._printer = printer
        self._clock = clock
        self._on_broken = on_broken
        self._events: queue.Queue[tuple[Micros, Event] | None] = queue.Queue(most)
        self._left_out = 0
        self._told_left_out = 0
        self._thread: threading.Thread | None = None

    def take(self, event: Event) -> None:
        """Called by the engine for every event: never waits."""
        try:
            self._events.put_nowait((self._clock.now(), event))
        except queue.Full:
            self._left_out += 1

    def start(
        self,
        opening: list[str],
        events: list[tuple[Micros, Event]],
        *,
        is_told: Callable[[Event], bool] | None = None,
    ) -> None:
        """Begin to write: first these lines, then these events (but for those that the lines tell), then what comes."""
        for at, event in events:
            lines = self._printer.of(event, at)
            opening = opening if is_told and is_told(event) else [*opening, *lines]
        self._thread = threading.Thread(target=self._serve, args=(opening,), name="onthedot output", daemon=True)
        self._thread.start()

    def so_far(self) -> list[tuple[Micros, Event]]:
        """Take out what has come before `start`."""
        found = []
        while not self._events.empty():
            entry = self._events.get_nowait()
            if entry is not None:
                found.append(entry)
        return found

    def close(self, *, patience: float = 2.0) -> None:
        """Write what is left; a terminal that does not take it is given up after `patience` seconds."""
        if self._thread is None:
            return
        try:
            self._events.put(None, timeout=patience)
        except queue.Full:
            return
        self._thread.join(patience)

    # ── on the output's thread ───────────────────────────────────────────────────────────────────────────────

    def _serve(self, opening: list[str]) -> None:
        try:
            self._write(opening)
            while self._serve_some():
                pass
        except Exception as error:  # noqa: BLE001 - kept for the main thread, which raises it after the drain
            self.error = error
            if isinstance(error, OSError):
                _silence()
            self._on_broken()

    def _serve_some(self) -> bool:
        """Wait for an event or a pause, and write; False when it was the last."""
        now = self._clock.now()
        wait = self._printer.pause_in(now)
        try:
            entry = self._events.get(timeout=None if wait is None else wait / SECOND)
        except queue.Empty:
            self._write(self._printer.pause(self._clock.now()))
            return True
        lines: list[str] = []
        while entry is not None:
            at, event = entry
            lines += self._printer.of(event, at)
            if self._events.empty() or len(lines) > 100:
                self._write(lines)
                return True
            entry = self._events.get_nowait()
        self._write([*lines, *self._printer.pause(self._clock.now())])
        return False

    def _write(self, lines: list[str]) -> None:
        left_out = self._left_out
        if left_out > self._told_left_out:
            lines = [*lines, self._printer.left_out(left_out - self._told_left_out)]
            self._told_left_out = left_out
        if lines:
            click.echo("\n".join(lines))


def _silence() -> None:
    """Nothing more can be written; without this the interpreter would complain again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
