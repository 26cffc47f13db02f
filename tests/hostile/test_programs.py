"""Hostile programs under a guard: each ends, nothing of it is left, and guard and neighbours do not suffer.

Every program is bounded in number, time and memory, because other programs share the machine. A program forks without
end only where a limit on processes is known to be in force.
"""

import asyncio
import time
from typing import Any

import pytest

from onthedot.clock import MILLISECOND, SECOND
from onthedot.model.task import Bounds
from onthedot.runners.guard import process_tree
from onthedot.runners.guard.protocol import ProgramEnd
from tests.hostile.corpus import (
    CLOSES_ITS_OUTPUT,
    DOUBLE_FORK,
    FORKS_WITHOUT_END,
    IGNORES_TERM,
    MANY_FILES,
    TAKES_MEMORY,
)
from tests.runners.guard.guarded_programs import PYTHON, GuardedPrograms, is_alive, look_until, rss

MAX_MEMORY_GROWTH = 20 << 20
NEIGHBOUR_WITHIN = 10.0  # seconds; the machine is shared, and `make bench` measures lateness
GONE_WITHIN = 10.0

HEADLESS = """
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=time.sleep, args=(300,)).start()
    with open("away", "w") as file:
        file.write(f"{os.getpid()}\\n")
    ctypes.CDLL(None).syscall(60, 0)  # exit: of the first thread, and of no other
while not os.path.exists("away") or not open("away").read().endswith("\\n"):
    time.sleep(0.01)
time.sleep(0.1)
"""


async def run_beside_neighbour(guarded: GuardedPrograms, *argv: str, **more: Any) -> ProgramEnd:
    """Run a hostile program and a harmless one beside it. Checks that the guard stays small and that nothing is
    left."""
    assert (await guarded.run("true")).code == 0
    guard = guarded.guard.pid
    assert guard is not None
    before = rss(guard)
    run = asyncio.ensure_future(guarded.run(*argv, **more))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    beside = await guarded.guard.run(guarded.program("true", log=str(guarded.root / "beside")))
    took = time.monotonic() - began
    assert beside.code == 0
    assert took < NEIGHBOUR_WITHIN
    end = await run
    assert rss(guard, "VmHWM") - before < MAX_MEMORY_GROWTH
    assert processes_below(guard) == []
    return end


def processes_below(guard: int) -> list[process_tree.Process]:
    """Returns the processes below the guard. After a program has ended there must be none."""
    return [
        process
        for process in process_tree.with_descendants([guard], process_tree.all_processes())
        if process.pid != guard
    ]


@pytest.mark.usefixtures("root")
async def test_a_fork_bomb_with_its_own_user_hits_its_process_limit(guarded: GuardedPrograms):
    bounds = Bounds(processes=40)
    bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
    end = await run_beside_neighbour(guarded, *bomb, level="user", bounds=bounds, timeout=1500 * MILLISECOND)
    assert end.kind == "timed_out"
    [line] = [line for line in (guarded.work / "bound").read_text().splitlines() if line.startswith("Max processes")]
    assert line.split()[2:4] == ["40", "40"]


@pytest.mark.slow
async def test_a_fork_bomb_in_a_cgroup_hits_its_process_limit(pids_group: str):
    guarded = GuardedPrograms(cgroups=(pids_group,))
    try:
        bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
        end = await run_beside_neighbour(guarded, *bomb, bounds=Bounds(processes=40), timeout=1500 * MILLISECOND)
        assert end.kind == "timed_out"
    finally:
        await guarded.close()


@pytest.mark.usefixtures("root", "sandbox")
async def test_a_fork_bomb_in_a_sandbox_hits_its_process_limit(guarded: GuardedPrograms):
    bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
    end = await run_beside_neighbour(
        guarded, *bomb, level="sandbox", bounds=Bounds(processes=40), timeout=1500 * MILLISECOND
    )
    assert end.kind == "timed_out"


async def test_a_program_over_its_memory_limit_ends_as_out_of_memory(guarded: GuardedPrograms):
    """The memory that the worker had when it started the guard does not count."""
    assert len(bytearray(300 << 20)) > 0
    end = await run_beside_neighbour(
        guarded, PYTHON, "-c", TAKES_MEMORY, bounds=Bounds(memory=128 << 20), timeout=30 * SECOND
    )
    assert end.kind == "out_of_memory"
    assert end.memory < 160 << 20


async def test_a_program_with_endless_output_times_out(guarded: GuardedPrograms):
    end = await run_beside_neighbour(guarded, "yes", bounds=Bounds(output=64 << 10), timeout=SECOND)
    assert end.kind == "timed_out"


async def test_a_program_may_print_64_mib_without_a_newline(guarded: GuardedPrograms):
    line = "head -c 64M /dev/zero | tr '\\0' x"
    end = await run_beside_neighbour(guarded, "sh", "-c", line, bounds=Bounds(output=64 << 10), timeout=50 * SECOND)
    assert end.code == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_program_may_print_a_gigabyte_without_a_newline(guarded: GuardedPrograms):
    line = "head -c 1G /dev/zero | tr '\\0' x"
    end = await run_beside_neighbour(guarded, "sh", "-c", line, bounds=Bounds(output=64 << 10), timeout=200 * SECOND)
    assert end.code == 0


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(guarded: GuardedPrograms, level: str):
    began = time.monotonic()
    end = await run_beside_neighbour(guarded, "sh", "-c", IGNORES_TERM, level=level, timeout=300 * MILLISECOND)
    assert end.kind == "timed_out"
    assert time.monotonic() - began < 0.3 + 0.3 + GONE_WITHIN + NEIGHBOUR_WITHIN


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_a_process_that_forks_away_is_found_and_killed(guarded: GuardedPrograms, level: str):
    source = DOUBLE_FORK.replace("{then}", "0.3")
    end = await run_beside_neighbour(guarded, PYTHON, "-c", source, level=level)
    assert (end.kind, end.code) == ("exited", 0)
    if level == "user":  # at other levels the guard may find it earlier, when the neighbour ends
        assert end.stragglers == 1
    if level != "sandbox":  # a sandbox has its own process ids
        assert not is_alive(guarded.pid_in("away"))


async def test_a_process_that_forks_away_is_counted_as_a_straggler(guarded: GuardedPrograms):
    end = await guarded.python(DOUBLE_FORK.replace("{then}", "0.1"))
    assert (end.kind, end.code, end.stragglers) == ("exited", 0, 1)
    assert not is_alive(guarded.pid_in("away"))


async def test_a_process_that_looks_like_a_zombie_is_found_and_killed(guarded: GuardedPrograms):
    end = await guarded.python(HEADLESS)
    assert (end.kind, end.code, end.stragglers) == ("exited", 0, 1)
    look_until(lambda: process_tree.read_process(guarded.pid_in("away")) is None, GONE_WITHIN)


async def test_a_hidden_process_is_killed_while_other_programs_continue(guarded: GuardedPrograms):
    beside = asyncio.ensure_future(
        guarded.run("sh", "-c", "sleep 2 & setsid sleep 2 & wait", log=str(guarded.root / "b"))
    )
    end = await guarded.python(DOUBLE_FORK.replace("{then}", "0.1"))
    assert end.code == 0
    away = guarded.pid_in("away")
    look_until(lambda: not is_alive(away), GONE_WITHIN)
    assert ((await beside).code, (await beside).stragglers) == (0, 0)


async def test_a_program_that_closes_its_output_runs_until_it_exits(guarded: GuardedPrograms):
    source = f"{CLOSES_ITS_OUTPUT}; open('done', 'w'); os._exit(7)"
    end = await run_beside_neighbour(guarded, PYTHON, "-c", source)
    assert end.code == 7
    assert (guarded.work / "done").exists()


async def test_a_program_that_never_reads_its_input_delays_no_other(guarded: GuardedPrograms):
    end = await run_beside_neighbour(guarded, "sleep", "0.3", stdin=b"x" * (2 << 20))
    assert end.code == 0


async def test_input_over_4_mib_is_refused_with_a_reason(guarded: GuardedPrograms):
    end = await guarded.run("cat", stdin=b"x" * (4 << 20))
    assert end.kind == "refused"
    assert "expected at most 4 MiB" in end.error


@pytest.mark.slow
@pytest.mark.usefixtures("root")
async def test_a_workspace_with_100_000_files_delays_no_other_program(guarded: GuardedPrograms):
    assert (await run_beside_neighbour(guarded, PYTHON, "-c", MANY_FILES, level="user", timeout=50 * SECOND)).code == 0
    assert (await run_beside_neighbour(guarded, "true", level="user")).code == 0


async def test_a_program_that_kills_the_guard_ends_and_a_new_guard_starts(guarded: GuardedPrograms):
    assert (await guarded.run("true")).code == 0
    first = guarded.guard.pid
    kills = "sleep 300 & echo $! > child; kill -9 $PPID; echo $$ > main; sleep 300"
    end = await asyncio.wait_for(guarded.run("sh", "-c", kills), 20)
    assert end.kind == "stopped"
    look_until(lambda: not is_alive(guarded.pid_in("child")), GONE_WITHIN)
    assert (await guarded.run("true")).code == 0
    assert guarded.guard.pid != first


@pytest.mark.parametrize("level", ["user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_an_isolated_program_cannot_kill_the_guard(guarded: GuardedPrograms, level: str):
    assert (await guarded.run("true")).code == 0
    guard = guarded.guard.pid
    end = await run_beside_neighbour(guarded, "sh", "-c", f"kill -9 {guard}", level=level)
    assert end.code != 0
    assert guarded.guard.pid == guard
