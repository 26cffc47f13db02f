"""Measures how long this machine delays a process that only wakes up. Longer delays are our own fault."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

PERIOD = 10_000  # microseconds


class Stalls:
    """A child process that sleeps and wakes repeatedly. `longest` is its worst delay, known after the `with` block."""

    def __init__(self) -> None:
        self.longest = 0.0

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self._noted = Path(self._folder.name, "noted")
        command = [sys.executable, "-m", "tests.hostile.bare_timer", str(self._noted), str(PERIOD)]
        self._process = subprocess.Popen(command)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        lines = self._noted.read_text().splitlines()[:-1] if self._noted.exists() else []
        instants = [(int(slot), int(woke)) for slot, woke in map(str.split, lines)]
        self.longest = max((woke - slot for slot, woke in instants), default=0) / 1_000_000
        self._folder.cleanup()
