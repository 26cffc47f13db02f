"""A node that is frozen for longer than its lease is late afterwards, but never does harm.

SIGSTOP freezes all threads of a process at a named point. The tests check that the lock of the file is free; a node
that froze while it held the lock is thawed, and another node is frozen instead.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from onthedot.clock import MILLISECOND
from tests.crash.kit import gather_evidence
from tests.processes import verdicts
from tests.processes.kit import SECOND, Cluster, Fault, Process, cluster, now, wait_until

LEASE = 4.0  # seconds: long enough that a running node keeps its lease on a busy machine
TRIES = 6


@dataclass
class Frozen:
    """A frozen node, and the runs that it had when it froze."""

    nodes: Cluster
    process: Process
    fault: Fault
    incarnation: str
    running: set[int]

    def sleep_past_its_lease(self) -> None:
        """Wait until its lease has ended and other nodes have taken its runs."""

        def gone() -> bool:
            [[until]] = self.nodes.look("SELECT lease_until FROM nodes WHERE incarnation = ?", self.incarnation)
            return now() > until + 500 * MILLISECOND and not running(self.nodes, self.incarnation)

        wait_until(gone, f"others to take the runs of {self.process.name}")

    def judge(self) -> int:
        """Check that it works under a new incarnation after the freeze; return how many stale verdicts were refused."""
        at = self.fault.end
        if self.running:
            self.process.wait_for("NodeFenced", since=at)
        wait_for_work(self.nodes, self.process, at)
        wait_until(
            lambda: self.done() <= self.refused() | self.given_up(),
            f"the verdicts of {self.process.name} to be refused",
        )
        return len(self.refused())

    def done(self) -> set[int]:
        """Return the runs that it completed before it noticed the loss of its lease."""
        told = min((said.at for said in self.process.of("NodeFenced", since=self.fault.end)), default=0)
        ends = self.nodes.entries("end")
        here = {entry["run"] for entry in ends if entry["node"] == self.process.name and entry["at"] < told}
        return self.running & here

    def refused(self) -> set[int]:
        return {int(said.about) for said in self.process.of("LeaseLost", since=self.fault.end)}

    def given_up(self) -> set[int]:
        """Return the runs that it gave up when it noticed. Their functions may have returned a moment before."""
        return {int(said.about) for said in self.process.of("AttemptEnded", since=self.fault.end)}


def wait_for_work(nodes: Cluster, node: Process, since: int) -> None:
    """Wait until a node executes slots after an instant."""
    nodes.wait_for_entry("start", lambda e: e["node"] == node.name and e["slot"] > since, f"{node.name} to continue")


def running(nodes: Cluster, incarnation: str) -> set[int]:
    rows = nodes.look("SELECT id FROM runs WHERE incarnation = ? AND state = 'running'", incarnation)
    return {run for (run,) in rows}


def is_locked(database: Path) -> bool:
    """Return whether another process holds the write lock of the file for over a second."""
    db = sqlite3.connect(database, isolation_level=None, timeout=1)
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        db.close()
    return False


def freeze_at(nodes: Cluster, point: str, *, program: str = "busy") -> Frozen:
    """Start a node that stops itself at a named point outside a write.

    Each try stops at a later pass of the point. Otherwise the same write could hold the lock each time.
    """
    name, _, count = point.partition(":")
    for number in range(TRIES):
        stop_point = f"{name}:{int(count or 1) + number}"
        process = nodes.boot(f"{point}#{number}", program=program, lease=LEASE, stop_point=stop_point)
        fault = process.wait_frozen()
        if not is_locked(nodes.database):
            [[incarnation]] = nodes.look("SELECT incarnation FROM nodes WHERE id = ?", process.name)
            return Frozen(nodes, process, fault, incarnation, running(nodes, incarnation))
        process.thaw(fault)
        process.wait_for("ready")
        process.terminate()
        process.wait_stopped()
    raise AssertionError(f"{point}: the node held the lock in all {TRIES} freezes")


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [
        ("plan.before_write:2", "arm.before_write:4", "finish.before_write:9", "attempt.before_call:9"),
        (
            "plan.after_write",
            "arm.after_write:4",
            "attempt.after_call:9",
            "reserve.after_write:4",
            "beat.before_write:2",
        ),
    ],
    ids=["before", "after"],
)
async def test_nodes_that_froze_past_their_leases_do_no_harm(points, tmp_path):
    with cluster(tmp_path) as nodes:
        sleepers = [freeze_at(nodes, points[0])]  # the first one leads
        assert sleepers[0].process is nodes.leader()
        awake = nodes.boot("awake", lease=LEASE)
        sleepers += [freeze_at(nodes, point) for point in points[1:]]
        for sleeper in sleepers:
            sleeper.sleep_past_its_lease()
        awake.wait_for("TermWon")
        for sleeper in sleepers:
            sleeper.process.thaw(sleeper.fault)
        assert sum(sleeper.judge() for sleeper in sleepers), "expected at least one stale verdict"
        nodes.settle()
        evidence = await gather_evidence(nodes)
        verdicts.check_all(evidence, nodes.faults, lease=LEASE)
        assert not awake.of("NodeFenced")


@pytest.mark.slow
async def test_a_freeze_inside_a_write_only_delays_the_other_nodes(tmp_path):
    with cluster(tmp_path) as nodes:
        sleeper = nodes.boot("sleeper", lease=LEASE, stop_point="finish.in_transaction:30")
        awake = nodes.boot("awake", lease=LEASE)
        fault = sleeper.wait_frozen()
        assert is_locked(nodes.database)
        trouble = awake.wait_for("StoreTrouble", since=fault.begin)
        assert "another process has been writing for too long" in trouble.about
        assert trouble.at - fault.begin > 4 * SECOND  # after waiting for the lock
        assert nodes.look("SELECT count(*) FROM runs")  # readers are not blocked
        at = sleeper.thaw(fault)
        nodes.faults.append(Fault("*", "freeze", fault.begin, fault.end))  # no node could renew its lease
        wait_for_work(nodes, sleeper, at)
        wait_for_work(nodes, awake, at)
        nodes.settle()
        evidence = await gather_evidence(nodes)
        verdicts.check_all(evidence, nodes.faults, lease=LEASE, lost=False)
