"""A guard for tests: real programs as direct children of the worker, without a guard process between them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.model.task import Level
from onthedot.output.capture import Capture
from onthedot.runners.guard.protocol import Kind, OnOutput, Program, ProgramEnd
from onthedot.runners.program import services


class PlainGuard:
    """Starts each program in its own session, and kills that session at the end."""

    def __init__(self, levels: frozenset[Level] = frozenset({"none"})) -> None:
        self.levels = levels
        self.programs: list[Program] = []
        self.ends: list[ProgramEnd] = []
        self.closed = False
        self.instead: Callable[[Program], ProgramEnd | None] = lambda _: None

    async def run(self, program: Program, said: OnOutput | None = None) -> ProgramEnd:
        self.programs.append(program)
        end = self.instead(program) or await self._run(program, said or (lambda *_: None))
        self.ends.append(end)
        return end

    async def _run(self, program: Program, said: OnOutput) -> ProgramEnd:
        starting = asyncio.create_task(self._start(program))
        is_cancelled = False
        try:
            await asyncio.shield(starting)
        except OSError as error:
            return ProgramEnd("refused", error=f"{program.argv[0]}: {error.strerror}")
        except asyncio.CancelledError:  # the process may run already, and have printed something
            is_cancelled = True
        process = await starting
        reading = asyncio.create_task(self._read(process, program, said))
        kind: Kind = "exited"
        try:
            if is_cancelled:
                raise asyncio.CancelledError
            await asyncio.wait_for(process.wait(), program.timeout / SECOND if program.timeout else None)
        except TimeoutError:
            kind = "timed_out"
            await self._kill(process, program.grace)
        except asyncio.CancelledError:
            await self._kill(process, program.grace)
            raise
        finally:
            self._signal(process, signal.SIGKILL)
            await reading
        code = process.returncode or 0
        if kind == "exited" and code < 0:
            return ProgramEnd("signalled", signal=-code)
        return ProgramEnd(kind, code=code if kind == "exited" else None)

    async def _start(self, program: Program) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *program.argv, cwd=program.directory, env=dict(program.env), start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def _read(self, process: asyncio.subprocess.Process, program: Program, said: OnOutput) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(program.stdin)
        process.stdin.close()
        capture = Capture(Path(program.log), step=program.label, limit=1 << 20, secrets=(), clock=SystemClock().now)
        while data := await process.stdout.read(65536):
            said(SystemClock().now(), "out", capture.feed("out", data))
        for stream, text in capture.close():
            said(SystemClock().now(), stream, text)

    async def _kill(self, process: asyncio.subprocess.Process, grace: Micros) -> None:
        self._signal(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace / SECOND)
        except TimeoutError:
            self._signal(process, signal.SIGKILL)
            await process.wait()

    def _signal(self, process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return

    def renew(self, until: Micros) -> None:
        del until

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> PlainGuard:
    """Every scheduler of this test gets this guard."""
    made = PlainGuard()

    async def guard_of(settings: object) -> PlainGuard:
        del settings
        return made

    monkeypatch.setattr(services, "guard_of", guard_of)
    return made
