"""Writes a node's events to standard output, on a thread of its own.

Ctrl-S can stop a terminal for hours, and the engine's thread must not wait for it. So the engine only fills a buffer,
and this thread formats and writes. If the buffer is full, it drops events and prints how many.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import click

from onthedot.clock import Clock, Micros
from onthedot.model.events import Event
from onthedot.observe.event_delivery import MOST, EventBuffer
from onthedot.observe.json_fields import json_line
from onthedot.observe.log_lines import Lines, Tone, format_line

_COLOURS: dict[Tone, dict[str, object]] = {
    "plain": {},
    "quiet": {"dim": True},
    "good": {"fg": "green"},
    "warning": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
}


class Printer(Protocol):
    """Formats events and writes lines. Used on one thread."""

    def of(self, event: Event, at: Micros) -> list[str]: ...

    def pause(self, now: Micros) -> list[str]: ...

    def pause_in(self, now: Micros) -> Micros | None: ...

    def write(self, lines: list[str]) -> None: ...

    def close(self) -> None: ...


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

    def write(self, lines: list[str]) -> None:
        echo(lines)

    def close(self) -> None:
        """Do nothing, because no line is buffered."""


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

    def write(self, lines: list[str]) -> None:
        echo(lines)

    def close(self) -> None:
        """Do nothing, because no line is buffered."""


def _paint(word: str, tone: Tone) -> str:
    return click.style(word, **_COLOURS[tone])  # type: ignore[arg-type]  # the styles above


class EventPrinter:
    """Reads events from its buffer on its own thread, and prints them.

    If printing fails, because the reader is gone or because of a bug, `error` is set and `on_broken` is called. A node
    whose output nobody can see should drain.
    """

    def __init__(self, printer: Printer, clock: Clock, *, on_broken: Callable[[], None], most: int = MOST) -> None:
        self.mailbox = EventBuffer(clock, most=most)
        self.error: Exception | None = None
        self._printer = printer
        self._clock = clock
        self._on_broken = on_broken
        self._thread: threading.Thread | None = None

    def start(
        self,
        opening: list[str],
        events: list[tuple[Micros, Event]],
        *,
        is_told: Callable[[Event], bool] | None = None,
    ) -> None:
        """Start the thread. It writes these lines, then these events (without those that `is_told`), then new ones."""
        for at, event in events:
            lines = self._printer.of(event, at)
            opening = opening if is_told and is_told(event) else [*opening, *lines]
        self._thread = threading.Thread(target=self._serve, args=(opening,), name="onthedot output", daemon=True)
        self._thread.start()

    def so_far(self) -> list[tuple[Micros, Event]]:
        """Return and remove the events that came before `start`."""
        found = []
        while (entry := self.mailbox.get(0)) is not None:
            found.append(entry)
        return found

    def close(self, *, patience: float = 2.0) -> None:
        """Write the remaining lines. Give up after `patience` seconds if the terminal does not take it."""
        self.mailbox.close()
        if self._thread is not None:
            self._thread.join(patience)

    # ── on the output's thread ───────────────────────────────────────────────────────────────────────────────

    def _serve(self, opening: list[str]) -> None:
        try:
            self._write_all(opening)
        except Exception as error:  # noqa: BLE001 - kept for the main thread, which raises it after the drain
            self.error = error
            if isinstance(error, OSError):
                _silence()
            self._on_broken()

    def _write_all(self, opening: list[str]) -> None:
        try:
            self._printer.write(opening)
            while not self.mailbox.ended:
                self._serve_some()
            self._printer.write(self._printer.pause(self._clock.now()))
        finally:
            self._printer.close()  # restores the terminal in any case

    def _serve_some(self) -> None:
        """Wait for an event or a pause, and write."""
        entry = self.mailbox.get(self._printer.pause_in(self._clock.now()))
        if entry is None:
            if not self.mailbox.ended:
                self._printer.write(self._printer.pause(self._clock.now()))
            return
        lines: list[str] = []
        while entry is not None:
            at, event = entry
            lines += self._printer.of(event, at)
            entry = None if len(lines) > 100 else self.mailbox.get(0)
        self._printer.write(lines)


def echo(lines: list[str]) -> None:
    """Write lines to standard output."""
    if lines:
        click.echo("\n".join(lines))


def _silence() -> None:
    """Point standard output at /dev/null: else the interpreter reports the broken pipe again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
