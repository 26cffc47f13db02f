"""Signals to a node whose store is unavailable: the exit code and the printed reason are right."""

from __future__ import annotations

import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.started import started, wake
from tests.processes.kit import wait_until

pytestmark = pytest.mark.slow

NAP = """
import asyncio
from pathlib import Path
import onthedot as otd

sched = otd.Scheduler("sqlite:///onthedot.db")

@sched.job(schedule=otd.gap("1h"))
async def nap() -> None:
    while not Path("wake").exists():
        await asyncio.sleep(0.02)
    Path("woken").touch()
"""

SLOW = """
import time
from pathlib import Path
import onthedot as otd

Path("loading").touch()
time.sleep(600)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "naps.py").write_text(NAP)
    return "naps.py"


@contextmanager
def locked(folder: Path) -> Iterator[sqlite3.Connection]:
    """Lock the store against other writers, until a rollback or the end of the block."""
    other = sqlite3.connect(folder / "onthedot.db", isolation_level=None, timeout=30)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


# ── after the start ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_stopped_before_the_signal_does_not_fail_the_drain(tmp_path: Path, program: str):
    with started(tmp_path, "up", program, "--no-api", "--lease", "4s") as node:
        node.until("started", "nap")
        with locked(tmp_path) as other:
            node.until("cut off", "1 attempt stopped")
            node.signal(signal.SIGTERM)
            node.until("draining", "nothing is running")
            other.execute("ROLLBACK")
            assert node.end() == 0
    assert node.has("left", "node")
    assert not node.has("Error")


def test_an_attempt_stopped_by_an_outage_during_the_drain_is_reported(tmp_path: Path, program: str):
    with started(tmp_path, "up", program, "--no-api", "--lease", "4s", "--grace", "2m") as node:
        node.until("started", "nap")
        node.signal(signal.SIGTERM)
        node.until("draining", "waiting for")
        with locked(tmp_path) as other:
            node.until("cut off", "1 attempt stopped")
            other.execute("ROLLBACK")
            assert node.end() == 1
    assert node.has("Error: the store was out of reach during the drain: 1 attempt (nap) was stopped")
    assert not node.has("--grace")


def test_an_outcome_that_could_not_be_stored_is_reported(tmp_path: Path, program: str):
    with started(tmp_path, "up", program, "--no-api", "--grace", "1s") as node:
        node.until("started", "nap")
        with locked(tmp_path):
            wake(tmp_path)
            wait_until((tmp_path / "woken").exists, "the handler to end")
            node.signal(signal.SIGTERM)
            assert node.end() == 1
    assert node.has("Error: the outcome of 1 attempt could not be stored before the node left")
    assert not node.has("--grace")


# ── before the start ─────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def silent_server() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.mark.parametrize("arguments", [("up",), ("server",), ("worker", "naps.py", "--processes", "2")])
def test_a_signal_while_the_store_does_not_answer_stops_cleanly(tmp_path: Path, program: str, arguments):
    with silent_server() as server:
        url = f"postgresql://user@127.0.0.1:{server.getsockname()[1]}/jobs"
        with started(tmp_path, *arguments, "--store", url) as node:
            connection, _ = server.accept()
            node.signal(signal.SIGTERM)
            assert node.end() == 0
            connection.close()
    assert node.has("stopped before the node had started")
    assert not node.has("Error")


def test_a_signal_while_the_program_is_loaded_stops_cleanly(tmp_path: Path):
    (tmp_path / "slow.py").write_text(SLOW)
    with started(tmp_path, "up", "slow.py") as node:
        wait_until((tmp_path / "loading").exists, "the program to be loaded")
        node.signal(signal.SIGTERM)
        assert node.end() == 0
    assert node.has("stopped before the node had started")


def test_a_failed_start_has_exit_code_1(tmp_path: Path):
    with silent_server() as server:
        url = f"postgresql://user@127.0.0.1:{server.getsockname()[1]}/jobs"
    with started(tmp_path, "up", "--no-api", "--store", url) as node:
        assert node.end() == 1
    assert node.has("Error: ", "expected a server that answers")
