"""Runs real programs under a guard, for tests, and reads the output and processes of these programs."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onthedot.clock import MILLISECOND, Micros
from onthedot.model.task import LEVELS
from onthedot.output.records import decode
from onthedot.runners.guard import process_tree
from onthedot.runners.guard.client import GuardClient
from onthedot.runners.guard.protocol import Program, ProgramEnd

PATH = "/usr/bin:/bin"
PYTHON = "/usr/bin/python3"  # every user can reach this one
GRACE: Micros = 300 * MILLISECOND
OFFERS = frozenset(LEVELS)


class GuardedPrograms:
    """A guard, a workspace that any user can reach, and the output of the programs that ran there."""

    def __init__(self, *, cgroups: tuple[str, ...] = ()) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="onthedot-guarded-"))
        self.root.chmod(0o711)
        self.work = self.workspace("work")
        self.guard = GuardClient(offers=OFFERS, cgroups=cgroups)

    def workspace(self, name: str) -> Path:
        place = self.root / name
        place.mkdir()
        return place

    @property
    def log(self) -> Path:
        return self.root / "log"

    def program(self, *argv: str, **more: Any) -> Program:
        work = str(self.work)
        given: dict[str, Any] = {"env": {"PATH": PATH}, "directory": work, "workspace": work, "grace": GRACE}
        return Program(argv=argv, **given | {"log": str(self.log)} | more)

    async def run(self, *argv: str, **more: Any) -> ProgramEnd:
        return await self.guard.run(self.program(*argv, **more))

    async def python(self, source: str, **more: Any) -> ProgramEnd:
        return await self.run(PYTHON, "-c", source, **more)

    def output(self) -> str:
        if not self.log.exists():
            return ""
        return "".join(record.text for record in decode(self.log.read_bytes().splitlines(keepends=True)))

    def pid_in(self, name: str) -> int:
        """Returns the process id that a program wrote into this file."""
        path = self.work / name
        look_until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())

    async def close(self) -> None:
        await self.guard.close()
        shutil.rmtree(self.root)


def is_alive(pid: int) -> bool:
    process = process_tree.read_process(pid)
    return process is not None and not process.is_zombie


def rss(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory. `VmHWM` is the largest value so far."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def look_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Poll: there is no event when another process writes a file or dies."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, "the condition was not met in time"
        time.sleep(0.005)
