"""Hostile programs: how each ends, that nothing of it is left, and that the guard and its neighbours do not suffer.

Every one is bounded in number, time and memory: the machine is shared with others. Who forks without end does so only
where a bound on processes is known to be in force.
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
from tests.runners.guard.yard import PYTHON, Yard, is_alive, look_until, rss

MEMORY_MOST = 20 << 20
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


async def suffered(yard: Yard, *argv: str, **more: Any) -> ProgramEnd:
    """Run a hostile program, and another one beside it; see to it that the guard stays small and nothing is left."""
    assert (await yard.run("true")).code == 0
    guard = yard.guard.pid
    assert guard is not None
    before = rss(guard)
    run = asyncio.ensure_future(yard.run(*argv, **more))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    beside = await yard.guard.run(yard.program("true", log=str(yard.root / "beside")))
    took = time.monotonic() - began
    assert beside.code == 0
    assert took < NEIGHBOUR_WITHIN
    end = await run
    assert rss(guard, "VmHWM") - before < MEMORY_MOST
    assert left_of(guard) == []
    return end


def left_of(guard: int) -> list[process_tree.Process]:
    """Who lives below the guard, at the latest this long after an end was told: nobody, at once."""
    return [
        process
        for process in process_tree.with_descendants([guard], process_tree.all_processes())
        if process.pid != guard
    ]


@pytest.mark.usefixtures("root")
async def test_a_fork_bomb_runs_into_its_bound_as_a_user_of_its_own(yard: Yard):
    bounds = Bounds(processes=40)
    bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
    end = await suffered(yard, *bomb, level="user", bounds=bounds, timeout=1500 * MILLISECOND)
    assert end.kind == "timed_out"
    [line] = [line for line in (yard.work / "bound").read_text().splitlines() if line.startswith("Max processes")]
    assert line.split()[2:4] == ["40", "40"]


@pytest.mark.slow
async def test_a_fork_bomb_runs_into_its_bound_in_a_cgroup(pids_group: str):
    yard = Yard(cgroups=(pids_group,))
    try:
        bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
        end = await suffered(yard, *bomb, bounds=Bounds(processes=40), timeout=1500 * MILLISECOND)
        assert end.kind == "timed_out"
    finally:
        await yard.close()


@pytest.mark.usefixtures("root", "sandbox")
async def test_a_fork_bomb_runs_into_its_bound_in_a_sandbox(yard: Yard):
    bomb = (PYTHON, "-c", FORKS_WITHOUT_END)
    end = await suffered(yard, *bomb, level="sandbox", bounds=Bounds(processes=40), timeout=1500 * MILLISECOND)
    assert end.kind == "timed_out"


async def test_who_takes_too_much_memory_is_told_so(yard: Yard):
    """However much the worker has had when it started the guard."""
    assert len(bytearray(300 << 20)) > 0
    end = await suffered(yard, PYTHON, "-c", TAKES_MEMORY, bounds=Bounds(memory=128 << 20), timeout=30 * SECOND)
    assert end.kind == "out_of_memory"
    assert end.memory < 160 << 20


async def test_output_without_end(yard: Yard):
    end = await suffered(yard, "yes", bounds=Bounds(output=64 << 10), timeout=SECOND)
    assert end.kind == "timed_out"


async def test_much_output_without_a_newline(yard: Yard):
    line = "head -c 64M /dev/zero | tr '\\0' x"
    end = await suffered(yard, "sh", "-c", line, bounds=Bounds(output=64 << 10), timeout=50 * SECOND)
    assert end.code == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_gigabyte_without_a_newline(yard: Yard):
    line = "head -c 1G /dev/zero | tr '\\0' x"
    end = await suffered(yard, "sh", "-c", line, bounds=Bounds(output=64 << 10), timeout=200 * SECOND)
    assert end.code == 0


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_who_ignores_sigterm_is_killed_after_the_grace(yard: Yard, level: str):
    began = time.monotonic()
    end = await suffered(yard, "sh", "-c", IGNORES_TERM, level=level, timeout=300 * MILLISECOND)
    assert end.kind == "timed_out"
    assert time.monotonic() - began < 0.3 + 0.3 + GONE_WITHIN + NEIGHBOUR_WITHIN


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_who_forks_away_and_hides_is_found(yard: Yard, level: str):
    source = DOUBLE_FORK.replace("{then}", "0.3")
    end = await suffered(yard, PYTHON, "-c", source, level=level)
    assert (end.kind, end.code) == ("exited", 0)
    if level == "user":  # else it may have been found, as nobody's, when the neighbour had ended
        assert end.stragglers == 1
    if level != "sandbox":  # whose process ids are other ones
        assert not is_alive(yard.pid_in("away"))


async def test_who_forks_away_and_hides_alone_is_counted(yard: Yard):
    end = await yard.python(DOUBLE_FORK.replace("{then}", "0.1"))
    assert (end.kind, end.code, end.stragglers) == ("exited", 0, 1)
    assert not is_alive(yard.pid_in("away"))


async def test_who_looks_like_a_zombie_and_is_none_is_found(yard: Yard):
    end = await yard.python(HEADLESS)
    assert (end.kind, end.code, end.stragglers) == ("exited", 0, 1)
    look_until(lambda: process_tree.read_process(yard.pid_in("away")) is None, GONE_WITHIN)


async def test_who_hides_while_others_run_is_found_and_they_go_on(yard: Yard):
    beside = asyncio.ensure_future(yard.run("sh", "-c", "sleep 2 & setsid sleep 2 & wait", log=str(yard.root / "b")))
    end = await yard.python(DOUBLE_FORK.replace("{then}", "0.1"))
    assert end.code == 0
    away = yard.pid_in("away")
    look_until(lambda: not is_alive(away), GONE_WITHIN)
    assert ((await beside).code, (await beside).stragglers) == (0, 0)


async def test_who_closes_its_output_goes_on_until_it_ends(yard: Yard):
    source = f"{CLOSES_ITS_OUTPUT}; open('done', 'w'); os._exit(7)"
    end = await suffered(yard, PYTHON, "-c", source)
    assert end.code == 7
    assert (yard.work / "done").exists()


async def test_who_never_reads_holds_up_nobody(yard: Yard):
    end = await suffered(yard, "sleep", "0.3", stdin=b"x" * (2 << 20))
    assert end.code == 0


async def test_more_to_read_than_fits_is_refused_in_words(yard: Yard):
    end = await yard.run("cat", stdin=b"x" * (4 << 20))
    assert end.kind == "refused"
    assert "expected at most 4 MiB" in end.error


@pytest.mark.slow
@pytest.mark.usefixtures("root")
async def test_a_hundred_thousand_files_hold_up_nobody_also_the_next_time(yard: Yard):
    assert (await suffered(yard, PYTHON, "-c", MANY_FILES, level="user", timeout=50 * SECOND)).code == 0
    assert (await suffered(yard, "true", level="user")).code == 0


async def test_who_kills_the_guard_ends_with_it_and_another_takes_over(yard: Yard):
    assert (await yard.run("true")).code == 0
    first = yard.guard.pid
    kills = "sleep 300 & echo $! > child; kill -9 $PPID; echo $$ > main; sleep 300"
    end = await asyncio.wait_for(yard.run("sh", "-c", kills), 20)
    assert end.kind == "stopped"
    look_until(lambda: not is_alive(yard.pid_in("child")), GONE_WITHIN)
    assert (await yard.run("true")).code == 0
    assert yard.guard.pid != first


@pytest.mark.parametrize("level", ["user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_who_is_kept_apart_cannot_kill_the_guard(yard: Yard, level: str):
    assert (await yard.run("true")).code == 0
    guard = yard.guard.pid
    end = await suffered(yard, "sh", "-c", f"kill -9 {guard}", level=level)
    assert end.code != 0
    assert yard.guard.pid == guard
