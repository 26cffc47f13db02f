"""The result of a drain: its exit code and the reasons that it prints."""

from __future__ import annotations

from onthedot.cli.node_process.node import DrainResult
from onthedot.clock import SECOND
from onthedot.model.events import AttemptEnded, AttemptStarted, DrainBegun, LeaseLost, NodeLeft
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import Lease, RunState
from onthedot.model.verdict import LEASE_ENDED, OUT_OF_REACH, STOPPED, Finish, OutcomeKind, Verdict

GRACE = 30 * SECOND


def lost(run_id: int, job: str, error: str | None) -> Finish:
    record = JobRecord(1, 1, Job(name=job, task=Call(handler="work")), JobState.ACTIVE, 0, 0)
    lease = Lease("lease", run_id, record, "manual:1", 0, 0, None, 1, 0, 0, "node-1", 0, 0)
    return Finish(lease, Verdict(RunState.SCHEDULED, OutcomeKind.LOST, "recovered", error=error), 1, 2)


def ended(*events) -> DrainResult:
    ending = DrainResult()
    for event in events:
        ending.heed(event)
    return ending


def test_only_attempts_that_ran_at_the_start_of_the_drain_count():
    early = AttemptEnded(lost(7, "early", OUT_OF_REACH.error))
    assert ended(early, DrainBegun(0), NodeLeft("n", 0)).code(hurried=False) == 0
    assert ended(DrainBegun(1, (8,)), early, NodeLeft("n", 0)).code(hurried=False) == 0


def test_attempts_that_start_during_the_signal_count():
    late = lost(7, "late", OUT_OF_REACH.error)
    events = DrainBegun(0), AttemptStarted(late.lease, 1), AttemptEnded(late), NodeLeft("n", 0)
    assert ended(*events).code(hurried=False) == 1


def test_each_reason_has_its_own_message():
    ending = ended(
        DrainBegun(4, (1, 2, 3, 4)),
        AttemptEnded(lost(1, "slow", STOPPED.error)),
        AttemptEnded(lost(2, "cut", OUT_OF_REACH.error)),
        LeaseLost(lost(3, "fenced", LEASE_ENDED.error)),
        NodeLeft("n", 1, 2),
    )
    assert (ending.code(hurried=False), ending.code(hurried=True)) == (1, 130)
    assert list(ending.reasons(GRACE)) == [
        "expected every attempt to end within 30.0 s, gave up on 2 attempts (slow); raise --grace",
        "the store was out of reach during the drain: 2 attempts (cut, fenced) were stopped, and will be recovered",
        "the outcomes of 2 attempts could not be stored before the node left; "
        "what ran is recovered as if it had not ended",
    ]


def test_a_failed_store_gives_exit_code_1_also_after_a_second_signal():
    for event in (AttemptEnded(lost(1, "cut", OUT_OF_REACH.error)), NodeLeft("n", 0, 1)):
        assert ended(DrainBegun(1, (1,)), event).code(hurried=True) == 1
