"""Two or three real nodes share one file: one leads, every slot runs once, and others replace a lost node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.crash.kit import Evidence, gather_evidence
from tests.processes import verdicts
from tests.processes.kit import SECOND, Cluster, Process, cluster, now, wait_until
from tests.processes.node import DEEP, STEADY, settings
from tests.processes.stalls import Stalls

LEASE = 2.0
LAPSE = 0.5  # seconds after the due instant at which the reservation of a dead node lapses
ON_TIME = 0.25  # seconds of median lateness on a shared machine; with a poll it would be half a second


def work_on(nodes: Cluster, seconds: float) -> None:
    """Let the cluster work until a slot that lies this far ahead has been executed."""
    nodes.wait_for_start(STEADY, since=now() + round(seconds * SECOND))


def started_by(node: Process) -> Callable[[dict[str, Any]], bool]:
    return lambda entry: bool(entry["node"] == node.name)


def others(nodes: Cluster, gone: Process) -> list[Process]:
    return [node for node in nodes.nodes if node is not gone]


@pytest.mark.slow
async def test_three_nodes_share_the_work_and_run_every_slot_once(tmp_path):
    with cluster(tmp_path) as nodes:
        for node in nodes.boot_all("a", "b", "c", lease=10):
            nodes.wait_for_entry("start", started_by(node), f"{node.name} to get a run")
        work_on(nodes, 3)
        nodes.settle()
        evidence = await gather_evidence(nodes)
        verdicts.check_all(evidence, nodes.faults, lease=10, lost=False)
        verdicts.each_slot_executed_once(evidence)
        verdicts.each_slot_executed_once(evidence, DEEP)
        assert verdicts.middle(verdicts.lateness(evidence)) < ON_TIME
        assert {start["node"] for starts in evidence.starts.values() for start in starts} == {"a", "b", "c"}
        won = [(int(said.about), said.at) for node in nodes.nodes for said in node.of("TermWon")]
        assert sorted(won, key=lambda term: term[1]) == sorted(won)
        assert [node.of("NodeFenced") for node in nodes.nodes] == [[], [], []]
        assert len([said for node in nodes.nodes for said in node.of("RunRecovered")]) == 0


@pytest.mark.slow
async def test_a_leader_that_stops_hands_over_at_once(tmp_path):
    """Its leases are as long as in production, so that a wait for one of them would show as seconds of lateness."""
    with cluster(tmp_path) as nodes:
        nodes.boot_all("a", "b", lease=15)
        work_on(nodes, 1)
        leader = nodes.leader()
        [heir] = others(nodes, leader)
        with Stalls() as stalls:
            asked = leader.terminate()
            won = heir.wait_for("TermWon", since=asked)
            ended = leader.wait_for("TermEnded")
            leader.wait_stopped()
            work_on(nodes, 1)
        assert (won.at - ended.at) / SECOND < 1.0 + stalls.longest  # a renewal is due every 3 s, a term lasts 10
        nodes.settle()
        evidence = await gather_evidence(nodes)
        verdicts.check_all(evidence, nodes.faults, lease=15, lost=False)
        verdicts.each_slot_executed_once(evidence)
        verdicts.each_slot_executed_once(evidence, DEEP)
        late = verdicts.lateness(evidence, since=asked, until=asked + 2 * SECOND)
        assert verdicts.middle(late) < ON_TIME
        assert max(late) / SECOND < LAPSE + stalls.longest  # it released its reservations


@pytest.mark.slow
async def test_other_nodes_take_over_from_killed_ones(tmp_path):
    """The leader is killed, then a worker. The third node does their work."""
    with cluster(tmp_path) as nodes:
        nodes.boot_all("a", "b", "c", lease=LEASE)
        work_on(nodes, 1)
        killed = [Killed(nodes, nodes.leader())]
        heir = nodes.leader(since=killed[0].at)
        [worker] = [node for node in nodes.living() if node is not heir]
        term = settings("", LEASE)
        assert heir.of("TermWon")[-1].at - killed[0].at < term.term_ttl + term.renew_every + 5 * SECOND
        work_on(nodes, 1)
        killed.append(Killed(nodes, worker))
        work_on(nodes, LEASE + 1)
        nodes.settle()
        evidence = await gather_evidence(nodes)
    verdicts.check_all(evidence, nodes.faults, lease=LEASE)
    for case in killed:
        case.judge(evidence)
    assert sum(len(case.reserved) for case in killed) > 3, "expected more than three reservations"


class Killed:
    """A node that the test kills, with the runs that it had reserved or was running at that moment."""

    def __init__(self, nodes: Cluster, node: Process) -> None:
        self.node = node.name
        wait_until(
            lambda: [state for _, state in nodes.held_by(node)].count("reserved") > 3, f"{node.name} to reserve runs"
        )
        self.at = node.kill()
        [[incarnation, self.lease_until]] = nodes.look(
            "SELECT incarnation, lease_until FROM nodes WHERE id = ?", node.name
        )
        held = nodes.look("SELECT id, state, due_at FROM runs WHERE incarnation = ?", incarnation)
        self.reserved = {run: due_at for run, state, due_at in held if state == "reserved"}
        self.running = [run for run, state, _ in held if state == "running"]

    def judge(self, evidence: Evidence) -> None:
        first = {run: min(s["at"] for s in starts) for run, starts in evidence.starts.items() if starts}
        steady = {run: due for run, due in self.reserved.items() if evidence.runs[run].job in (STEADY, DEEP)}
        late = [first[run] - due_at for run, due_at in steady.items()]
        if late:
            assert min(late) / SECOND >= LAPSE
            assert verdicts.middle(late) < LAPSE + 2 * ON_TIME, (
                "expected runs reserved by a dead node to be about half a second late"
            )
        own = [
            start["at"] - start["slot"]
            for run, starts in evidence.starts.items()
            for start in starts
            if run not in self.reserved and run not in self.running and start["job"] == STEADY
            if self.at < start["slot"] < self.at + 2 * SECOND
        ]
        assert verdicts.middle(own) < ON_TIME, "expected starts on other nodes to be on time"
        for run in self.running:
            if evidence.runs[run].job != DEEP:
                continue
            starts = sorted(s["at"] for s in evidence.starts[run] if s["at"] > self.at)
            assert starts, f"run {run} was not recovered"
            assert 0 <= starts[0] - self.lease_until < settings("", LEASE).reap_every + 5 * SECOND
