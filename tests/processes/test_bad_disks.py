"""On a full or broken disk attempts continue and nothing acknowledged is lost; work continues after the repair."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onthedot.model.errors import StoreUnavailable
from onthedot.stores.sqlite import SqliteStore
from tests.crash.kit import gather_evidence
from tests.processes import disks, verdicts
from tests.processes.kit import SECOND, Cluster, Process, cluster, now
from tests.processes.node import DEEP, STEADY

LEASE = 2.0


def not_tested(capsys: pytest.CaptureFixture[str], what: str) -> None:
    with capsys.disabled():
        print(f"\nNOT TESTED: {what}: mounting a tmpfs is not permitted here")


def check_during_trouble(nodes: Cluster, node: Process, since: int, says: str) -> None:
    """Check that the node reports the trouble, refuses submits, and completes running attempts."""
    trouble = node.wait_for("StoreTrouble", since=since)
    assert says in trouble.about
    assert says in node.wait_for("refused", since=since).about  # a submit raises the error
    nodes.wait_for_entry(
        "end", lambda e: e["job"] == DEEP and e["at"] > trouble.at + LEASE * SECOND / 4, "attempts to continue"
    )
    services = {said.about.partition(":")[0] for said in node.of("StoreTrouble", since=since)}
    assert len(services) > 1  # each tries again by itself


async def check_after_repair(nodes: Cluster, node: Process, since: int) -> None:
    """Check that all slots run once, although late, and that the node was not declared dead."""
    nodes.wait_for_start(STEADY, since=since + SECOND)
    nodes.settle()
    evidence = await gather_evidence(nodes)
    verdicts.check_all(evidence, nodes.faults, lease=LEASE, lost=False)
    verdicts.each_slot_executed_once(evidence)
    verdicts.each_slot_executed_once(evidence, DEEP, cut_off=True)
    assert not node.of("NodeFenced")
    assert not node.of("RunRecovered")


@pytest.mark.slow
async def test_a_node_survives_a_full_disk(tmp_path, capsys):
    with disks.own_disk(tmp_path / "disk", megabytes=24) as disk:
        if disk is None:
            not_tested(capsys, "a full disk")
            return
        with cluster(tmp_path, database=disk / "otd.db") as nodes:
            node = nodes.boot("node", lease=LEASE)
            node.wait_for("ready")
            nodes.wait_for_start(STEADY, since=now() + SECOND)
            full = now()
            ballast = disks.fill(disk)
            check_during_trouble(nodes, node, full, "the disk is full")
            other = nodes.boot("other", lease=LEASE, stderr=subprocess.PIPE)
            assert other.popen.wait(30) == 1
            assert other.popen.stderr is not None
            assert "the disk is full" in other.popen.stderr.read()
            other.popen.stderr.close()
            ballast.unlink()
            await check_after_repair(nodes, node, now())


@asynccontextmanager
async def big_row(path: Path) -> AsyncIterator[SqliteStore]:
    """Open a store with one big row. `write_much` rewrites it, so that the log grows and the database does not."""
    store = await SqliteStore.open(path)
    try:
        await store.database.writer.run(lambda tx: tx.db.execute("CREATE TABLE big (value BLOB)"), writes=True)
        await store.database.writer.run(lambda tx: tx.db.execute("INSERT INTO big VALUES (NULL)"), writes=True)
        yield store
    finally:
        await store.close()


async def write_much(store: SqliteStore, megabytes: int) -> None:
    for _ in range(megabytes * 10):
        await store.database.writer.run(
            lambda tx: tx.db.execute("UPDATE big SET value = randomblob(100000)"), writes=True
        )


@pytest.mark.slow
async def test_the_log_does_not_fill_a_small_disk(tmp_path, capsys):
    with disks.own_disk(tmp_path / "disk", megabytes=24) as disk:
        if disk is None:
            not_tested(capsys, "a small disk")
            return
        async with big_row(disk / "otd.db") as store:
            await write_much(store, 60)


@pytest.mark.slow
async def test_the_log_does_not_fill_space_that_becomes_free(tmp_path, capsys):
    with disks.own_disk(tmp_path / "disk", megabytes=400) as disk:
        if disk is None:
            not_tested(capsys, "free space on a full disk")
            return
        async with big_row(disk / "otd.db") as store:
            await write_much(store, 2)
            ballast = disks.fill(disk)
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await write_much(store, 60)
            os.truncate(ballast, ballast.stat().st_size - (20 << 20))
            await write_much(store, 60)


@pytest.mark.slow
async def test_a_node_survives_a_disk_that_returns_errors(tmp_path):
    with cluster(tmp_path) as nodes:
        node = nodes.boot("node", lease=LEASE)
        node.wait_for("ready")
        nodes.wait_for_start(STEADY, since=now() + SECOND)
        broken = now()
        disks.forbid_growth(node.popen.pid, Path(f"{nodes.database}-wal"))
        check_during_trouble(nodes, node, broken, "the disk answered with an error")
        disks.allow_growth(node.popen.pid)
        await check_after_repair(nodes, node, now())
