"""The checker is right about jitter, arguments, H, bounds and several instants on schedules."""

from dataclasses import replace
from datetime import timedelta

import pytest

from onthedot.model.job import At, Cron, Every, FixedDelay, Job, Schedule
from onthedot_verify.simulation import CALM, Scenario, simulate
from onthedot_verify.simulation.chance import Chance
from onthedot_verify.simulation.cluster import START
from tests.lanes import seeds
from tests.simulation.test_cluster import holds

pytestmark = pytest.mark.slow


def with_options(scenario: Scenario) -> Scenario:
    """The workload of the seed, with further options on most of its schedules. Jobs of short intervals are left out:
    their schedules have a start and an end already."""
    scenario = replace(scenario, outage_every=0.0)
    chance = Chance(f"{scenario.seed} options")
    drawn = scenario.filled().workload
    assert drawn is not None
    jobs = {name: _job(chance, job) for name, job in drawn.jobs.items()}
    edits = tuple((when, _job(chance, job)) for when, job in drawn.edits)
    return replace(scenario, workload=replace(drawn, jobs=jobs, edits=edits))


def _job(chance: Chance, job: Job) -> Job:
    schedules = [_schedule(chance, one) for one in job.schedules]
    instants = sorted({instant for one in schedules if isinstance(one, At) for instant in one.instants})
    if len(instants) > 1:
        others = [one for one in schedules if not isinstance(one, At)]
        schedules = [*others, At(instant=START - timedelta(hours=1), more=tuple(instants), jitter=timedelta(seconds=9))]
    return replace(job, schedules=tuple(schedules))


def _schedule(chance: Chance, schedule: Schedule) -> Schedule:
    """The id stays, or there is none. An option may make it another schedule, as in a program."""
    if chance.fraction() < 0.3:
        schedule = replace(schedule, args={"tenant": "of the schedule"})
    if isinstance(schedule, FixedDelay):
        return schedule
    if chance.fraction() < 0.6:
        schedule = replace(schedule, jitter=timedelta(seconds=chance.choice((0.5, 5, 40, 200))))
    if isinstance(schedule, Cron) and chance.fraction() < 0.5:
        schedule = replace(schedule, expression="H H/3 * * * *")
    if isinstance(schedule, Cron | Every) and chance.fraction() < 0.4:
        schedule = replace(schedule, max_count=3 + chance.whole(12))
    if isinstance(schedule, Cron | Every) and chance.fraction() < 0.3:
        schedule = replace(schedule, start=START + timedelta(seconds=90), end=START + timedelta(seconds=1_500))
    return schedule


def test_schedule_options_keep_all_promises_for_a_quarter_of_an_hour():
    holds(with_options(Scenario(seed="options", minutes=17, fault_every=20)))


def test_runs_with_schedule_options_are_on_time_without_faults():
    outcome = simulate(with_options(Scenario(seed="options calm", minutes=17, weather=CALM, faults=())))
    assert not outcome.violations
    armed = [event for event in outcome.events if event["ev"] == "arm" and event["trigger"].startswith("schedule:")]
    assert sum("body" in event for event in armed) > 5
    assert sum(event["due"] > event["slot"] for event in armed) > 20


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(test=1, soak=5, fresh=50))
def test_schedule_options_keep_all_promises_for_an_hour(seed):
    holds(with_options(Scenario(seed=f"options {seed}")))
