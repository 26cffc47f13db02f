"""The view on a terminal: lines above it, not drawn more often than allowed, and gone at the end."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from onthedot.cli.live import DRAW_EVERY, LOOK_EVERY, LivePrinter
from onthedot.cli.outbox import PeoplePrinter
from onthedot.cli.view import View
from onthedot.clock import SECOND, Micros
from onthedot.model.events import AttemptEnded, NodeJoined
from onthedot.observe.log_lines import Lines
from tests.cli.screen import Screen
from tests.observe.made_up import NOON, finish, started


class Turned:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.passed: Micros = 0

    def now(self) -> Micros:
        return NOON + self.passed

    def steady(self) -> Micros:
        return self.passed


class Terminal:
    """A live printer, and what a person sees of it."""

    def __init__(self, *, width: int = 100, height: int = 24) -> None:
        self.clock = Turned()
        self.file = io.StringIO()
        console = Console(file=self.file, force_terminal=True, width=width, height=height, highlight=False)
        view = View(store="shop.db", jobs=(), seats=64, grace=30 * SECOND, now=NOON)
        lines = Lines(late_after=30 * SECOND, grace=30 * SECOND)
        self.printer = LivePrinter(PeoplePrinter(lines, colours=True), view, self.clock, console)

    def screen(self) -> Screen:
        screen = Screen()
        screen.feed(self.file.getvalue().replace("\n", "\r\n"))
        return screen

    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.screen().rows]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    made.printer.of(NodeJoined("one", "boot", NOON), NOON)
    yield made
    made.printer.close()  # standard output belongs to it until then


def test_lines_scroll_above_the_view(terminal: Terminal):
    terminal.printer.write(["hello", "there"])
    terminal.clock.passed = SECOND
    terminal.printer.write(terminal.printer.of(started(), NOON))
    rows = terminal.rows()
    assert rows[:2] == ["hello", "there"]
    assert "started    import" in rows[2]
    assert rows[3].startswith("────")
    assert rows[4] == "onthedot  node one · follows · shop.db"
    assert rows[5].startswith("running   import  run 41  1.0 s")
    assert sum("onthedot" in row for row in rows) == 1, "it is drawn in place"
    assert terminal.screen().cursor_hidden


def test_it_is_drawn_four_times_a_second_at_the_most(terminal: Terminal):
    draws = 0
    for step in range(1_000):  # two seconds, an event every 2 ms
        terminal.clock.passed = step * 2_000
        before = terminal.file.tell()
        terminal.printer.write(terminal.printer.of(AttemptEnded(finish(run_id=step)), NOON))
        draws += terminal.file.tell() > before
    assert draws == 8
    terminal.printer.close()
    assert sum("succeeded in" in row for row in terminal.rows()) == 1_000, "no line is lost"


def test_it_is_looked_at_again_soon_while_something_waits_or_runs(terminal: Terminal):
    printer = terminal.printer
    printer.write(["hello"])
    assert printer.pause_in(NOON) == LOOK_EVERY
    printer.write(["held back for a moment"])
    assert printer.pause_in(NOON) == DRAW_EVERY
    terminal.clock.passed = DRAW_EVERY
    assert printer.pause_in(NOON) == 0
    printer.write(printer.pause(NOON))
    assert "held back for a moment" in terminal.rows()
    printer.of(started(), NOON)
    assert printer.pause_in(NOON) == DRAW_EVERY


def test_at_the_end_the_lines_and_the_counts_stay(terminal: Terminal):
    terminal.printer.write(terminal.printer.of(started(), NOON))
    terminal.printer.close()
    first, counts, *rest = terminal.rows()
    assert "started    import" in first
    assert counts.startswith("so far    1 started")
    assert not any(rest)
    assert not terminal.screen().cursor_hidden


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 8), (10, 2), (80, 24)])
def test_small_terminals(width: int, height: int):
    terminal = Terminal(width=width, height=height)
    terminal.printer.write(["hello"])
    rows = terminal.rows()
    assert rows[0] == "hello"
    assert len(rows) <= max(2, height)
    assert all(len(row) <= width for row in rows)
    terminal.printer.close()
