"""Events get out in order; a terminal that takes nothing costs lines, not the engine's time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import click
import pytest

from onthedot.cli.node_process.event_printer import EventPrinter, JsonPrinter, echo
from onthedot.clock import Micros, SystemClock
from onthedot.model.events import DrainBegun, Event, EventsLeftOut

PATIENCE = 10.0


class Numbers:
    """Prints the number in each event; breaks at 13."""

    def of(self, event: Event, at: Micros) -> list[str]:
        if isinstance(event, EventsLeftOut):
            return [f"{event.events} left out"]
        assert isinstance(event, DrainBegun)
        if event.running == 13:
            raise ValueError("unlucky")
        return [str(event.running)]

    def pause(self, now: Micros) -> list[str]:
        return ["pause"]

    def pause_in(self, now: Micros) -> Micros | None:
        return None

    def write(self, lines: list[str]) -> None:
        echo(lines)

    def close(self) -> None: ...


class Terminal:
    """What click.echo writes to, and a way to stop it as Ctrl-S does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.error: OSError | None = None
        self.reached = threading.Event()
        self.takes = threading.Event()
        self.takes.set()

    def echo(self, text: str) -> None:
        self.reached.set()
        assert self.takes.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        self.lines += text.split("\n")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    monkeypatch.setattr(click, "echo", made.echo)
    monkeypatch.setattr("onthedot.cli.node_process.event_printer._silence", lambda: None)
    yield made
    made.takes.set()


def outbox(*, most: int = 100, broken: threading.Event | None = None) -> EventPrinter:
    return EventPrinter(Numbers(), SystemClock(), on_broken=(broken or threading.Event()).set, most=most)


def test_the_opening_comes_first_then_events_in_order(terminal: Terminal):
    box = outbox()
    box.mailbox.take(DrainBegun(1))
    box.start(["hello"], box.so_far())
    for number in range(2, 9):
        box.mailbox.take(DrainBegun(number))
    box.close()
    assert terminal.lines == ["hello", "1", "2", "3", "4", "5", "6", "7", "8", "pause"]


def test_what_the_opening_has_told_is_not_told_again(terminal: Terminal):
    box = outbox()
    box.mailbox.take(DrainBegun(1))
    box.mailbox.take(DrainBegun(2))
    box.start(["hello"], box.so_far(), is_told=lambda event: event == DrainBegun(1))
    box.close()
    assert terminal.lines == ["hello", "2", "pause"]


def test_a_stopped_terminal_costs_lines_and_nothing_else(terminal: Terminal):
    box = outbox(most=3)
    terminal.takes.clear()
    box.start(["hello"], [])
    assert terminal.reached.wait(PATIENCE)
    for number in range(1, 6):
        box.mailbox.take(DrainBegun(number))  # would wait for ever if it waited for the terminal
    terminal.takes.set()
    box.close()
    assert terminal.lines == ["hello", "1", "2", "3", "2 left out", "pause"]


def test_a_reader_that_has_gone_is_reported(terminal: Terminal):
    broken = threading.Event()
    terminal.error = BrokenPipeError()
    box = outbox(broken=broken)
    box.start(["hello"], [])
    assert broken.wait(PATIENCE)
    box.close()
    assert isinstance(box.error, BrokenPipeError)


def test_a_bug_in_the_wording_is_reported(terminal: Terminal):
    broken = threading.Event()
    box = outbox(broken=broken)
    box.start([], [])
    box.mailbox.take(DrainBegun(13))
    assert broken.wait(PATIENCE)
    box.close()
    assert isinstance(box.error, ValueError)


def test_closing_what_was_never_started_is_fine():
    outbox().close()


def test_json_says_what_was_left_out():
    [line] = JsonPrinter().of(EventsLeftOut(3), 0)
    assert line == '{"event": "EventsLeftOut", "at": "1970-01-01T00:00:00.000000Z", "events": 3}'
