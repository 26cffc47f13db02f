"""A job's options give the keys of its gates, and what a due run does at a closed overlap gate."""

from dataclasses import replace
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.job import Call, Job, JobRecord, JobState
from onthedot.model.run import Lease, OnBusy, backfill_trigger, slot_trigger
from onthedot.rules.gates import ON_TIME, gates_of, on_busy, rate_of

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
def test_each_overlap_mode_has_its_action(mode, catch_up, wanted):
    assert asked(lease(otd.Overlap(mode), otd.CatchUp(catch_up))) == wanted


def test_a_backfilled_run_waits():
    assert asked(lease(otd.Overlap("skip"), otd.CatchUp(), backfill_trigger("s"))) == OnBusy("wait")


def test_a_slot_is_late_if_it_is_armed_or_was_created_late():
    one = lease(otd.Overlap("wait"), otd.CatchUp())
    assert not asked(one, DUE + ON_TIME).late
    assert asked(one, DUE + ON_TIME + 1).late
    assert not asked(replace(one, created_at=DUE)).late
    assert asked(replace(one, created_at=DUE + 1)).late


def record_in(namespace: str, **policies: Any) -> JobRecord:
    job = Job(name="job", task=Call(handler="job"), namespace=namespace, **policies)
    return JobRecord(1, 1, job, JobState.ACTIVE, 0, 0)


def keys_in(namespace: str, name: str, key: str = "") -> list[str]:
    record = record_in(namespace, concurrency=otd.Limit(1, name=name, key=key), rate=otd.Rate(1, name=name, key=key))
    rate = rate_of(record, arguments={"tenant": "t"})
    assert rate is not None
    return [*(gate.key for gate in gates_of(record, target="", arguments={"tenant": "t"})), rate.key]


def test_named_limits_and_rates_belong_to_a_namespace():
    assert keys_in("qa", "db") == ["limit:in:qa:name:db:", "rate:in:qa:name:db:"]
    assert keys_in("qa", "db", "tenant") == ['limit:in:qa:name:db:"t"', 'rate:in:qa:name:db:"t"']


def test_keys_of_the_default_namespace_have_no_namespace():
    assert keys_in("default", "db") == ["limit:name:db:", "rate:name:db:"]
    assert keys_in("default", "db", "tenant") == ['limit:name:db:"t"', 'rate:name:db:"t"']


def test_no_limit_name_gives_the_key_of_another_namespace():
    """A name may contain colons, a namespace may not. After its kind, a key has `name:` or `in:<namespace>:`."""
    names = ["db", "qa:db", "in:qa:name:db", "name:db", "qa:name:db"]
    keys = [key for namespace in ("default", "qa", "db") for name in names for key in keys_in(namespace, name)]
    assert len(keys) == len(set(keys))


def test_a_limit_without_a_name_belongs_to_its_job():
    assert keys_in("qa", "") == ["limit:job:1:", "rate:job:1:"]
