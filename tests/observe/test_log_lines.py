"""Log lines: each event has exactly its line, bursts are summed up, and untrusted text cannot forge lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import get_args

import pytest

from onthedot.clock import SECOND
from onthedot.model.events import (
    AttemptEnded,
    DrainBegun,
    Event,
    JobPut,
    LeaseLost,
    NodeJoined,
    NodeLeft,
    RunRecovered,
    RunsPlanned,
)
from onthedot.model.job import Guarantee, Retry
from onthedot.model.run import RunState
from onthedot.model.verdict import OutcomeKind, Verdict
from onthedot.observe.log_lines import Line, Lines, format_line
from tests.observe.sample_events import LOST, NOON, ONE_OF_EACH, failure, finish, lease, missed, started

FIVE = Retry(5)
MINUTE = 60 * SECOND


def new_lines() -> Lines:
    return Lines(late_after=30 * SECOND, grace=30 * SECOND, names=("import",), zone=UTC)


def printed(event: Event, lines: Lines | None = None) -> str:
    """The lines of one event at noon, with those of the pause after it."""
    lines = lines or new_lines()
    found = [*lines.of(event, NOON), *lines.pause(NOON + SECOND)]
    return "\n".join(format_line(line, zone=UTC) for line in found)


LINES = [
    "12:00:00.000  joined     node one",
    "12:00:00.000  left       node one",
    "12:00:00.000  fenced     node one: its lease ended while it lived; 2 attempts given up, joining anew",
    "12:00:00.000  cut off    node one: the store did not answer before its lease could pass on; 2 attempts stopped",
    "12:00:00.000  clock      this machine's clock is 1 m 30 s behind the store's; runs start on time, its logs do not "
    "tell the time; set it",
    "12:00:00.000  clock      it has jumped 6 m 40 s ahead; planning waits a moment",
    "12:00:00.000  silent     node two has missed two beats; its lease ends at 12:00:06",
    "12:00:00.000  back       node two beats again",
    "12:00:00.000  drains     node one was asked to take no more work",
    "12:00:00.000  placed     3 runs with workers that the leader chose; 1 run found none yet",
    "12:00:00.000  leads      this node plans from now on (term 4)",
    "12:00:00.000  term       no longer leader (term 4 ended)",
    "12:00:00.000  job        import          created, revision 1; 6 runs planned, 0 withdrawn",
    "12:00:01.000  planned    6 runs of import until 12:00:25",
    "12:00:00.000  backfill   import          500 of 1200 runs asked for",
    "12:00:00.000  replay     500 of 1200 dead letters asked for again",
    "12:00:00.000  skipped    import          14 slots from 11:58:50 to 11:59:55 will not run: missed",
    "12:00:00.001  started    import          run 41     +1.2 ms late",
    "",  # progress comes every second, so only the live view and JSON show it
    "12:00:00.050  finished   import          run 41     succeeded in 50.0 ms",
    "12:00:00.000  refused    import          run 41     handler import succeeded too late: another node has this run; "
    "nothing was changed",
    "12:00:00.000  recovered  import          run 41     its node is gone; runs again now (recovery 1 of 3)",
    "12:00:00.000  missed     import          run 41     due 12:00:00, too late to run: skipped",
    "12:00:00.000  resumed    import          its pause is over; 5 slots of the pause skipped; 1 held run free",
    "12:00:00.000  waits      import          run 41     for run 7 to end",
    "12:00:00.000  waits      import          run 41     for its rate, until 12:00:02.500",
    "12:00:00.000  skipped    import          run 41     run 7 of this job had not ended",
    "12:00:00.000  gates      1 run waited at an open gate and is free now; please report this",
    "12:00:00.000  pruned     12345 finished runs, 2 skipped ranges, 1 ended node; the counts are kept",
    "12:00:00.000  output     of run 41, attempt 2, is not kept yet: s3://b cannot be used: no; trying again in 2.0 s",
    "12:00:00.000  output     of 3 attempts is lost (5 MiB): the spool is full",
    "12:00:00.000  pruned     the output of 7 runs that had gone",
    "12:00:00.000  sealed     12 changes in the audit; head 3:0af3",
    "12:00:00.000  key        3f0c9a1b2d4e5f6 (ci) expires 2026-01-15 12:00:00; "
    "'onthedot keys create ci' makes another",
    "12:00:00.000  zombie     import          run 41     handler import does not stop; its seat stays taken until it "
    "ends (2 seats lost so)",
    "12:00:00.000  kept       import          run 41     its transaction is committed, and it has succeeded; what came "
    "after does not count: OSError: no",
    "12:00:00.000  hook       import          on_dead: OSError: no; what was recorded stays",
    "12:00:00.000  trouble    reserver: the disk is full; trying again in 300.0 ms",
    "12:00:00.000  lost       the store has lost acknowledged writes: 40 of 42 are there (epoch 3); runs of the last "
    "moments may run again, or be gone",
    "12:00:00.000  draining   no new work is taken; waiting for 2 attempts to end, up to 30s; another Ctrl-C stops now",
    "12:00:00.000  left out   3 events: they were not read fast enough",
]


@pytest.mark.parametrize(
    ("event", "line"),
    list(zip(ONE_OF_EACH, LINES, strict=True)),
    ids=[type(event).__name__ for event in ONE_OF_EACH],
)
def test_each_event_has_its_line(event: Event, line: str):
    assert printed(event) == line


def test_every_kind_of_event_has_a_sample():
    assert {type(event) for event in ONE_OF_EACH} == set(get_args(Event))


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (failure(), "failed     import          run 41     again in 3.2 s (try 2 of 5); after 50.0 ms: OSError: no"),
        (
            failure(outcome=OutcomeKind.TIMED_OUT, error="took longer than its time-out of 5 s"),
            "timed out  import          run 41     again in 3.2 s (try 2 of 5); after 50.0 ms: took longer than its "
            "time-out of 5 s",
        ),
        (
            failure(state=RunState.DEAD, reason="failed 5 times"),
            "dead       import          run 41     failed 5 times; after 50.0 ms: OSError: no",
        ),
        (LOST, "cut short  import          run 41     to be run again; after 50.0 ms: stopped"),
        (
            Verdict(RunState.LOST, OutcomeKind.LOST, "node lost", recovered=True),
            "lost       import          run 41     after 50.0 ms: node lost",
        ),
    ],
)
def test_each_verdict_has_its_line(verdict: Verdict, line: str):
    assert printed(AttemptEnded(finish(verdict, retry=FIVE))) == f"12:00:00.050  {line}"


def test_a_refused_verdict_of_an_exactly_once_job_names_both_causes():
    made = finish()
    job = replace(made.lease.record.job, guarantee=Guarantee.EXACTLY_ONCE)
    exact = replace(made.lease, record=replace(made.lease.record, job=job))
    assert printed(LeaseLost(made._replace(lease=exact))).endswith(
        "too late: another node has this run, or its own transaction is committed; nothing was changed"
    )


def test_an_attempt_that_never_began_has_its_own_words():
    released = Verdict(RunState.SCHEDULED, OutcomeKind.RELEASED, "released", due_at=NOON)
    assert printed(AttemptEnded(finish(released, began=False))).endswith("to be run again; before it began: released")


def test_a_slot_run_long_after_its_time_is_caught_up():
    late = started(4 * MINUTE + 20 * SECOND)
    assert printed(late) == "12:04:20.000  caught up  import          run 41     due 12:00:00, 4 m 20 s late"


@pytest.mark.parametrize(
    "fields",
    [{"failures": 1}, {"recoveries": 1}, {"trigger": "submit:x"}],
    ids=["a retry", "a recovery", "a submitted run"],
)
def test_late_starts_of_other_runs_are_no_catch_up(fields: dict[str, object]):
    assert "started " in printed(started(5 * MINUTE, **fields))


def test_a_start_within_late_after_is_only_late():
    assert printed(started(30 * SECOND)).endswith("started    import          run 41     +30.0 s late")


def test_a_late_start_after_an_outage_says_that_it_was_due_before_the_node():
    lines = new_lines()
    lines.of(NodeJoined("one", "boot", NOON + SECOND), NOON + SECOND)
    assert printed(started(2 * SECOND), lines).endswith("+2.0 s late, due before this node started")


def test_tries_and_recoveries_are_counted():
    again = started(failures=1, recoveries=2, retry=FIVE)
    assert printed(again).endswith("+1.2 ms late, try 2 of 5, recovery 2 of 3")


@pytest.mark.parametrize(
    ("state", "reason", "line"),
    [
        (
            RunState.LOST,
            "node lost",
            "lost       import          run 41     its node is gone: node lost; it does not run again",
        ),
        (
            RunState.DEAD,
            "lost with its node 4 times",
            "dead       import          run 41     its node is gone: lost with its node 4 times; it does not run again",
        ),
    ],
)
def test_a_run_that_is_not_recovered_has_the_reason(state: RunState, reason: str, line: str):
    assert printed(RunRecovered(lease(), LOST._replace(state=state, reason=reason))) == f"12:00:00.000  {line}"


def test_abandoned_attempts_are_counted():
    assert printed(NodeLeft("one", 1)) == "12:00:00.000  left       node one; 1 attempt abandoned, to be recovered"
    assert printed(NodeLeft("one", 0, 2)).endswith("node one; 2 outcomes not stored, to be recovered")
    assert printed(NodeLeft("one", 1, 1)).endswith(
        "node one; 1 attempt abandoned, 1 outcome not stored, to be recovered"
    )


def test_a_drain_without_attempts_says_so():
    assert printed(DrainBegun(0)).endswith("draining   no new work is taken; nothing is running")


# ── summaries ────────────────────────────────────────────────────────────────────────────────────────────────────


def planned(job: str, runs: int, last: int = 25) -> RunsPlanned:
    return RunsPlanned(job, "s", runs, NOON, NOON + last * SECOND)


def test_one_pass_of_the_planner_is_one_line():
    lines = new_lines()
    assert [lines.of(planned(job, 3, last), NOON) for job, last in (("a", 20), ("b", 25), ("a", 10))] == [[], [], []]
    [line] = lines.pause(NOON + SECOND)
    assert line == Line(NOON + SECOND, "planned", "9 runs of 2 jobs until 12:00:25", "quiet")
    assert lines.pause(NOON + 2 * SECOND) == []


def test_passes_of_the_planner_are_summed_up():
    lines = new_lines()
    lines.of(planned("a", 1), NOON)
    assert len(lines.pause(NOON + SECOND)) == 1
    lines.of(planned("a", 2), NOON + 5 * SECOND)
    assert lines.pause(NOON + 6 * SECOND) == []
    assert lines.pause_in(NOON + 6 * SECOND) == 5 * SECOND
    lines.of(planned("b", 1), NOON + 10 * SECOND)
    [line] = lines.pause(NOON + 11 * SECOND)
    assert line.text.startswith("3 runs of 2 jobs")


def test_a_pass_of_the_planner_is_held_back_for_its_rest():
    lines = new_lines()
    lines.of(planned("a", 1), NOON)
    assert lines.pause(NOON + 1) == []


def test_missed_runs_of_a_job_are_one_line():
    lines = new_lines()
    for number in range(3):
        assert lines.of(missed(number, due_at=NOON - number * 5 * SECOND), NOON) == []
    lines.of(missed(9, job="other"), NOON)
    texts = [line.text for line in lines.pause(NOON)]
    assert texts == [
        "import          3 runs due from 11:59:50 to 12:00:00, too late to run: skipped",
        "other           run 9      due 12:00:00, too late to run: skipped",
    ]


def test_missed_runs_are_printed_before_the_next_event():
    lines = new_lines()
    lines.of(missed(), NOON)
    assert [line.word for line in lines.of(started(), NOON)] == ["missed", "started"]


def test_a_pause_is_needed_only_for_held_back_lines():
    lines = new_lines()
    assert lines.pause_in(NOON) is None
    lines.of(missed(), NOON)
    assert lines.pause_in(NOON)


# ── untrusted text, colours, columns ─────────────────────────────────────────────────────────────────────────────


def test_a_job_name_cannot_forge_a_line():
    forged = printed(JobPut("a\n12:00:00.000  finished   bank", "created", 1, 0, 0))
    assert "\n" not in forged
    assert "a\\n12:00:00.000  finished" in forged


def test_an_error_cannot_forge_a_line():
    forged = printed(AttemptEnded(finish(failure(error="x\r\n\x1b[32mfinished"), retry=FIVE)))
    assert "\n" not in forged
    assert "\x1b" not in forged


def test_only_the_first_word_is_coloured():
    painted = format_line(Line(NOON, "dead", "x", "bad"), zone=UTC, paint=lambda word, tone: f"<{tone}:{word}>")
    assert painted == "12:00:00.000  <bad:dead     >  x"


def test_columns_are_as_wide_as_the_longest_name():
    lines = Lines(late_after=SECOND, grace=SECOND, names=("import", "a_rather_long_job_name"), zone=UTC)
    assert printed(started(), lines).endswith("started    import                  run 41     +1.2 ms late")


def test_a_drain_tells_of_armed_runs():
    """They start after the line that says that no new work is taken."""
    assert printed(DrainBegun(0, (), 1)).endswith("no new work is taken, but 1 armed run may still start")
    both = printed(DrainBegun(3, (1, 2, 3), 2))
    assert "no new work is taken, but 2 armed runs may still start; waiting for 3 attempts to end, up to " in both
