"""Two guards share what comes at once, and both do what one does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.clock import SECOND, SystemClock
from onthedot.runners.guard.client import AT_ONCE, Guards
from onthedot.runners.program.protocol import Program, ProgramEnd
from tests.runners.guard.yard import look_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
async def guards() -> AsyncIterator[Guards]:
    made = Guards(offers=frozenset(["none"]))
    yield made
    await made.close()
    assert made.pids == []


def program(folder: Path, *argv: str, log: str = "log") -> Program:
    env = {"PATH": os.environ["PATH"]}
    return Program(argv, env, str(folder), str(folder), str(folder / log))


async def test_what_comes_one_after_the_other_has_one_guard(guards, tmp_path):
    for _ in range(2 * AT_ONCE):
        assert (await guards.run(program(tmp_path, "true"))).code == 0
    assert len(guards.pids) == 1


async def test_what_comes_at_once_is_shared(guards, tmp_path):
    parents = [program(tmp_path, "sh", "-c", "echo $PPID", log=f"log{number}") for number in range(40)]
    ends = await asyncio.gather(*map(guards.run, parents))
    assert [end.code for end in ends] == [0] * 40
    pids = set(guards.pids)
    assert len(pids) == 2
    said = await asyncio.to_thread(lambda: [Path(each.log).read_text() for each in parents])
    assert all(any(f'"{pid}\\n"' in text for pid in pids) for text in said)
    assert all(any(f'"{pid}\\n"' in text for text in said) for pid in pids)


async def both_busy(guards: Guards, folder: Path) -> list[asyncio.Task[ProgramEnd]]:
    running = [asyncio.create_task(guards.run(program(folder, "sleep", "300"))) for _ in range(2 * AT_ONCE)]
    await asyncio.sleep(0)  # all of them have asked
    await asyncio.to_thread(look_until, lambda: len(guards.pids) == 2 and not any(g.starting for g in guards._guards))
    return running


async def test_a_lease_that_ends_ends_the_programs_of_both(guards, tmp_path):
    running = await both_busy(guards, tmp_path)
    guards.renew(SystemClock().steady() + SECOND // 5)
    assert {end.kind for end in await asyncio.gather(*running)} == {"stopped"}


async def test_the_death_of_one_stops_only_its_own(guards, tmp_path):
    running = await both_busy(guards, tmp_path)
    os.kill(guards.pids[0], signal.SIGKILL)
    ended, alive = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    assert {task.result().kind for task in ended} == {"stopped"}
    assert alive
    assert (await guards.run(program(tmp_path, "true"))).code == 0
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_both_end_with_their_worker(tmp_path):
    guards = Guards(offers=frozenset(["none"]))
    running = await both_busy(guards, tmp_path)
    await guards.close()
    assert {end.kind for end in await asyncio.gather(*running)} == {"stopped"}
    assert guards.pids == []
    assert (await guards.run(program(tmp_path, "true"))).kind == "refused"
