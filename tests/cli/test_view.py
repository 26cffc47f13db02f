"""What the live view shows, from events that never happened."""

from __future__ import annotations

from datetime import UTC

import pytest

import onthedot as otd
from onthedot.cli.view import View
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
from onthedot.model.job import Job, JobRecord, JobState, Retry, Sleep
from onthedot.model.run import Progress, RunState
from tests.observe.made_up import NOON, ONE_OF_EACH, failure, finish, lease, missed, started

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


def test_the_whole_picture():
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


def test_a_node_that_has_nothing_to_do_yet():
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
def test_the_role(events: list[Event], role: str):
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
def test_what_has_ended_says_how(event: Event, row: str):
    [found] = [line for line in shown(event).split("\n") if line.startswith("finished")]
    assert found.split() == ["finished", "import", "run", "41", *row.split()]


def test_a_retry_is_among_what_comes_next():
    picture = shown(AttemptEnded(finish(failure(), retry=Retry(5))))
    assert "next      import  12:00:03.250  in 3.2 s   run 41 again, try 2 of 5" in picture


def test_while_it_drains_it_says_what_it_waits_for():
    events = [started(lease_id=f"l{number}", run_id=number) for number in range(1, 6)]
    picture = shown(*events, DrainBegun(5), jobs=(EVERY_TEN,), at=NOON + 2 * SECOND, size=(120, 20))
    waits = "draining: waits for import run 1, import run 2, import run 3 and 2 more, up to 28 s"
    assert picture.endswith(f"{waits}; another Ctrl-C stops now")
    assert "next" not in picture
    assert shown(DrainBegun(0)).endswith("draining: the last verdicts are written")


def test_more_attempts_than_rows_are_counted():
    picture = shown(*(started(lease_id=f"l{number}", run_id=number) for number in range(30)))
    assert "          … and 23 attempts more, on 30 of 64 seats" in picture


def test_progress_without_an_end_and_beyond_it():
    def told(*progress: float) -> str:
        return shown(started(), RunProgressed(lease(), Progress(*progress)))

    assert "7 done" in told(7)
    assert "━━━━━━━━━━  12 of 10" in told(12, 10)
    assert "3 done" in told(3, 0)


def test_progress_of_an_attempt_that_has_ended_is_nobodys():
    assert "running   nothing" in shown(started(), AttemptEnded(finish()), RunProgressed(lease(), Progress(1, 2)))


@pytest.mark.parametrize("event", [EventsLeftOut(7), NodeLeft("one", 0)])
def test_attempts_whose_end_may_have_been_missed_are_not_shown_for_ever(event: Event):
    assert "running   nothing" in shown(started(), event)


@pytest.mark.parametrize("height", range(1, 25))
@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_it_fits_every_terminal(width: int, height: int):
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


def test_jobs_that_are_paused_or_deleted_have_no_next_instant_and_edits_count():
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
    assert "tick  12:05:00" in drawn(view), "not all of them were read"
    view.stored = [], True
    assert "next" not in drawn(view)


def test_the_last_words_are_the_counts():
    view = new_view()
    view.heed(started(), NOON)
    assert view.last_words().plain.startswith("so far    1 started, 0 succeeded")


def test_where_there_is_no_room_what_never_happened_is_left_out():
    counts = shown(started(), AttemptEnded(finish()), size=(64, 20)).split("\n")[-2]
    assert counts == "so far    1 started, 1 succeeded; late p50 1.2 ms, p99 1.2 ms"
