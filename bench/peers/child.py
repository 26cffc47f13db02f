"""Starts the process of a node, sends it commands, and ends it. `bench.peers.node` is the other side."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bench.results import BenchFailed

ROOT = Path(__file__).parents[2]

_LONGEST_LINE = 1 << 26
_GRACE = 5.0  # seconds to end after its input has ended


class Lacking(Exception):
    """The system does not have what was asked for."""


class Child:
    """One process of a system."""

    def __init__(self, name: str, process: Process, errors: Path) -> None:
        self.name = name
        self._process = process
        self._errors = errors

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Send a command, and return its answer.

        Raises `Lacking` if the system does not have that, and `BenchFailed` if the command or the process failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, *arguments]).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"{self.name}: a process ended early: {self.errors()}")
        said = json.loads(line)
        if "error" not in said:
            return said["answer"]
        if said["error"].endswith("does not have it"):
            raise Lacking(said["error"])
        raise BenchFailed(f"{self.name}: {said['error']}")

    def errors(self) -> str:
        """Return the end of its standard error."""
        return self._errors.read_text(errors="replace").strip()[-800:]

    async def end(self) -> None:
        """End its input, and kill the process if it does not end then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_GRACE):
                await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()


@asynccontextmanager
async def child(name: str, command: Sequence[str], folder: Path) -> AsyncIterator[Child]:
    """Run the process of a node until the block ends. Its standard error goes to a file in the folder."""
    errors = folder / f"{name}.stderr"
    with errors.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=output, limit=_LONGEST_LINE,
            start_new_session=True,  # a Ctrl-C at the terminal is for the driver, which ends its children
        )  # fmt: skip
    one = Child(name, process, errors)
    try:
        yield one
    finally:
        with suppress(TimeoutError):  # it was killed then
            await one.end()
