"""The event printer: it prints events in order, and a blocked terminal loses lines without delaying the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import click
import pytest

from onthedot.cli.node_process.event_printer import EventPrinter, JsonPrinter, echo
from onthedot.clock import Micros, SystemClock
from onthedot.model.events import DrainBegun, Event, EventsLeftOut

TIMEOUT = 10.0


class Numbers:
    """Prints the number in each event, and fails at 13."""

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
    """Replaces click.echo. A test can block it, as Ctrl-S does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.error: OSError | None = None
        self.reached = threading.Event()
        self.takes = threading.Event()
        self.takes.set()

    def echo(self, text: str) -> None:
        self.reached.set()
        assert self.takes.wait(TIMEOUT)
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


def new_printer(*, most: int = 100, broken: threading.Event | None = None) -> EventPrinter:
    return EventPrinter(Numbers(), SystemClock(), on_broken=(broken or threading.Event()).set, most=most)


def test_the_banner_is_printed_first_then_events_in_order(terminal: Terminal):
    output = new_printer()
    output.mailbox.take(DrainBegun(1))
    output.start(["hello"], output.so_far())
    for number in range(2, 9):
        output.mailbox.take(DrainBegun(number))
    output.close()
    assert terminal.lines == ["hello", "1", "2", "3", "4", "5", "6", "7", "8", "pause"]


def test_events_in_the_banner_are_not_printed_again(terminal: Terminal):
    output = new_printer()
    output.mailbox.take(DrainBegun(1))
    output.mailbox.take(DrainBegun(2))
    output.start(["hello"], output.so_far(), is_told=lambda event: event == DrainBegun(1))
    output.close()
    assert terminal.lines == ["hello", "2", "pause"]


def test_a_blocked_terminal_loses_only_lines(terminal: Terminal):
    output = new_printer(most=3)
    terminal.takes.clear()
    output.start(["hello"], [])
    assert terminal.reached.wait(TIMEOUT)
    for number in range(1, 6):
        output.mailbox.take(DrainBegun(number))  # would wait for ever if it waited for the terminal
    terminal.takes.set()
    output.close()
    assert terminal.lines == ["hello", "1", "2", "3", "2 left out", "pause"]


def test_a_closed_output_is_reported(terminal: Terminal):
    broken = threading.Event()
    terminal.error = BrokenPipeError()
    output = new_printer(broken=broken)
    output.start(["hello"], [])
    assert broken.wait(TIMEOUT)
    output.close()
    assert isinstance(output.error, BrokenPipeError)


def test_an_error_of_the_printer_is_reported(terminal: Terminal):
    broken = threading.Event()
    output = new_printer(broken=broken)
    output.start([], [])
    output.mailbox.take(DrainBegun(13))
    assert broken.wait(TIMEOUT)
    output.close()
    assert isinstance(output.error, ValueError)


def test_a_printer_that_was_never_started_can_be_closed():
    new_printer().close()


def test_json_reports_lost_events():
    [line] = JsonPrinter().of(EventsLeftOut(3), 0)
    assert line == '{"event": "EventsLeftOut", "at": "1970-01-01T00:00:00.000000Z", "events": 3}'
