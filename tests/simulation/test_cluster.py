"""The simulated cluster keeps every promise, from every seed: three nodes, twenty jobs, a fault every 40 s.

A failure prints the command that replays it exactly. Add --shrink to get the faults that matter.
"""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from onthedot_verify.simulation import CALM, Fault, Scenario, simulate
from onthedot_verify.simulation.__main__ import replay_command
from onthedot_verify.simulation.faults import from_json, generate, to_json
from onthedot_verify.simulation.shrink import ddmin, shrink
from tests.lanes import SOAK, seeds
from tests.simulation.mutants import MUTANTS
from tests.simulation.workloads import directed

pytestmark = pytest.mark.slow

MISJUDGED = ("30007", "30111", "40075", "40209", "40252", "100266", "200274")
MINUTES = 60 if SOAK else 25  # for rarer faults


def holds(scenario: Scenario) -> None:
    outcome = simulate(scenario)
    shown = "\n  ".join(map(str, outcome.violations[:10]))
    assert not outcome.violations, f"replay: {replay_command(scenario)}\n  {shown}"


def test_the_cluster_keeps_its_promises_for_ten_minutes():
    holds(Scenario(seed="smoke", minutes=17, fault_every=20))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(test=3, soak=20, fresh=980))
def test_the_cluster_keeps_its_promises_for_an_hour(seed):
    holds(Scenario(seed=seed))


@pytest.mark.soak  # each of their findings has its own test
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", MISJUDGED)
def test_a_seed_that_once_failed_passes(seed):
    """Long runs found these. The checker or the recorder was wrong in a rare case; of 100266, the worker. There were no
    outages of all nodes then."""
    holds(Scenario(seed=seed, outage_every=0.0))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(test=1, soak=4, fresh=196))
def test_the_cluster_keeps_its_promises_under_layout_changes(seed):
    """Five nodes, and another number of shards every two or three minutes."""
    holds(Scenario(seed=f"shards {seed}", minutes=MINUTES, nodes=5, layout_every=150))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(test=1, soak=4, fresh=196))
def test_the_cluster_keeps_its_promises_under_set_clocks(seed):
    """The store's clock is also set forward and back by up to 20 s: leases end early, and no slot is planned twice."""
    holds(Scenario(seed=f"set {seed}", minutes=MINUTES, extra_faults=("step",)))


def test_jobs_are_on_time_while_nodes_divide_the_shards():
    """Without faults: five changes of the layout, and no slot is late, early or planned twice."""
    outcome = simulate(Scenario(seed="divided", minutes=12, nodes=4, weather=CALM, faults=(), layout_every=60))
    assert not outcome.violations
    last = [event for event in outcome.events if event["ev"] == "layout"][-1]
    elected = [event for event in outcome.events if event["ev"] == "elect" and event["seq"] > last["seq"]]
    assert {event["shard"] for event in elected} == set(range(last["shards"]))
    assert len({event["inc"] for event in elected}) > 1
    assert outcome.counts["layout"] >= 5


def test_runs_are_on_time_and_run_once_without_faults():
    outcome = simulate(Scenario(seed="calm", minutes=12, weather=CALM, faults=()))
    assert not outcome.violations
    running = {event["run"] for event in outcome.events if event["ev"] == "final" and event["state"] == "running"}
    begun, over = (
        Counter(event["run"] for event in outcome.events if event["ev"] == kind) for kind in ("start", "end")
    )
    assert sum(begun.values()) > 50
    assert set(begun - over) <= running, "each started attempt ended, except those at the end of the hour"
    assert not over - begun
    assert not outcome.counts["reap"] + outcome.counts["broken"]


def test_no_fault_strikes_while_the_cluster_recovers():
    """Seed 1600005: a blackout began just before, and struck its last node after it, the only one with a label."""
    scenario = Scenario(seed="late", minutes=8, weather=CALM)
    faults = tuple(Fault(scenario.faulty_seconds + late, "crash", 0, 200) for late in (-1, 0, 1.9))
    outcome = simulate(replace(scenario, faults=faults))
    assert [event["kind"] for event in outcome.events if event["ev"] == "nemesis"] == ["crash"]
    assert not outcome.violations


def test_clocks_that_are_minutes_off_change_nothing():
    """Nodes use the store's clock, which they know from its answers: no run is early or late."""
    faults = [Fault(10 + 100 * n, "skew", n % 3, 90, amount=(-300.0, 300.0, 1.0)[n % 3]) for n in range(6)]
    outcome = simulate(Scenario(seed="skew", minutes=17, weather=CALM, faults=tuple(faults)))
    assert not outcome.violations


# ── the same seed, the same history ──────────────────────────────────────────────────────────────────────────

DIGEST = "from onthedot_verify.simulation import *; print(simulate(Scenario(seed='5', minutes=12)).digest)"


def test_a_seed_gives_one_history_whatever_the_hash_seed():
    digests = set()
    for hash_seed in ("0", "5"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


def test_written_faults_replay_the_same_history():
    faults = generate("7", nodes=3, seconds=3_000, every=20)
    assert from_json(to_json(faults)) == faults
    scenario = Scenario(seed="7", minutes=9)
    drawn = scenario.filled().faults
    assert simulate(replace(scenario, faults=drawn)).digest == simulate(scenario).digest


# ── shrinking ────────────────────────────────────────────────────────────────────────────────────────────────


def test_ddmin_finds_the_two_items_that_fail_together():
    assert ddmin(list(range(100)), lambda kept: {13, 77} <= set(kept)) == [13, 77]
    assert ddmin([1, 2, 3], lambda kept: True) == []


def test_a_failure_is_shrunk_to_its_fault():
    mutant = MUTANTS["reap keeps the run running"]
    noise = [Fault(250 + n, "slow", n % 3, 2, 0.1) for n in range(3)]
    scenario = directed(mutant.faults)
    scenario = replace(scenario, faults=(*noise, *(scenario.faults or ())))
    first = simulate(scenario, store=mutant.store)
    assert first.violations
    small = shrink(first, lambda tried: simulate(tried, store=mutant.store))
    assert [fault.kind for fault in small.scenario.faults or ()] == ["freeze"]
