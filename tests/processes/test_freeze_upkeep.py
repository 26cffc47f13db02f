"""If a node freezes while it reaps or expires runs, inside or outside the write, each run is still handled once."""

from __future__ import annotations

import json

import pytest

from onthedot.ids import RandomIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger
from tests.processes.client import Client, client
from tests.processes.history import broken_rules
from tests.processes.kit import SECOND, Cluster, Fault, Process, cluster, now, wait_until
from tests.processes.node import NAP, NAP_ONCE
from tests.processes.test_freeze import TRIES, freeze_at, is_locked

LEASE = 4.0
PATIENT = 60.0  # seconds: a node with this lease looks for orphans every 8 s, long after the node that freezes
LONG = 60.0
MISSED = 20


class Orphans:
    """Runs whose node was killed."""

    def __init__(self, again: list[int], once: list[int]) -> None:
        self.again = again
        self.once = once
        self.all = again + once

    def recovered_by(self, node: Process) -> set[int]:
        """Return the runs that this node reports as recovered."""
        return {int(said.about) for said in node.of("RunRecovered")} & set(self.all)

    async def judge(self, asking: Client) -> None:
        asking.wait_ended(self.all)
        for run in self.all:
            state = (await asking.run(run)).state
            outcomes = [attempt.outcome for attempt in await asking.store.queries.list_attempts(run)]
            if run in self.once:
                assert (state, outcomes) == (RunState.LOST, ["lost"])
            else:
                assert (state, outcomes) == (RunState.SUCCEEDED, ["lost", "succeeded"])


async def orphans(nodes: Cluster, asking: Client, name: str) -> Orphans:
    """Let a node start four runs, and kill it."""
    victim = next(node for node in nodes.living() if node.name == name)
    again = [await asking.submit(NAP, seconds=LONG) for _ in range(2)]
    once = [await asking.submit(NAP_ONCE, seconds=LONG) for _ in range(2)]
    for run in again + once:
        asking.wait_started(run)
    victim.kill()
    return Orphans(again, once)


@pytest.mark.slow
async def test_a_node_that_froze_before_reaping_takes_nothing(tmp_path):
    """When it wakes and writes its decision, its lease has ended and others have taken the orphans."""
    with cluster(tmp_path) as nodes:
        nodes.boot("victim0", program="naps", lease=LEASE).wait_for("ready")
        async with client(nodes) as asking:
            sleeper, left, fault = await freeze_before_reaping(nodes, asking)
            awake = nodes.boot("awake", program="naps", lease=LEASE)
            await left.judge(asking)

            def lease_is_over() -> bool:
                [[until]] = nodes.look("SELECT lease_until FROM nodes WHERE id = ?", sleeper.name)
                return bool(now() > until)

            wait_until(lease_is_over, "the sleeper's lease to end")
            at = sleeper.thaw(fault)
            sleeper.terminate()
            sleeper.wait_for("DrainBegun", since=at)
            sleeper.wait_stopped()
            wait_until(lambda: left.recovered_by(awake) == set(left.all), "the other node to report the recovered runs")
            assert left.recovered_by(sleeper) == set()
            await left.judge(asking)
        awake.terminate()
        awake.wait_stopped()
        assert await broken_rules(nodes) == []


async def freeze_before_reaping(nodes: Cluster, asking: Client) -> tuple[Process, Orphans, Fault]:
    """Start a node that finds orphans and freezes outside a write."""
    for number in range(TRIES):
        left = await orphans(nodes, asking, f"victim{number}")
        sleeper = nodes.boot(f"sleeper{number}", program="naps", lease=LEASE, stop_point="reap.before_write")
        fault = sleeper.wait_frozen()
        if not is_locked(nodes.database):
            return sleeper, left, fault
        sleeper.thaw(fault)
        sleeper.terminate()
        sleeper.wait_stopped()
        nodes.boot(f"victim{number + 1}", program="naps", lease=LEASE).wait_for("ready")
    raise AssertionError(f"the node held the lock in all {TRIES} freezes")


@pytest.mark.slow
async def test_a_freeze_while_reaping_only_delays_the_other_nodes(tmp_path):
    with cluster(tmp_path) as nodes:
        awake, sleeper, left, fault = await freeze_while_reaping(nodes)
        assert is_locked(nodes.database)
        awake.wait_for("StoreTrouble", since=fault.begin)
        lost = "SELECT count(*) FROM attempts WHERE outcome = 'lost' AND run_id IN (SELECT value FROM json_each(?))"
        assert nodes.look(lost, json.dumps(left.all)) == [(0,)]  # nothing is half done
        at = sleeper.thaw(fault)
        async with client(nodes) as asking:
            await left.judge(asking)
            wait_until(
                lambda: left.recovered_by(sleeper) | left.recovered_by(awake) == set(left.all),
                "all runs to be reported as recovered",
            )
            assert not left.recovered_by(sleeper) & left.recovered_by(awake)
        for node in nodes.living():
            node.terminate()
        for node in nodes.living():
            node.wait_stopped()
        assert not [said for said in awake.of("NodeFenced") if said.at > at]
        assert await broken_rules(nodes) == []


async def freeze_while_reaping(nodes: Cluster) -> tuple[Process, Process, Orphans, Fault]:
    """Start a node that freezes in the middle of a reap, and one that looks too rarely to reap first."""
    nodes.boot("victim0", program="naps", lease=LEASE).wait_for("ready")
    async with client(nodes) as asking:
        for number in range(TRIES):
            left = await orphans(nodes, asking, f"victim{number}")
            awake = nodes.boot(f"awake{number}", program="naps", lease=PATIENT)
            sleeper = nodes.boot(f"sleeper{number}", program="naps", lease=LEASE, stop_point="reap.in_transaction")
            awake.wait_for("ready")
            wait_until(lambda: stopped(sleeper) or left.recovered_by(awake), "a node to reap")  # noqa: B023
            if stopped(sleeper):
                return awake, sleeper, left, sleeper.wait_frozen()
            for node in (awake, sleeper):
                node.terminate()
                node.wait_stopped()
            nodes.boot(f"victim{number + 1}", program="naps", lease=LEASE).wait_for("ready")
    raise AssertionError(f"the other node reaped first in all {TRIES} tries")


def stopped(node: Process) -> bool:
    """Return whether the kernel reports the process as stopped."""
    with open(f"/proc/{node.popen.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


async def expiring(asking: Client) -> list[int]:
    """Submit expired runs of a job that no node can execute, and return their ids."""
    put = await asking.store.put_job(Job(name="nobody", task=Call(handler="nobody")))
    at = now() - SECOND
    new = [NewRun(put.record.id, submit_trigger(RandomIds().token()), at, None, "", at) for _ in range(MISSED)]
    return await asking.store.submit(new)


def reported_missed(node: Process) -> list[int]:
    return sorted(int(said.about) for said in node.of("RunMissed"))


@pytest.mark.slow
async def test_a_node_that_froze_before_expiring_runs_expires_none(tmp_path):
    with cluster(tmp_path) as nodes:
        frozen = freeze_at(nodes, "expire.before_write:4", program="naps")
        sleeper, fault = frozen.process, frozen.fault
        async with client(nodes) as asking:
            missed = await expiring(asking)
            awake = nodes.boot("awake", program="naps", lease=LEASE)
            asking.wait_ended(missed)
            sleeper.thaw(fault)
            sleeper.wait_for("ready")
            for node in (sleeper, awake):
                node.terminate()
                node.wait_stopped()
            await check_all_expired(asking, missed)
        assert (reported_missed(awake), reported_missed(sleeper)) == (sorted(missed), [])
        assert await broken_rules_without_starts(nodes) == []


@pytest.mark.slow
async def test_a_node_that_freezes_while_expiring_runs_expires_them_once(tmp_path):
    with cluster(tmp_path) as nodes:
        async with client(nodes) as asking:
            missed = await expiring(asking)
            sleeper = nodes.boot("sleeper", program="naps", lease=LEASE, stop_point="expire.in_transaction")
            fault = sleeper.wait_frozen()
            assert is_locked(nodes.database)
            with pytest.raises(StoreUnavailable, match="another process has been writing for too long"):
                await asking.store.expire(limit=100)
            assert nodes.look("SELECT count(*) FROM history") == [(0,)]
            sleeper.thaw(fault)
            asking.wait_ended(missed)
            assert await asking.store.expire(limit=100) == []
            sleeper.wait_for("ready")
            sleeper.terminate()
            sleeper.wait_stopped()
            await check_all_expired(asking, missed)
        assert reported_missed(sleeper) == sorted(missed)
        assert await broken_rules_without_starts(nodes) == []


async def check_all_expired(asking: Client, missed: list[int]) -> None:
    for run in missed:
        found = await asking.run(run)
        assert (found.state, found.reason, found.attempts) == (RunState.SKIPPED, "expired", 0)


async def broken_rules_without_starts(nodes: Cluster) -> list[object]:
    """Return every violation of a rule. No handler ran, so that the journal may not exist yet."""
    nodes.journal.touch()
    return list(await broken_rules(nodes))
