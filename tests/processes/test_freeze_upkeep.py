"""SIGSTOP inside the reaper and inside expiry, outside and inside their writes: what they wanted to do is done once."""

from __future__ import annotations

import json

import pytest

from onthedot.ids import RandomIds
from onthedot.model.errors import StoreUnavailable
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, RunState, submit_trigger
from tests.processes.client import Client, client
from tests.processes.history import judged
from tests.processes.kit import SECOND, Cluster, Fault, Process, cluster, now, wait_until
from tests.processes.node import NAP, NAP_ONCE
from tests.processes.test_freeze import TRIES, freeze_at, is_locked

LEASE = 4.0
PATIENT = 60.0  # seconds: the lease of a node that looks for orphans every 8 s, long after the one that is to freeze
LONG = 60.0
MISSED = 20


class Orphans:
    """Runs whose node was killed."""

    def __init__(self, again: list[int], once: list[int]) -> None:
        self.again = again
        self.once = once
        self.all = again + once

    def told_by(self, node: Process) -> set[int]:
        """Those that this node says it has recovered."""
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
    """Let a node begin four runs, and kill it."""
    victim = next(node for node in nodes.living() if node.name == name)
    again = [await asking.submit(NAP, seconds=LONG) for _ in range(2)]
    once = [await asking.submit(NAP_ONCE, seconds=LONG) for _ in range(2)]
    for run in again + once:
        asking.wait_started(run)
    victim.kill()
    return Orphans(again, once)


@pytest.mark.slow
async def test_who_sleeps_before_it_reaps_takes_nothing(tmp_path):
    """Others have taken the orphans, and its own lease is over, when it wakes and writes what it had decided."""
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
            wait_until(lambda: left.told_by(awake) == set(left.all), "awake to say what it has recovered")
            assert left.told_by(sleeper) == set()
            await left.judge(asking)
        awake.terminate()
        awake.wait_stopped()
        assert await judged(nodes) == []


async def freeze_before_reaping(nodes: Cluster, asking: Client) -> tuple[Process, Orphans, Fault]:
    """A node that has found orphans and stopped, with nothing of it inside a write."""
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
    raise AssertionError(f"frozen with the lock in its hand {TRIES} times")


@pytest.mark.slow
async def test_who_sleeps_while_it_reaps_makes_the_others_late_and_never_wrong(tmp_path):
    with cluster(tmp_path) as nodes:
        awake, sleeper, left, fault = await freeze_while_reaping(nodes)
        assert is_locked(nodes.database)
        awake.wait_for("StoreTrouble", since=fault.begin)
        lost = "SELECT count(*) FROM attempts WHERE outcome = 'lost' AND run_id IN (SELECT value FROM json_each(?))"
        assert nodes.look(lost, json.dumps(left.all)) == [(0,)]  # nothing is half done
        at = sleeper.thaw(fault)
        async with client(nodes) as asking:
            await left.judge(asking)
            wait_until(lambda: left.told_by(sleeper) | left.told_by(awake) == set(left.all), "all to be told")
            assert not left.told_by(sleeper) & left.told_by(awake)
        for node in nodes.living():
            node.terminate()
        for node in nodes.living():
            node.wait_stopped()
        assert not [said for said in awake.of("NodeFenced") if said.at > at]
        assert await judged(nodes) == []


async def freeze_while_reaping(nodes: Cluster) -> tuple[Process, Process, Orphans, Fault]:
    """A node that has stopped in the middle of a reap, and one that looks too seldom to have been first."""
    nodes.boot("victim0", program="naps", lease=LEASE).wait_for("ready")
    async with client(nodes) as asking:
        for number in range(TRIES):
            left = await orphans(nodes, asking, f"victim{number}")
            awake = nodes.boot(f"awake{number}", program="naps", lease=PATIENT)
            sleeper = nodes.boot(f"sleeper{number}", program="naps", lease=LEASE, stop_point="reap.in_transaction")
            awake.wait_for("ready")
            wait_until(lambda: stopped(sleeper) or left.told_by(awake), "somebody to reap")  # noqa: B023
            if stopped(sleeper):
                return awake, sleeper, left, sleeper.wait_frozen()
            for node in (awake, sleeper):
                node.terminate()
                node.wait_stopped()
            nodes.boot(f"victim{number + 1}", program="naps", lease=LEASE).wait_for("ready")
    raise AssertionError(f"another one was faster {TRIES} times")


def stopped(node: Process) -> bool:
    """Whether a process is stopped, by what the system says."""
    with open(f"/proc/{node.popen.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


async def expiring(asking: Client) -> list[int]:
    """Runs that have expired, of a job that no node can do."""
    put = await asking.store.put_job(Job(name="nobody", task=Call(handler="nobody")))
    at = now() - SECOND
    new = [NewRun(put.record.id, submit_trigger(RandomIds().token()), at, None, "", at) for _ in range(MISSED)]
    return await asking.store.submit(new)


def told(node: Process) -> list[int]:
    return sorted(int(said.about) for said in node.of("RunMissed"))


@pytest.mark.slow
async def test_who_sleeps_before_it_expires_runs_finds_them_gone(tmp_path):
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
            await all_expired(asking, missed)
        assert (told(awake), told(sleeper)) == (sorted(missed), [])
        assert await judged_but_for_starts(nodes) == []


@pytest.mark.slow
async def test_who_sleeps_while_it_expires_runs_does_so_once(tmp_path):
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
            await all_expired(asking, missed)
        assert told(sleeper) == sorted(missed)
        assert await judged_but_for_starts(nodes) == []


async def all_expired(asking: Client, missed: list[int]) -> None:
    for run in missed:
        found = await asking.run(run)
        assert (found.state, found.reason, found.attempts) == (RunState.SKIPPED, "expired", 0)


async def judged_but_for_starts(nodes: Cluster) -> list[object]:
    """Nothing was started here: the jobs' journal may not even be there."""
    nodes.journal.touch()
    return list(await judged(nodes))
