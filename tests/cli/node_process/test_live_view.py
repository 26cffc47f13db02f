"""The live view: its lines, the next starts, and when and how it is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC

import pytest
from rich.console import Console

import onthedot as otd
from onthedot.cli.node_process.event_printer import PeoplePrinter
from onthedot.cli.node_process.live_view import DRAW_EVERY, LOOK_EVERY, LivePrinter, NextStart, NextStarts, View
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    DrainBegun,
    Event,
    EventsLeftOut,
    LeaseLost,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    RunProgressed,
    TermEnded,
    TermWon,
)
from onthedot.model.job import FixedDelay, Job, JobRecord, JobState, Retry, Schedule, Sleep
from onthedot.model.run import Progress, RunState
from onthedot.observe.log_lines import Lines
from onthedot.schedules import due_of, next_after
from tests.cli.screen import Screen
from tests.observe.sample_events import NOON, ONE_OF_EACH, failure, finish, lease, missed, started

EVERY_TEN = Job(name="tick", task=Sleep(duration=otd.Retry().delay), schedules=(otd.every("10s"),))
DEAD = failure(state=RunState.DEAD)


def new_view(*jobs: Job) -> View:
    return View(store="shop.db", jobs=jobs, seats=64, grace=30 * SECOND, now=NOON, zone=UTC)


def shown(*events: Event, jobs: tuple[Job, ...] = (), at: Micros = NOON, size: tuple[int, int] = (100, 20)) -> str:
    view = new_view(*jobs)
    for event in events:
        view.heed(event, NOON)
    return drawn(view, at, size)


def drawn(view: View, at: Micros = NOON, size: tuple[int, int] = (100, 20)) -> str:
    return "\n".join(line.plain.rstrip() for line in view.lines(*size, at))


def test_the_view_shows_next_running_and_finished_runs_and_counts():
    picture = shown(
        NodeJoined("web-1", "boot", NOON), TermWon(0, 3),
        AttemptEnded(finish(name="heartbeat", run_id=40)),
        started(lease_id="l1", name="nap", run_id=41),
        started(lease_id="l2", failures=1, attempt=2, retry=Retry(5)),
        RunProgressed(lease(lease_id="l2"), Progress(60, 100)),
        missed(),
        jobs=(EVERY_TEN,), at=NOON + 3_200 * MILLISECOND,
    )  # fmt: skip
    assert picture == "\n".join(
        (
            "─" * 100,
            "onthedot  node web-1 · leads (term 3) · shop.db",
            "next      tick       12:00:10  in 6.8 s",
            "running   nap        run 41    3.2 s      attempt 1",
            "          import     run 41    3.2 s      attempt 2  ━━━━━━────  60 of 100",
            "finished  heartbeat  run 40    succeeded  +0.0 ms late, in 50.0 ms",
            "so far    2 started, 1 succeeded, 0 failed, 0 dead, 1 skipped; late p50 1.2 ms, p99 1.2 ms",
            "Ctrl-C drains and stops; a second one stops now",
        )
    )


def test_an_idle_node_is_shown():
    assert shown(NodeJoined("one", "boot", NOON)).split("\n")[1:] == [
        "onthedot  node one · follows · shop.db",
        "running   nothing",
        "so far    0 started, 0 succeeded, 0 failed, 0 dead, 0 skipped",
        "Ctrl-C drains and stops; a second one stops now",
    ]


@pytest.mark.parametrize(
    ("events", "role"),
    [
        ([TermWon(0, 3), TermEnded(0, 3)], "follows"),
        ([TermWon(0, 3), TermWon(5, 4)], "leads 2 shards"),
        ([NodeDraining("one", True)], "follows, takes no more work"),
        ([NodeDraining("one", True), NodeDraining("one", False)], "follows"),
    ],
)
def test_the_view_shows_the_role_of_the_node(events: list[Event], role: str):
    assert f"node one · {role} · shop.db" in shown(NodeJoined("one", "boot", NOON), *events)


@pytest.mark.parametrize(
    ("event", "row"),
    [
        (AttemptEnded(finish(failure(), retry=Retry(5))), "failed     +0.0 ms late, after 50.0 ms: OSError: no"),
        (AttemptEnded(finish(DEAD)), "dead       +0.0 ms late, after 50.0 ms: OSError: no"),
        (LeaseLost(finish()), "refused    +0.0 ms late, after 50.0 ms"),
        (AttemptEnded(finish(DEAD, began=False)), "dead     : OSError: no"),
    ],
)
def test_a_finished_run_shows_its_outcome(event: Event, row: str):
    [found] = [line for line in shown(event).split("\n") if line.startswith("finished")]
    assert found.split() == ["finished", "import", "run", "41", *row.split()]


def test_a_retry_is_shown_among_the_next_starts():
    picture = shown(AttemptEnded(finish(failure(), retry=Retry(5))))
    assert "next      import  12:00:03.250  in 3.2 s   run 41 again, try 2 of 5" in picture


def test_a_drain_shows_the_runs_that_it_waits_for():
    events = [started(lease_id=f"l{number}", run_id=number) for number in range(1, 6)]
    picture = shown(*events, DrainBegun(5), jobs=(EVERY_TEN,), at=NOON + 2 * SECOND, size=(120, 20))
    waits = "draining: waits for import run 1, import run 2, import run 3 and 2 more, up to 28 s"
    assert picture.endswith(f"{waits}; another Ctrl-C stops now")
    assert "next" not in picture
    assert shown(DrainBegun(0)).endswith("draining: the last verdicts are written")


def test_attempts_beyond_the_rows_are_counted():
    picture = shown(*(started(lease_id=f"l{number}", run_id=number) for number in range(30)))
    assert "          … and 23 attempts more, on 30 of 64 seats" in picture


def test_progress_without_or_beyond_its_end_is_shown():
    def told(*progress: float) -> str:
        return shown(started(), RunProgressed(lease(), Progress(*progress)))

    assert "7 done" in told(7)
    assert "━━━━━━━━━━  12 of 10" in told(12, 10)
    assert "3 done" in told(3, 0)


def test_progress_of_a_finished_attempt_is_ignored():
    assert "running   nothing" in shown(started(), AttemptEnded(finish()), RunProgressed(lease(), Progress(1, 2)))


@pytest.mark.parametrize("event", [EventsLeftOut(7), NodeLeft("one", 0)])
def test_attempts_are_cleared_when_events_were_lost_or_the_node_left(event: Event):
    assert "running   nothing" in shown(started(), event)


@pytest.mark.parametrize("height", range(1, 25))
@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_the_view_fits_every_terminal(width: int, height: int):
    events = [started(lease_id=f"l{number}", run_id=number, name="名前" * 20) for number in range(30)]
    view = new_view(EVERY_TEN)
    for event in (*ONE_OF_EACH, *events, AttemptEnded(finish(failure(), name="x" * 90))):
        view.heed(event, NOON)
    lines = view.lines(width, height, NOON)
    assert 1 <= len(lines) <= height
    assert all(line.cell_len <= width for line in lines)


def test_names_and_errors_cannot_forge_lines():
    failed = finish(failure(error="x\ny"), name="c\rd", lease_id="2")
    picture = shown(started(name="a\nb\x1b[31m"), AttemptEnded(failed))
    assert "a\\nb\\x1b[31m" in picture
    assert "c\\rd" in picture
    assert "x\\ny" in picture
    assert "\x1b" not in picture


def test_next_starts_follow_pauses_deletions_and_edits():
    view = new_view(EVERY_TEN)
    assert "12:00:10" in drawn(view)
    record = JobRecord(1, 1, EVERY_TEN, JobState.PAUSED, NOON, NOON)
    view.stored = [record], True
    assert "next" not in drawn(view)
    edited = Job(name="tick", task=EVERY_TEN.task, schedules=(otd.every("5m"),))
    view.stored = [JobRecord(1, 2, edited, JobState.ACTIVE, NOON, NOON)], True
    assert "tick  12:05:00" in drawn(view)
    assert "12:00:10" not in drawn(view)
    view.stored = [], False
    assert "tick  12:05:00" in drawn(view), "an incomplete list of jobs deletes none"
    view.stored = [], True
    assert "next" not in drawn(view)


def test_the_last_line_has_the_counts():
    view = new_view()
    view.heed(started(), NOON)
    assert view.last_words().plain.startswith("so far    1 started, 0 succeeded")


def test_a_narrow_view_leaves_out_zero_counts():
    counts = shown(started(), AttemptEnded(finish()), size=(64, 20)).split("\n")[-2]
    assert counts == "so far    1 started, 1 succeeded; late p50 1.2 ms, p99 1.2 ms"


def job(name: str, *schedules: Schedule) -> Job:
    return Job(name=name, task=Sleep(duration=otd.Retry().delay), schedules=schedules)


def test_next_starts_of_all_schedules_are_in_order():
    upcoming = NextStarts([job("a", otd.every("10s"), otd.every("5m")), job("b", otd.every("15s")), job("c")], NOON)
    assert upcoming.next(3, NOON) == [
        NextStart(NOON + 10 * SECOND, "a"),
        NextStart(NOON + 15 * SECOND, "b"),
        NextStart(NOON + 300 * SECOND, "a"),
    ]
    assert upcoming.next(1, NOON + 10 * SECOND) == [NextStart(NOON + 15 * SECOND, "b")]
    later = NOON + 86_400 * SECOND
    assert upcoming.next(1, later) == [NextStart(later + 10 * SECOND, "a")]


def test_a_past_schedule_has_no_next_start():
    once = job("once", otd.at("2026-01-01T12:00:30Z"))
    upcoming = NextStarts([once], NOON)
    assert upcoming.next(5, NOON) == [NextStart(NOON + 30 * SECOND, "once")]
    assert upcoming.next(5, NOON + 30 * SECOND) == []


def test_a_fixed_delay_starts_again_after_the_end_of_its_run():
    made = otd.gap("10s")
    assert isinstance(made, FixedDelay)
    poll = job("poll", made)
    upcoming = NextStarts([poll], NOON)
    upcoming.next(5, NOON + SECOND)
    ended = finish(name="poll")
    ended.lease.record = type(ended.lease.record)(1, 1, poll, ended.lease.record.state, NOON, NOON)
    upcoming.ended(ended)
    assert upcoming.next(5, NOON + SECOND) == [NextStart(ended.ended_at + 10 * SECOND, "poll")]


def test_next_starts_include_jitter():
    spread = otd.every("1m", jitter="30s")
    jittered = job("spread", spread)
    upcoming, at = NextStarts([jittered], NOON), NOON
    found: list[Micros] = []
    while len(found) < 5:
        [coming] = upcoming.next(1, at)
        found.append(coming.at)
        at = coming.at
    slots = [NOON + number * 60 * SECOND for number in range(1, 6)]
    assert next_after(spread, NOON, origin=NOON) == slots[0]
    assert found == [due_of(jittered, spread)(slot) for slot in slots]


def test_a_retry_disappears_when_it_begins_or_its_instant_has_passed():
    upcoming = NextStarts([], NOON)
    failed = finish(failure())
    upcoming.ended(failed)
    [retry] = upcoming.next(5, NOON)
    assert (retry.at, retry.job) == (failed.verdict.due_at, "import")
    upcoming.started(failed.lease.run_id)
    assert upcoming.next(5, NOON) == []
    upcoming.ended(failed)
    assert upcoming.next(5, failed.verdict.due_at) == []


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.passed: Micros = 0

    def now(self) -> Micros:
        return NOON + self.passed

    def steady(self) -> Micros:
        return self.passed


class Terminal:
    """A live printer, and the screen that a person sees."""

    def __init__(self, *, width: int = 100, height: int = 24) -> None:
        self.clock = ManualClock()
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
    made.printer.close()  # it captures standard output until then


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
    assert sum("onthedot" in row for row in rows) == 1, "the view must be redrawn in place"
    assert terminal.screen().cursor_hidden


def test_the_view_is_drawn_at_most_four_times_a_second(terminal: Terminal):
    draws = 0
    for step in range(1_000):  # two seconds, an event every 2 ms
        terminal.clock.passed = step * 2_000
        before = terminal.file.tell()
        terminal.printer.write(terminal.printer.of(AttemptEnded(finish(run_id=step)), NOON))
        draws += terminal.file.tell() > before
    assert draws == 8
    terminal.printer.close()
    assert sum("succeeded in" in row for row in terminal.rows()) == 1_000, "no line may be lost"


def test_the_next_draw_is_sooner_while_lines_wait_or_runs_run(terminal: Terminal):
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


def test_lines_and_counts_stay_after_the_end(terminal: Terminal):
    terminal.printer.write(terminal.printer.of(started(), NOON))
    terminal.printer.close()
    first, counts, *rest = terminal.rows()
    assert "started    import" in first
    assert counts.startswith("so far    1 started")
    assert not any(rest)
    assert not terminal.screen().cursor_hidden


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 8), (10, 2), (80, 24)])
def test_the_view_works_on_small_terminals(width: int, height: int):
    terminal = Terminal(width=width, height=height)
    terminal.printer.write(["hello"])
    rows = terminal.rows()
    assert rows[0] == "hello"
    assert len(rows) <= max(2, height)
    assert all(len(row) <= width for row in rows)
    terminal.printer.close()
