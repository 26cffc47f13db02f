"""Each seed has outages of all nodes and delayed edits, which do not change its other draws."""

from collections import Counter

import pytest

from onthedot.model.job import Every
from onthedot_verify.simulation import Scenario, simulate
from onthedot_verify.simulation.outages import CELLS
from tests.simulation.workloads import directed


def drawn(seed: int) -> Scenario:
    return Scenario(seed=str(seed)).filled()


def test_four_seeds_have_each_overlap_with_each_catch_up():
    names = {name for seed in range(1, 5) for name in getattr(drawn(seed).workload, "jobs", ())}
    assert {f"overdue{place:02}" for place in range(len(CELLS))} <= names


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_seed_has_outages_of_all_nodes_and_delayed_edits(seed):
    usual, without = drawn(seed), Scenario(seed=str(seed), outage_every=0.0).filled()
    added = Counter((fault.kind, round(fault.length) if fault.op == "" else fault.op) for fault in usual.faults or ())
    added -= Counter(
        (fault.kind, round(fault.length) if fault.op == "" else fault.op) for fault in without.faults or ()
    )
    assert {"put_job", "pause_job", "resume_job", "move_slot"} <= {what for kind, what in added if kind == "held"}
    outages = [kind for kind, _ in added.elements() if kind != "held"]
    assert len(outages) >= 3
    assert len(outages) % 3 == 0


@pytest.mark.parametrize("seed", range(1, 4))
def test_outages_do_not_change_other_draws(seed):
    usual, without = drawn(seed), Scenario(seed=str(seed), outage_every=0.0).filled()
    assert usual.faults is not None
    assert without.faults is not None
    assert usual.faults[: len(without.faults)] == without.faults
    assert usual.workload is not None
    assert without.workload is not None
    added = usual.workload.jobs.keys() - without.workload.jobs.keys()
    assert {name: job for name, job in usual.workload.jobs.items() if name not in added} == without.workload.jobs
    assert tuple(one for one in usual.workload.actions if one.job not in added) == without.workload.actions


def test_schedules_of_short_intervals_end_with_their_outage():
    """An hour of them would cost more than all other jobs."""
    for seed in range(1, 6):
        jobs = getattr(drawn(seed).workload, "jobs", {}).values()
        short = [one for job in jobs for one in job.schedules if isinstance(one, Every) and one.interval.seconds < 10]
        assert short
        for one in short:
            assert one.start is not None
            assert one.end is not None
            assert (one.end - one.start).seconds < 100


def test_a_delayed_edit_is_written_later():
    scenario = directed("outages-and-edits-that-wait")
    edits = [event for event in simulate(scenario).events if event["ev"] == "edit" and event["change"] == "changed"]
    seconds = [round(event["t_mono"] / 1_000_000) for event in edits]
    begun = scenario.workload.edits if scenario.workload else ()
    assert [(event["job"], event["rev"]) for event in edits] == [("edited0", 2), ("edited1", 2)]
    assert len(begun) == len(seconds)
