"""A run whose node died is repeated, dead or lost, as its guarantee and its number of recoveries say."""

import pytest

from onthedot.model.job import Call, Guarantee, Job
from onthedot.model.run import RunState
from onthedot.rules.recovery import decide


def recover(guarantee: Guarantee, recoveries: int):
    job = Job(name="j", task=Call(handler="j"), guarantee=guarantee, max_recoveries=3)
    return decide(job, recoveries=recoveries, now=77, why="its node's lease ended", due_at=0)


@pytest.mark.parametrize("recoveries", [0, 1, 2])
def test_an_at_least_once_run_is_due_again_at_once(recoveries):
    found = recover(Guarantee.AT_LEAST_ONCE, recoveries)
    assert (found.state, found.due_at, found.recovered, found.failed) == (RunState.SCHEDULED, 77, True, False)


def test_a_recovered_run_is_not_due_before_the_lost_attempt_was():
    job = Job(name="j", task=Call(handler="j"))
    assert decide(job, recoveries=0, now=77, why="its node's lease ended", due_at=80).due_at == 80


def test_a_run_that_kills_every_worker_ends_as_dead():
    found = recover(Guarantee.AT_LEAST_ONCE, 3)
    assert (found.state, found.reason) == (RunState.DEAD, "lost with its node 4 times")


def test_an_at_most_once_run_is_lost():
    assert recover(Guarantee.AT_MOST_ONCE, 0).state is RunState.LOST
