"""Whether a run may be armed, and what its holder is answered."""

from __future__ import annotations

import pytest

from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import ArmAnswer, Armed, Delayed, Gone, Lease
from onthedot.stores.sql.arm import Stored, arm_answer, may_arm

RECORD = JobRecord(1, 3, Job(name="job", task=Call(handler="work")), JobState.ACTIVE, 0, 0)
LEASE = Lease("mine", 7, RECORD, "submit:1", 10, 10, None, 2, 0, 0, "one", 0, 0)
RESERVED = Stored("mine", "reserved", 0, 1, 0, 3)


def test_a_run_that_is_reserved_under_the_lease_may_be_armed():
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
def test_any_other_may_not_and_its_holder_is_told_why(stored: Stored | None, answer: ArmAnswer):
    assert not may_arm(LEASE, stored)
    assert arm_answer(LEASE, stored) == answer


def test_one_that_was_armed_now_is_answered_as_it_stands():
    assert arm_answer(LEASE, Stored.armed(LEASE, 9, 20)) == Armed(9, 2, 20)
