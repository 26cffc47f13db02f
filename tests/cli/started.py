"""Runs a command as a process of its own. Tests read its output and send it signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import os
import onthedot as otd

sched = otd.Scheduler("sqlite:///shop.db")

@sched.job(schedule=otd.every("500ms"), overlap="allow")
async def tick() -> None: ...

@sched.job(schedule=otd.every("1s"), isolation="process")
def child() -> int:
    return os.getppid()

@sched.job(queue="mail", labels=["gpu"])
async def mail() -> None: ...
"""

NAPPING = """
import asyncio
from pathlib import Path
import onthedot as otd

sched = otd.Scheduler("sqlite:///onthedot.db")

@sched.job(schedule=otd.every("15s"))
async def nap() -> None:
    while not Path("wake").exists():
        await asyncio.sleep(0.02)

@sched.job
async def heartbeat() -> None: ...
"""
"""`nap` runs until the test calls `wake`, on any machine."""


def napping(folder: Path) -> str:
    """Write that program into the folder, and return its name."""
    (folder / "naps.py").write_text(NAPPING)
    return "naps.py"


def wake(folder: Path) -> None:
    (folder / "wake").touch()


class Started:
    """A running `onthedot …`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.seen: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onthedot", *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TZ": "UTC"},
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, *words: str) -> str:
        """Read to the first line that contains all these words, and return it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen.append(line.rstrip("\n"))
            if all(word in line for word in words):
                return self.seen[-1]
        raise AssertionError(f"the process ended without a line with {words}; its output:\n" + "\n".join(self.seen))

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end of the output, and return the exit code."""
        assert self._process.stdout is not None
        self.seen += [line.rstrip("\n") for line in self._process.stdout]
        return self._process.wait()

    def has(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.seen)

    def stop_reading(self) -> None:
        """Close our end of its output."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.stop_reading()


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[Started]:
    process = Started(folder, *arguments)
    try:
        yield process
    finally:
        process.kill()
