"""The programs of a worker that is killed or frozen end in time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.guard.guarded_programs import is_alive, look_until

pytestmark = pytest.mark.slow

LEASE = 3.0  # seconds
LONG = 60.0  # seconds; long enough that the kill ends the programs, not the end of the lease


class Worker:
    """A process with a guard and a program."""

    def __init__(self, directory: Path, lease: float) -> None:
        command = [sys.executable, "-m", "tests.runners.guard.worker", str(directory), str(int(lease * 1000))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pids = [self._read(directory / name) for name in ("main", "away", "guard")]
        assert all(map(is_alive, self.pids))

    @staticmethod
    def _read(path: Path) -> int:
        look_until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    @property
    def programs(self) -> list[int]:
        return self.pids[:2]


@pytest.fixture
def lease() -> float:
    return LEASE


@pytest.fixture
def worker(tmp_path: Path, lease: float) -> Iterator[Worker]:
    one = Worker(tmp_path, lease)
    yield one
    one.process.kill()
    one.process.communicate()
    look_until(lambda: not any(map(is_alive, one.pids)))


@pytest.mark.parametrize("lease", [LONG])
def test_the_programs_and_the_guard_of_a_killed_worker_end_at_once(worker: Worker):
    worker.process.kill()
    killed = time.monotonic()
    look_until(lambda: not any(map(is_alive, worker.pids)))
    assert time.monotonic() - killed < LONG / 2  # the lease did not end them


def test_the_programs_of_a_frozen_worker_end_with_its_lease(worker: Worker):
    os.kill(worker.process.pid, signal.SIGSTOP)
    frozen = time.monotonic()
    look_until(lambda: not any(map(is_alive, worker.programs)))
    assert LEASE / 2 < time.monotonic() - frozen < LEASE + 10
    assert is_alive(worker.pids[2])
    os.kill(worker.process.pid, signal.SIGCONT)
    out, _ = worker.process.communicate(timeout=20)
    assert out == "its worker did not renew its lease in time\n"


def test_a_worker_kills_the_programs_of_its_killed_guard(worker: Worker):
    os.kill(worker.pids[2], signal.SIGKILL)
    out, _ = worker.process.communicate(timeout=20)
    assert "guard died" in out
    assert not any(map(is_alive, worker.programs))
