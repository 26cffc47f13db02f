"""A simulation of schedules counts starts, waits and skips as the policies say, without calling handlers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.clock import SECOND, Micros, to_micros
from onthedot.model.errors import DefinitionError
from onthedot.simulate.play import play
from onthedot.simulate.results import Tally, warnings
from onthedot.simulate.scenario import Outage, Scenario

MONDAY = to_micros(datetime(2026, 6, 1, tzinfo=UTC))
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND


def hour_of(instant: Micros) -> tuple[int, int]:
    return instant // (24 * HOUR), instant // HOUR % 24


def run_simulation(sched: otd.Scheduler, *, hours: float = 24, **options) -> tuple[Scenario, Tally]:
    """Simulate this many hours from Monday midnight."""
    scenario = Scenario(jobs=sched.jobs, start=MONDAY, end=MONDAY + round(hours * HOUR), **options)
    tally = Tally(scenario, hour_of)
    play(scenario, tally)
    return scenario, tally


def fail_if_called() -> None:
    raise AssertionError("a simulation calls no handler")


def program(**jobs: dict) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")
    for name, options in jobs.items():
        sched.job(name=name, **options)(fail_if_called)
    return sched


def out(first: float, last: float) -> Outage:
    return Outage(MONDAY + round(first * HOUR), MONDAY + round(last * HOUR))


def test_the_simulated_time_includes_its_start_and_excludes_its_end():
    _, tally = run_simulation(program(hourly={"schedule": otd.cron("0 * * * *")}))
    job = tally.jobs["hourly"]
    assert (job.runs, job.latest, job.retries, job.skipped) == (24, 0, 0, {})
    assert [tally.load[hour_of(MONDAY + hour * HOUR)] for hour in range(24)] == [1] * 24
    assert job.busy == 24 * SECOND


@pytest.mark.parametrize(
    ("catch_up", "caught_up", "missed"),
    [
        (otd.CatchUp("none"), 0, 18),
        (otd.CatchUp("last"), 1, 17),
        (otd.CatchUp("all", limit=5), 5, 13),
        (otd.CatchUp("all", limit=100, window="1d"), 18, 0),
    ],
    ids=lambda value: getattr(value, "mode", None),
)
def test_an_outage_is_caught_up_by_the_policy(catch_up, caught_up, missed):
    sched = program(job={"schedule": otd.cron("*/10 * * * *"), "catch_up": catch_up})
    _, tally = run_simulation(sched, outages=(out(10, 13 - 1 / 60),))  # 10:00 to 12:50, 18 slots; back at 12:59
    job = tally.jobs["job"]
    assert (job.caught_up, job.skipped["missed"]) == (caught_up, missed)
    assert job.runs == 144 - missed
    assert job.latest <= 18 * SECOND
    assert bool(job.latest_caught_up) == bool(caught_up)


def test_a_run_that_an_outage_interrupts_runs_again():
    sched = program(job={"schedule": otd.cron("55 9 * * *")})
    _, tally = run_simulation(sched, outages=(out(10, 12),), durations={"job": 10 * MINUTE})
    job = tally.jobs["job"]
    assert (job.runs, job.retries, job.lost) == (1, 1, 1)


@pytest.mark.parametrize(
    ("overlap", "runs", "waited", "skipped"),
    [("wait", 10, 9, 8), ("skip", 9, 0, 9), ("allow", 18, 0, 0)],
)
def test_a_job_that_takes_longer_than_its_interval_waits_or_skips(overlap, runs, waited, skipped):
    sched = program(job={"schedule": otd.every("10m"), "overlap": overlap})
    scenario, tally = run_simulation(sched, hours=3, durations={"job": 19 * MINUTE})
    job = tally.jobs["job"]
    assert (job.runs, job.waited["overlap"], job.skipped["overlap"]) == (runs, waited, skipped)
    kinds = [warning.kind for warning in warnings(scenario, tally)]
    assert kinds == ([] if overlap == "allow" else ["overlap"])


def test_a_job_that_takes_too_long_is_replaced():
    sched = program(job={"schedule": otd.every("10m"), "overlap": "replace"})
    _, tally = run_simulation(sched, hours=3, durations={"job": 15 * MINUTE})
    assert tally.jobs["job"].replaced == 17


def test_runs_wait_for_seats_and_the_peak_is_reported():
    sched = program(**{f"job{number}": {"schedule": otd.cron("0 * * * *")} for number in range(6)})
    scenario, tally = run_simulation(sched, hours=2, assumed=MINUTE, settings=otd.Settings(seats=4))
    assert (tally.peak, tally.peak_at) == (4, MONDAY)
    assert sum(job.waited["seat"] for job in tally.jobs.values()) == 4
    assert max(job.latest for job in tally.jobs.values()) == MINUTE
    found = {warning.kind: warning for warning in warnings(scenario, tally)}
    assert set(found) == {"herd", "seats"}
    assert "6 of 6 jobs start in one second, 2 times" in found["herd"].text
    assert "H for the minute" in found["herd"].advice
    assert "jitter" in found["herd"].advice


def test_spread_starts_give_no_warning():
    sched = program(**{f"job{number}": {"schedule": otd.cron("H * * * *")} for number in range(6)})
    scenario, tally = run_simulation(sched, hours=6)
    assert warnings(scenario, tally) == []


def test_jobs_run_after_others_and_idle_jobs_give_a_warning():
    sched = program(
        load={"schedule": otd.cron("0 3 * * *")},
        clean={"after": ["load"]},
        receipt={},
        leap={"schedule": otd.cron("0 0 29 2 *")},
    )
    scenario, tally = run_simulation(sched)
    assert {name: job.runs for name, job in tally.jobs.items()} == {"load": 1, "clean": 1, "receipt": 0, "leap": 0}
    [warning] = warnings(scenario, tally)
    assert (warning.kind, warning.jobs) == ("idle", ("leap",))


def test_an_attempt_that_exceeds_its_time_out_gives_a_warning():
    sched = program(job={"schedule": otd.cron("0 * * * *"), "timeout": "5m", "retry": otd.Retry(2, delay="1m")})
    scenario, tally = run_simulation(sched, hours=3, durations={"job": 6 * MINUTE})
    job = tally.jobs["job"]
    assert (job.runs, job.retries, job.timed_out) == (3, 3, 6)
    assert [warning.kind for warning in warnings(scenario, tally)] == ["timeout"]


def test_a_sleep_takes_its_own_time_and_every_queue_is_served():
    sched = otd.Scheduler("memory:")
    nap = otd.Sleep(duration=timedelta(minutes=3))
    sched.add(otd.Job(name="nap", task=nap, schedules=(otd.every("1h"),), queue="beds", labels=frozenset({"quiet"})))
    _, tally = run_simulation(sched, hours=2)
    assert (tally.jobs["nap"].runs, tally.jobs["nap"].busy) == (2, 6 * MINUTE)


def test_runs_wait_for_rates_and_limits():
    sched = program(
        rated={"schedule": otd.every("10s"), "rate": otd.Rate(2, "1m"), "overlap": "allow"},
        one={"schedule": otd.cron("0 * * * *"), "concurrency": otd.Limit(1, name="door")},
        two={"schedule": otd.cron("0 * * * *"), "concurrency": otd.Limit(1, name="door")},
    )
    _, tally = run_simulation(sched, hours=0.5, assumed=5 * SECOND)
    assert tally.jobs["rated"].waited["rate"] > 50
    assert tally.jobs["one"].waited["limit"] + tally.jobs["two"].waited["limit"] == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"durations": {"hourli": SECOND}}, "expected a job of this program, got 'hourli', did you mean 'hourly'"),
        ({"outages": (out(3, 2),)}, "expected its end after its start"),
        ({"outages": (out(1, 3), out(2, 4))}, "none of them over another"),
        ({"outages": (out(1, 30),)}, "within the simulated time; simulate more days"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_with_a_reason(options, problem):
    sched = program(hourly={"schedule": otd.cron("0 * * * *")})
    with pytest.raises(DefinitionError, match=problem):
        run_simulation(sched, **options)
