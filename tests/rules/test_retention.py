"""The retention policy deletes runs by age and by number, and failures later than successes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot import Retention
from onthedot.clock import SECOND
from onthedot.model.errors import DefinitionError
from onthedot.model.retention import DAY, HOUR, Cut, Mark
from onthedot.model.run import TERMINAL, RunState
from onthedot.rules.retention import (
    FAILURES,
    ORDINARY,
    SETTLED,
    Quota,
    cut_by_count,
    cuts_by_age,
    end_of_ledger,
    quotas,
)

NOW = 1_000 * DAY
FOR_EVER = Retention(age=None, count=None, failures_age=None, failures_count=None)


def deleted_by_age(policy: Retention, state: RunState, age: int) -> bool:
    ended = Mark(NOW - age, 41)
    return any(state in cut.states and ended <= cut.until for cut in cuts_by_age(policy, now=NOW))


AGES = [
    # (state, age at which it is deleted by default)
    (RunState.SUCCEEDED, 7 * DAY),
    (RunState.SKIPPED, 7 * DAY),
    (RunState.CANCELLED, 7 * DAY),
    (RunState.DEAD, 90 * DAY),
    (RunState.LOST, 90 * DAY),
]


@pytest.mark.parametrize(("state", "age"), AGES)
def test_each_state_is_deleted_at_its_age(state, age):
    assert not deleted_by_age(Retention(), state, age - 1)
    assert deleted_by_age(Retention(), state, age)


def test_the_table_has_every_state_in_which_a_run_can_end():
    assert {state for state, _ in AGES} == ORDINARY | FAILURES == TERMINAL
    assert not ORDINARY & FAILURES


@pytest.mark.parametrize(("state", "_"), AGES)
def test_without_limits_everything_is_kept(state, _):
    assert not deleted_by_age(FOR_EVER, state, 999 * DAY)
    assert quotas(FOR_EVER) == []
    assert end_of_ledger(FOR_EVER, now=NOW) is None


def test_each_limit_can_be_removed_alone():
    [cut] = cuts_by_age(Retention(failures_age=None), now=NOW)
    assert cut.states == ORDINARY
    [quota] = quotas(Retention(count=None))
    assert quota == Quota(FAILURES, 100_000)


def test_skips_and_nodes_are_kept_as_long_as_failures():
    assert end_of_ledger(Retention(), now=NOW) == NOW - 90 * DAY


def test_runs_beyond_the_quota_are_deleted():
    [ordinary, failures] = quotas(Retention(count=5, failures_count=50))
    assert (ordinary, failures) == (Quota(ORDINARY, 5), Quota(FAILURES, 50))
    old = Mark(NOW - 2 * HOUR, 41)
    assert cut_by_count(ordinary, 7, old, now=NOW) == Cut(ORDINARY, old, 7)


def test_runs_that_have_just_ended_are_kept_despite_the_quota():
    cut = cut_by_count(Quota(ORDINARY, 5), 7, Mark(NOW - SECOND, 41), now=NOW)
    assert Mark(NOW - SETTLED + 1, 0) > cut.until
    assert Mark(NOW - SETTLED, 41) <= cut.until


@given(
    age=st.none() | st.integers(HOUR, 100 * DAY),
    longer=st.none() | st.integers(0, 100 * DAY),
    ended=st.integers(NOW - 300 * DAY, NOW),
)
def test_a_failure_is_never_deleted_before_a_success_of_the_same_age(age, longer, ended):
    """For any limits: if a failure is deleted, a success of the same age is deleted too."""
    if age is None:
        longer = None
    policy = Retention(age=age, failures_age=None if longer is None else (age or 0) + longer)
    failure, success = (deleted_by_age(policy, state, NOW - ended) for state in (RunState.DEAD, RunState.SUCCEEDED))
    assert success or not failure
    if NOW - ended < SETTLED:
        assert not success


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"age": HOUR - 1}, "age: expected at least 1h, got 59m59s999ms999us"),
        ({"count": 0}, "count: expected at least 1, got 0"),
        ({"age": 2 * DAY, "failures_age": DAY}, "failures_age: expected at least 2d, got 1d"),
        ({"count": 20, "failures_count": 10}, "failures_count: expected at least 20, got 10"),
    ],
)
def test_limits_that_make_no_sense_are_refused(fields, problem):
    with pytest.raises(DefinitionError, match=problem):
        Retention(**fields)
