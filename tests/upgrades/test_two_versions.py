"""Nodes of an earlier version and of this one work on one store, as in a rolling upgrade, and miss or repeat no slot.

Old nodes run first. The first new node migrates the store while they work. Each version plans for workers of both. Some
nodes are killed, others are stopped cleanly. The journal of the jobs must show no missed slot, and no second execution
without a kill.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from onthedot.model.run import RunState
from onthedot.stores.connect import open_store
from tests.chaos import verdicts
from tests.chaos.cluster import ROOT, Cluster, Tree, cluster, unnamed
from tests.chaos.evidence import Evidence
from tests.chaos.node import CAREFUL
from tests.processes.kit import Process, now

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

OLD = "a3c840bb7f54295ee8717b931433bacd5a6d498b"
LEASE = 6.0  # seconds; long enough for a busy machine: a node that loses its lease starts its runs again
ORDERS = unnamed(lease=LEASE, ticks=10)
BUSY = 2.0  # seconds within which a worker must execute something new
PLANNER: dict[str, Any] = {"roles": ("planner",), "errands": 0}
WORKER: dict[str, Any] = {"roles": ("worker",)}


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The earlier version: its files from git, built as a wheel and installed separately. Nothing is downloaded."""
    root = tmp_path_factory.mktemp("old")
    archive = root / "old.tar"
    packed = subprocess.run(["git", "archive", "-o", archive, OLD], cwd=ROOT, capture_output=True, text=True)
    if packed.returncode:
        pytest.fail(
            f"expected commit {OLD} in the history of this clone, but git says: {packed.stderr.strip()}; "
            "clone with its whole history, or run: git fetch --unshallow",
            pytrace=False,
        )
    tree = Tree(root, root / "installed")
    run("tar", "-xf", archive, cwd=root)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=root)
    [wheel] = (root / "dist").glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, "--target", root / "installed", wheel, cwd=root)
    where = run(sys.executable, "-c", "import onthedot; print(onthedot.__file__)", cwd=root, tree=tree)
    assert Path(where.strip()).is_relative_to(root / "installed"), f"expected the earlier version, got {where}"
    return tree


def run(*command: str | Path, cwd: Path, tree: Tree | None = None) -> str:
    environment = None if tree is None else tree.environment()
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


async def test_old_and_new_nodes_share_a_store(store_url: str, old_tree: Tree, tmp_path: Path):
    with cluster(store_url, tmp_path, ORDERS) as nodes:
        old_planner = nodes.boot("old-planner", tree=old_tree, **PLANNER)
        workers = [nodes.boot(name, tree=old_tree, **WORKER) for name in ("old-1", "old-2")]
        nodes.go_on(1)
        new_planner = nodes.boot("new-planner", **PLANNER)  # it migrates the store while the old nodes work
        workers.append(nodes.boot("new-1", **WORKER))
        await hand_over(nodes, new_planner, old_planner)
        check_that_all_work(nodes, workers)
        await hand_over(nodes, old_planner, new_planner)
        check_that_all_work(nodes, workers)
        at = new_planner.kill()
        assert nodes.leader(since=at, but=new_planner) is old_planner
        check_that_all_work(nodes, workers)
        killed = workers.pop(1)
        nodes.wait_executing(killed)
        killed.kill()
        nodes.go_on(LEASE + BUSY)
        workers.append(nodes.boot("new-2"))
        for node in (workers.pop(0), old_planner):
            node.terminate()
            node.wait_stopped()
        check_that_all_work(nodes, workers)
        evidence = await nodes.evidence(nodes.settle())
    verdicts.check_all(evidence)
    no_slot_is_missed(evidence)
    only_a_kill_makes_a_run_start_again(evidence, killed.name)
    starts = Counter(start.node for start in evidence.notes.starts)
    assert set(starts) == {"old-1", "old-2", "new-1", "new-2"}


def check_that_all_work(nodes: Cluster, workers: list[Process]) -> None:
    """Wait until each of these has executed something that was planned after this call."""
    for worker in workers:
        nodes.go_on(BUSY, on=worker)


async def hand_over(nodes: Cluster, planner: Process, heir: Process) -> None:
    """Drain one planner until the other one leads. Does nothing if the other one leads already. Planners execute
    nothing."""
    if nodes.leader() is heir:
        return
    since = now()
    store = await open_store(nodes.url)
    try:
        await store.drain(planner.name)
        heir.wait_for("TermWon", since=since)
        await store.drain(planner.name, draining=False)
    finally:
        await store.close()


def no_slot_is_missed(evidence: Evidence) -> None:
    """Each slot and each submitted run succeeded. Only at_most_once runs may be lost with their node."""
    assert evidence.skips == []
    allowed = {RunState.SUCCEEDED, RunState.LOST}
    wrong = [
        (run.job, run.slot_at, run.state, run.reason)
        for run in evidence.runs.values()
        if run.slot_at <= evidence.until
        and run.state not in (allowed if run.job.startswith(CAREFUL) else {RunState.SUCCEEDED})
    ]
    assert wrong == [], f"{len(wrong)} did not succeed: {wrong[:9]}"


def only_a_kill_makes_a_run_start_again(evidence: Evidence, killed: str) -> None:
    """Each attempt has at most one start. Every attempt but the last was lost with the killed node."""
    starts = Counter(start.run for start in evidence.notes.starts)
    for run, attempts in evidence.attempts.items():
        assert starts[run] <= len(attempts), f"run {run}: {starts[run]} starts, but {len(attempts)} attempts"
        before = {(attempt.outcome, attempt.node) for attempt in attempts[:-1]}
        assert before <= {("lost", killed)}, f"run {run} had another attempt: {before}"
