"""Who counts as on time at a closed overlap gate: by the instant at which a run was due."""

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.job import Call, Job, JobRecord, JobState
from onthedot.policy.gates import on_busy
from onthedot.run import backfill_trigger, slot_trigger
from onthedot.schedules import due_of, schedule_id

LATE = 30 * SECOND
SLOT = 7_200 * SECOND
HOURLY = otd.every("1h", jitter="20m")
JOB = Job(
    name="job", task=Call(handler="job"), schedules=(otd.every("2h", id="plain"), HOURLY), overlap=otd.Overlap("skip")
)
RECORD = JobRecord(1, 1, JOB, JobState.ACTIVE, 0, 0)


def action(trigger: str, now: int) -> str:
    return on_busy(RECORD, trigger=trigger, slot_at=SLOT, now=now, late_after=LATE).action


def test_jitter_makes_no_run_late():
    due = due_of(JOB, HOURLY)(SLOT)
    assert due > SLOT + LATE  # else this tests nothing
    trigger = slot_trigger(schedule_id(HOURLY))
    assert action(trigger, due + LATE) == "skip"
    assert action(trigger, due + LATE + 1) == "wait"
    assert action(slot_trigger("plain"), SLOT + LATE) == "skip"
    assert action(slot_trigger("plain"), SLOT + LATE + 1) == "wait"


def test_a_backfill_waits():
    assert action(backfill_trigger("plain"), SLOT) == "wait"
    assert on_busy(RECORD, trigger=backfill_trigger("plain"), slot_at=0, now=0, late_after=LATE).max_waiting is None
