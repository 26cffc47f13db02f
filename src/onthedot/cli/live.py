"""The live view on the terminal: log lines scroll above it, and it is drawn anew a few times a second at the most."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from onthedot.cli.outbox import Printer
from onthedot.cli.view import View
from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.model.events import Event

DRAW_EVERY: Micros = 250 * MILLISECOND
"""Drawing costs some milliseconds of this process's time, which its jobs may want: four times a second is enough."""
LOOK_EVERY: Micros = 1 * SECOND
"""How often it is drawn when nothing happens and nothing runs: only the instants to come are nearer then."""

_LOG_LINES = 3
"""How many lines of a terminal are left for the log, at least."""


class LivePrinter:
    """A printer (see `Outbox`) that keeps the view below its lines."""

    def __init__(self, printer: Printer, view: View, clock: Clock, console: Console | None = None) -> None:
        self._printer = printer
        self._view = view
        self._clock = clock
        self._console = console or Console(highlight=False)
        self._live = Live(
            _Frame(view, clock), console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )  # fmt: skip
        self._waiting: list[str] = []
        self._drawn_at: Micros | None = None  # on the steady clock

    def of(self, event: Event, at: Micros) -> list[str]:
        self._view.heed(event, at)
        return self._printer.of(event, at)

    def pause(self, now: Micros) -> list[str]:
        return self._printer.pause(now)

    def pause_in(self, now: Micros) -> Micros:
        soon = DRAW_EVERY if self._view.moves or self._waiting else LOOK_EVERY
        wait = 0 if self._drawn_at is None else self._drawn_at + soon - self._clock.steady()
        return max(0, min(wait, self._printer.pause_in(now) or wait))

    def write(self, lines: list[str]) -> None:
        """Show these, and the view as it is now; or, if that was done a moment ago, a moment later."""
        self._waiting += lines
        now = self._clock.steady()
        if self._drawn_at is not None and now - self._drawn_at < DRAW_EVERY:
            return
        self._draw()

    def close(self) -> None:
        """Show the last lines, and leave the terminal as it was found."""
        self._draw()
        self._live.stop()
        self._console.print(self._view.last_words())

    def _draw(self) -> None:
        lines, self._waiting = self._waiting, []
        if not self._live.is_started:
            self._live.start()
        if lines:
            self._console.print(Text.from_ansi("\n".join(lines)), soft_wrap=True)  # this draws the view, too
        else:
            self._live.refresh()
        self._drawn_at = self._clock.steady()


class _Frame:
    """The view as it is at the moment at which it is drawn."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = console.size
        yield from self._view.lines(width, max(1, height - 1 - _LOG_LINES), self._clock.now())
