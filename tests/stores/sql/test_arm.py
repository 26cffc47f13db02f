"""The decisions of a batch of arms: whether each run may start, and the answer for its holder."""

from __future__ import annotations

import pytest

from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import ArmAnswer, Armed, Delayed, Gate, GateAsk, Gone, Lease, OnBusy
from onthedot.stores.sql.arm import Known, Seen, Stored, arm_answer, may_arm, to_look_at
from onthedot.stores.sql.gates import Idle

OVERLAP = Gate("overlap", 1, until_end=True)
LIMIT = Gate("limit", 2)
JOB = JobRecord(1, 1, Job(name="j", task=Call(handler="j")), JobState.ACTIVE, 0, 0)


def lease(run_id: int, due_at: int = 100) -> Lease:
    return Lease(f"l{run_id}", run_id, JOB, "slot:s", due_at, due_at, None, 1, 0, 0, "n", 0, 0)


def idle(run_id: int, due_at: int) -> Idle:
    return Idle("limit", run_id, due_at, "call:j", "default", "", None)


def test_a_batch_reads_only_the_gates_of_its_runs():
    ahead = GateAsk((OVERLAP,))
    limited = GateAsk((LIMIT,), OnBusy("wait"))
    counted = GateAsk((OVERLAP, LIMIT), OnBusy("wait", max_waiting=3))
    overdue = GateAsk((Gate("other", 1, until_end=True),), OnBusy("wait", overdue="wait"))
    gates, runs, counts, early, late = to_look_at([(1, ahead), (2, limited), (3, counted), (4, overdue)])
    assert (sorted(gates), runs) == (["limit", "other", "overlap"], [1, 2, 3, 4])
    assert (sorted(counts), early, late) == (["other", "overlap"], [1], [4])


def test_a_gate_counts_the_runs_admitted_so_far_in_the_batch():
    known = Known([Seen("held", "limit", 7, 0)])
    assert not known.is_full(LIMIT)
    known.hold("limit", 8)
    assert known.is_full(LIMIT)
    known.leave("limit", 7)
    assert (known.is_full(LIMIT), known.held[7], known.held[8]) == (False, set(), {"limit"})


@pytest.mark.parametrize(
    ("gate", "on_busy", "skipped"),
    [
        (OVERLAP, OnBusy("wait"), False),
        (OVERLAP, OnBusy("skip"), True),
        (OVERLAP, OnBusy("wait", max_waiting=3), False),
        (OVERLAP, OnBusy("wait", max_waiting=2), True),
        (LIMIT, OnBusy("skip"), False),
    ],
)
def test_a_slot_is_skipped_only_at_its_overlap_gate(gate, on_busy, skipped):
    assert Known([Seen("waiting", "overlap", 2, 0)]).is_skipped(gate, on_busy) is skipped


def test_a_slot_is_a_catch_up_if_other_slots_are_overdue_too():
    rule = OnBusy("wait", overdue="wait")
    alone = Known([Seen("newer", "", 5, None), Seen("caught_up", "overlap", 0, 99)])
    assert not alone.is_caught_up(lease(5), OVERLAP, rule, None)
    assert alone.is_caught_up(lease(5), OVERLAP, rule._replace(late=True), None)
    assert alone.is_caught_up(lease(5), OVERLAP, rule, 4)
    assert Known([Seen("newer", "", 5, 0)]).is_caught_up(lease(5), OVERLAP, rule, None)
    assert Known([Seen("caught_up", "overlap", 0, 100)]).is_caught_up(lease(5), OVERLAP, rule, None)


def test_only_younger_idle_runs_give_up_their_place():
    known = Known([Seen("held", "limit", 1, 0), Seen("held", "limit", 9, 0)])
    assert known.giving_way(lease(5), LIMIT, [idle(1, 50), idle(9, 200)]) == [9]
    assert known.giving_way(lease(5), LIMIT, [idle(1, 50)]) is None
    assert known.giving_way(lease(9, 200), LIMIT, [idle(1, 50)]) == []


RECORD = JobRecord(1, 3, Job(name="job", task=Call(handler="work")), JobState.ACTIVE, 0, 0)
LEASE = Lease("mine", 7, RECORD, "submit:1", 10, 10, None, 2, 0, 0, "one", 0, 0)
RESERVED = Stored("mine", "reserved", 0, 1, 0, 3)


def test_a_run_that_the_lease_reserves_may_be_armed():
    assert may_arm(LEASE, RESERVED)


@pytest.mark.parametrize(
    ("stored", "answer"),
    [
        (None, Gone("taken or withdrawn")),
        (RESERVED._replace(lease_id="another"), Gone("taken or withdrawn")),
        (RESERVED._replace(lease_id=None, state="scheduled"), Gone("taken or withdrawn")),
        (RESERVED._replace(revision=4), Gone("edited")),
        (RESERVED._replace(active=False), Gone("paused")),
        (RESERVED._replace(state="scheduled", granted_by="rate", granted_at=50), Delayed("rate", 50)),
        (RESERVED._replace(state="running", fence=9, attempt=2, armed_at=20), Armed(9, 2, 20)),
    ],
    ids=["no run", "another lease", "released", "edited", "paused", "delayed", "armed before"],
)
def test_any_other_run_may_not_be_armed_and_the_answer_says_why(stored: Stored | None, answer: ArmAnswer):
    assert not may_arm(LEASE, stored)
    assert arm_answer(LEASE, stored) == answer


def test_a_run_that_was_just_armed_gets_its_fence_and_attempt():
    assert arm_answer(LEASE, Stored.armed(LEASE, 9, 20)) == Armed(9, 2, 20)
