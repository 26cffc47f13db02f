"""A node that gets SIGTERM stops in time, and each of its attempts completes, is released or is recovered."""

from __future__ import annotations

import pytest

from onthedot.model.run import RunState
from tests.crash.kit import gather_evidence
from tests.lanes import SOAK
from tests.processes import verdicts
from tests.processes.client import Client, client
from tests.processes.history import broken_rules
from tests.processes.kit import SECOND, Cluster, Process, cluster, now
from tests.processes.node import DEEP, NAP, NAP_ONCE, STEADY, settings

RESTARTS = 60 if SOAK else 4
LEASE = 4.0
LONG = 60.0
MORE = 5 * SECOND  # allowed beyond the grace (rule L5)


def ended_in_time(node: Process, asked: int, grace: int) -> float:
    """Wait for the end of a process, check that it came in time, and return how many seconds it took."""
    node.wait_stopped()
    took = now() - asked
    assert took < grace + MORE, f"{node.name} was gone {took} µs after it was asked"
    return took / SECOND


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_rolling_restarts_lose_and_duplicate_nothing(tmp_path, capsys):
    """One node after the other is replaced, including the leader. Runs of 1.5 s overlap every restart."""
    took = []
    with cluster(tmp_path) as nodes:
        old, other = nodes.boot_all("n0", "n1", lease=15)
        for number in range(RESTARTS):
            heir = nodes.boot(f"n{number + 2}", lease=15)
            heir.wait_for("ready")
            nodes.wait_for_entry("start", _deep_on(old), f"{old.name} to start a long run")
            asked = old.terminate()
            assert int(old.wait_for("DrainBegun").about) > 0, "expected running attempts at the stop"
            took.append(ended_in_time(old, asked, settings("", 15).grace))
            assert nodes.held_by(old) == [], "expected no runs of a node that has left"
            old, other = other, heir
        nodes.settle()
        evidence = await gather_evidence(nodes)
        assert await broken_rules(nodes) == []
    verdicts.check_all(evidence, nodes.faults, lease=15, lost=False)
    for job in (STEADY, DEEP):
        verdicts.each_slot_executed_once(evidence, job)
    outcomes = {attempt.outcome for attempts in evidence.attempts.values() for attempt in attempts}
    assert "lost" not in outcomes
    late = verdicts.lateness(evidence)
    with capsys.disabled():
        print(
            f"\n{RESTARTS} rolling restarts: stopped after {min(took):.1f} to {max(took):.1f} s; of {len(late)} slots ",
            end="",
        )
        print(f"the median was {verdicts.middle(late) * 1000:.1f} ms late, the longest {max(late) / 1000:.0f} ms")
    assert verdicts.middle(late) < 0.25


def _deep_on(node: Process):
    """Return a filter for long attempts that this node starts from now on."""
    at = now()
    return lambda entry: entry["job"] == DEEP and entry["node"] == node.name and entry["at"] > at


ENDS = ("the grace is over", "a second SIGTERM", "kill -9 during the drain")


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
async def test_attempts_that_a_stop_cuts_off_end_as_their_guarantee_says(end, tmp_path):
    """A node stops during attempts of a minute. at_least_once runs again elsewhere, at_most_once is lost."""
    with cluster(tmp_path) as nodes:
        program = "naps_in_a_hurry" if end == ENDS[0] else "naps"
        leaving = nodes.boot("leaving", program=program, lease=LEASE)
        leaving.wait_for("ready")
        async with client(nodes) as asking:
            again = [await asking.submit(NAP, seconds=LONG) for _ in range(3)]
            once = [await asking.submit(NAP_ONCE, seconds=LONG) for _ in range(3)]
            for run in again + once:
                asking.wait_started(run)
            nodes.boot("heir", program="naps", lease=LEASE).wait_for("ready")
            leave(nodes, leaving, end)
            asking.wait_ended(again + once)
            await judge(asking, again, once)
        nodes.living()[0].terminate()
        nodes.living()[0].wait_stopped()
        assert await broken_rules(nodes) == []
        doubled = [e for e in nodes.entries("end") if e["run"] in once]
        assert doubled == []


def leave(nodes: Cluster, leaving: Process, end: str) -> None:
    asked = leaving.terminate()
    assert leaving.wait_for("DrainBegun").about == "6"
    if end == ENDS[2]:
        leaving.kill()
        return
    if end == ENDS[1]:
        leaving.terminate()
    ended_in_time(leaving, asked, SECOND if end == ENDS[0] else 0)
    assert nodes.held_by(leaving) == []


async def judge(asking: Client, again: list[int], once: list[int]) -> None:
    for run in again:
        outcomes = [attempt.outcome for attempt in await asking.store.queries.list_attempts(run)]
        assert ((await asking.run(run)).state, outcomes) == (RunState.SUCCEEDED, ["lost", "succeeded"])
    for run in once:
        outcomes = [attempt.outcome for attempt in await asking.store.queries.list_attempts(run)]
        assert ((await asking.run(run)).state, outcomes) == (RunState.LOST, ["lost"])
