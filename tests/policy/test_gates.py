"""What a due run does at its closed overlap gate."""

from dataclasses import replace

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.job import Call, Job, JobRecord, JobState
from onthedot.policy.gates import ON_TIME, on_busy
from onthedot.run import Lease, OnBusy, backfill_trigger, slot_trigger

DUE = 7_200 * SECOND


def lease(overlap: otd.Overlap, catch_up: otd.CatchUp, trigger: str = slot_trigger("s")) -> Lease:
    job = Job(name="job", task=Call(handler="job"), overlap=overlap, catch_up=catch_up)
    record = JobRecord(1, 1, job, JobState.ACTIVE, 0, 0)
    return Lease("lease", 1, record, trigger, DUE, DUE, None, 1, 0, 0, "node", DUE - 5 * SECOND, DUE - SECOND)


def asked(lease: Lease, now: int = DUE) -> OnBusy:
    return on_busy(lease, now=now)


@pytest.mark.parametrize(
    ("mode", "catch_up", "wanted"),
    [
        ("wait", "none", OnBusy("wait", 1, "wait")),
        ("wait", "last", OnBusy("wait", 1, "wait")),
        ("wait", "all", OnBusy("wait", 1, "wait")),
        ("allow", "last", OnBusy("wait")),
        ("skip", "none", OnBusy("skip", overdue="missed")),
        ("skip", "last", OnBusy("skip", overdue="missed")),
        ("skip", "all", OnBusy("skip", overdue="wait")),
        ("replace", "none", OnBusy("replace", overdue="replaced")),
        ("replace", "last", OnBusy("replace", overdue="replaced")),
        ("replace", "all", OnBusy("replace", overdue="wait")),
    ],
)
def test_each_mode_has_its_answer(mode, catch_up, wanted):
    assert asked(lease(otd.Overlap(mode), otd.CatchUp(catch_up))) == wanted


def test_what_somebody_asked_for_waits():
    assert asked(lease(otd.Overlap("skip"), otd.CatchUp(), backfill_trigger("s"))) == OnBusy("wait")


def test_a_slot_is_late_when_it_was_planned_or_asked_for_late():
    one = lease(otd.Overlap("wait"), otd.CatchUp())
    assert not asked(one, DUE + ON_TIME).late
    assert asked(one, DUE + ON_TIME + 1).late
    assert not asked(replace(one, created_at=DUE)).late
    assert asked(replace(one, created_at=DUE + 1)).late
