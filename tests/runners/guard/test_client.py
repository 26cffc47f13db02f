"""A worker and its guards: how programs are started, recorded, stopped and reported, and shared by two guards."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from onthedot.clock import MILLISECOND, SECOND, SystemClock
from onthedot.model.task import Bounds
from onthedot.output.records import decode
from onthedot.runners.guard import process_tree
from onthedot.runners.guard.client import AT_ONCE, GuardClient, Guards
from onthedot.runners.guard.protocol import Program, ProgramEnd
from tests.runners.guard.guarded_programs import OFFERS, GuardedPrograms, descriptors, is_alive, look_until, rss

SLEEPS = "echo $$ > main; setsid sh -c 'echo $$ > away; exec sleep 300' & while :; do sleep 1; done"


async def wait_started(guarded: GuardedPrograms) -> tuple[int, int]:
    """Wait until both processes run. Returns the ids of the main process and of one that left its process group."""
    away = await asyncio.to_thread(guarded.pid_in, "away")
    return guarded.pid_in("main"), away


async def test_exit_codes_and_signals_are_distinguished(guarded: GuardedPrograms):
    assert (await guarded.run("true"))[:3] == ("exited", 0, None)
    assert (await guarded.run("sh", "-c", "exit 3"))[:3] == ("exited", 3, None)
    assert (await guarded.run("sh", "-c", "kill -SEGV $$"))[:3] == ("signalled", None, signal.SIGSEGV)


async def test_output_is_recorded_by_stream_with_its_step_and_instant(guarded: GuardedPrograms):
    before = SystemClock().now()
    await guarded.run("sh", "-c", "echo to out; echo to err >&2", label="build")
    records = list(decode(guarded.log.read_bytes().splitlines(keepends=True)))
    assert sorted((record.stream, record.step, record.text) for record in records if record.stream != "otd") == [
        ("err", "build", "to err\n"),
        ("out", "build", "to out\n"),
    ]
    assert all(before <= record.at <= SystemClock().now() for record in records)


async def test_output_is_reported_while_the_program_runs(guarded: GuardedPrograms):
    heard: asyncio.Queue[tuple[int, str, str]] = asyncio.Queue()
    program = guarded.program("sh", "-c", "echo first; read line < go; echo second >&2")
    os.mkfifo(guarded.work / "go")
    before = SystemClock().now()
    run = asyncio.ensure_future(guarded.guard.run(program, lambda *output: heard.put_nowait(output)))
    first = await asyncio.wait_for(heard.get(), 20)
    assert first[1:] == ("out", "first\n")
    assert not run.done()
    (guarded.work / "go").write_text("on\n")
    assert (await run).code == 0
    second = heard.get_nowait()
    assert second[1:] == ("err", "second\n")
    assert before <= first[0] <= second[0] <= SystemClock().now()


async def test_a_program_gets_only_the_given_environment_and_a_mark(guarded: GuardedPrograms, monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_THE_WORKER", "sesame")
    await guarded.run("/usr/bin/env", env={"A": "1"})
    names = {line.partition("=")[0] for line in guarded.output().split()}
    assert names == {"A", "OTD_TREE"}


async def test_a_program_gets_three_descriptors_its_own_session_and_its_directory(guarded: GuardedPrograms):
    await guarded.run("sh", "-c", "echo $(ls /proc/self/fd); pwd; echo $$ $(ps -o sid= -p $$); umask")
    fds, directory, ids, umask = guarded.output().splitlines()
    assert fds == "0 1 2 3"  # ls itself has the fourth
    assert directory == str(guarded.work)
    assert len(set(ids.split())) == 1
    assert umask == "0077"


async def test_a_program_reads_its_input(guarded: GuardedPrograms):
    text = b"0123456789abcdef" * 20_000
    assert (await guarded.run("sha256sum", stdin=text)).code == 0
    assert guarded.output().split()[0] == hashlib.sha256(text).hexdigest()


async def test_a_program_that_cannot_start_is_refused_with_a_reason(guarded: GuardedPrograms):
    assert "nosuch" in (await guarded.run("nosuch")).error
    assert (await guarded.run("nosuch")).kind == "refused"
    assert (await guarded.run("true", directory="/nowhere")).kind == "refused"
    (guarded.work / "plain").write_text("text")
    assert "Permission denied" in (await guarded.run("./plain")).error


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_a_program_that_cannot_start_leaves_no_descriptors(guarded: GuardedPrograms, level: str):
    assert (await guarded.run("true")).code == 0
    assert guarded.guard.pid is not None
    before = descriptors(guarded.guard.pid)
    assert (await guarded.run("echo", "nul \0 inside", level=level)).kind == "refused"
    assert (await guarded.run("env", env={"A=B": "\0"}, level=level)).kind == "refused"
    assert (await guarded.run("true", directory="/nowhere", level=level)).kind in ("refused", "exited")
    assert (await guarded.run("nosuch", level=level)).code != 0
    assert (await guarded.run("echo", "x" * (1 << 20), level=level)).kind == "refused"
    assert descriptors(guarded.guard.pid) == before


async def test_a_program_succeeds_although_its_output_cannot_be_recorded(guarded: GuardedPrograms):
    assert (await guarded.run("echo", "said", log="/nowhere/log")).code == 0
    assert (await guarded.run("echo", "said", log="/dev/full")).code == 0


async def test_a_level_that_is_not_offered_is_refused(guarded: GuardedPrograms):
    guard = GuardClient(offers=frozenset(["none"]))
    end = await guard.run(guarded.program("true", level="sandbox"))
    assert (end.kind, end.error) == ("refused", "isolation 'sandbox': this machine offers none")
    assert guard.pid is None


async def test_a_time_out_ends_the_whole_process_tree(guarded: GuardedPrograms):
    end = await guarded.run("sh", "-c", SLEEPS, timeout=2 * SECOND)
    assert end.kind == "timed_out"
    assert not is_alive(guarded.pid_in("main"))
    assert not is_alive(guarded.pid_in("away"))


async def test_a_program_can_clean_up_after_sigterm(guarded: GuardedPrograms):
    tidy = "trap 'echo bye > farewell; exit 0' TERM; echo $$ > main; while :; do sleep 0.01; done"
    end = await guarded.run("sh", "-c", tidy, timeout=2 * SECOND, grace=20 * SECOND)
    assert end.kind == "timed_out"
    assert (guarded.work / "farewell").exists()


@pytest.mark.parametrize("level", ["none", "user", "sandbox"])
@pytest.mark.usefixtures("root", "sandbox")
async def test_a_program_without_a_handler_ends_by_sigterm_before_the_grace_is_over(
    guarded: GuardedPrograms, level: str
):
    end = await asyncio.wait_for(
        guarded.run("sleep", "300", level=level, timeout=300 * MILLISECOND, grace=60 * SECOND), 20
    )
    assert end.kind == "timed_out"


async def test_a_guard_ignores_signals_and_ends_with_its_worker(guarded: GuardedPrograms):
    """Stopping a service signals all of its processes. Programs must end when their worker stops them, after their
    grace."""
    run = asyncio.ensure_future(guarded.run("sh", "-c", "echo $$ > main; sleep 0.5; exit 3"))
    await asyncio.to_thread(guarded.pid_in, "main")
    assert guarded.guard.pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(guarded.guard.pid, number)
    assert (await run).code == 3


async def test_a_cancelled_run_stops_its_program_and_waits_for_it(guarded: GuardedPrograms):
    run = asyncio.ensure_future(guarded.run("sh", "-c", SLEEPS))
    pids = await wait_started(guarded)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not any(map(is_alive, pids))


async def test_a_program_ends_with_its_main_process_and_the_rest_is_killed_and_counted(guarded: GuardedPrograms):
    began = time.monotonic()
    end = await guarded.run("sh", "-c", "sleep 300 & sleep 300 & echo $! > left; echo said")
    assert (end.kind, end.code, end.stragglers) == ("exited", 0, 2)
    assert not is_alive(guarded.pid_in("left"))
    assert guarded.output() == "said\n"
    assert time.monotonic() - began < 20


async def test_limits_are_enforced(guarded: GuardedPrograms):
    bounds = Bounds(files=64, file_bytes=1 << 20, memory=1 << 29)
    expected = f"64 0 {(1 << 29) // 1024} {(1 << 20) // 512}"
    shown = 'echo "$(ulimit -Hn) $(ulimit -Hc) $(ulimit -Hd) $(ulimit -Hf)"'
    waits = f'n=0; while [ "$({shown})" != "{expected}" ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done'
    # The hard limits are set a moment after its start.
    await guarded.run("sh", "-c", f"{waits}; {shown}", bounds=bounds)
    assert guarded.output() == f"{expected}\n"


async def test_a_program_over_its_processor_time_is_ended_by_a_signal(guarded: GuardedPrograms):
    bounds = Bounds(cpu=timedelta(seconds=1))
    end = await guarded.run("sh", "-c", "sleep 0.1; while :; do :; done", bounds=bounds, timeout=40 * SECOND)
    assert (end.kind, end.signal) == ("signalled", signal.SIGXCPU)
    assert end.cpu >= 500 * MILLISECOND


async def test_a_program_is_killed_without_grace_when_the_lease_ends(guarded: GuardedPrograms):
    clock = SystemClock()
    guarded.guard.renew(clock.steady() + 60 * SECOND)
    run = asyncio.ensure_future(guarded.run("sh", "-c", "trap '' TERM;" + SLEEPS, grace=60 * SECOND))
    pids = await wait_started(guarded)
    guarded.guard.renew(clock.steady() + 200 * MILLISECOND)
    end = await asyncio.wait_for(run, 20)
    assert (end.kind, end.error) == ("stopped", "its worker did not renew its lease in time")
    assert not any(map(is_alive, pids))
    assert (await guarded.run("true")).kind == "refused"
    guarded.guard.renew(clock.steady() + 60 * SECOND)
    assert (await guarded.run("true")).code == 0


async def test_a_guard_that_was_frozen_checks_the_lease_first(guarded: GuardedPrograms):
    clock = SystemClock()
    run = asyncio.ensure_future(guarded.run("sh", "-c", SLEEPS, grace=60 * SECOND))
    pids = await wait_started(guarded)
    assert guarded.guard.pid is not None
    lease = clock.steady() + 300 * MILLISECOND
    guarded.guard.renew(lease)
    await asyncio.sleep(0)
    os.kill(guarded.guard.pid, signal.SIGSTOP)
    look_until(lambda: clock.steady() > lease)
    os.kill(guarded.guard.pid, signal.SIGCONT)
    end = await asyncio.wait_for(run, 20)
    assert end.error == "its worker did not renew its lease in time"
    assert not any(map(is_alive, pids))


async def test_a_guard_that_dies_is_replaced_and_its_programs_are_killed(guarded: GuardedPrograms):
    run = asyncio.ensure_future(guarded.run("sh", "-c", SLEEPS))
    pids = await wait_started(guarded)
    first = guarded.guard.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    end = await asyncio.wait_for(run, 20)
    assert end.kind == "stopped"
    assert "guard died" in end.error
    assert not any(map(is_alive, pids))
    assert (await guarded.run("true")).code == 0
    assert guarded.guard.pid not in (None, first)


async def test_close_kills_running_programs(guarded: GuardedPrograms):
    run = asyncio.ensure_future(guarded.run("sh", "-c", SLEEPS))
    pids = await wait_started(guarded)
    guard = guarded.guard.pid
    await guarded.guard.close()
    assert (await run)[:4] == ("stopped", None, None, "its worker has ended")
    assert (await guarded.run("true")).kind == "refused"
    assert not any(map(is_alive, (*pids, guard or 0)))


async def test_a_guard_that_does_not_answer_is_treated_as_dead(guarded: GuardedPrograms):
    clock = AheadClock()
    guarded.guard = GuardClient(offers=OFFERS, clock=clock)
    run = asyncio.ensure_future(guarded.run("sh", "-c", SLEEPS))
    pids = await wait_started(guarded)
    assert guarded.guard.pid is not None
    os.kill(guarded.guard.pid, signal.SIGSTOP)
    guarded.guard.renew(clock.steady() + 3600 * SECOND)
    await asyncio.sleep(0.1)
    assert not run.done()
    async with asyncio.timeout(20):
        while not run.done():  # one answer may have been on its way
            clock.ahead += 11 * SECOND
            guarded.guard.renew(clock.steady() + 3600 * SECOND)
            await asyncio.sleep(0.05)
    assert "guard died" in (await run).error
    assert not any(map(is_alive, pids))


class AheadClock(SystemClock):
    ahead = 0

    def steady(self) -> int:
        return super().steady() + self.ahead


async def test_a_failure_under_a_small_memory_limit_is_not_reported_as_out_of_memory(guarded: GuardedPrograms):
    assert (await guarded.run("sh", "-c", "exit 3", bounds=Bounds(memory=12 << 20)))[:2] == ("exited", 3)


async def test_a_thousand_commands_leave_nothing_behind(guarded: GuardedPrograms):
    async def run_commands(count: int) -> None:
        for _ in range(count):
            assert (await guarded.run("true")).code == 0

    await asyncio.gather(*(run_commands(25) for _ in range(4)))
    assert guarded.guard.pid is not None
    before = rss(guarded.guard.pid), descriptors(guarded.guard.pid)
    await asyncio.gather(*(run_commands(75) for _ in range(4)))
    assert descriptors(guarded.guard.pid) == before[1]
    assert rss(guarded.guard.pid) - before[0] < 1 << 20


async def test_processes_of_a_dead_guard_are_searched_outside_the_event_loop(
    guarded: GuardedPrograms, monkeypatch: pytest.MonkeyPatch
):
    """The search reads every process of the machine. On the loop it would delay other starts."""
    threads: list[bool] = []
    kill_found = process_tree.kill_found

    def note_thread(find: Callable[[], Iterable[process_tree.Process]]) -> int:
        threads.append(threading.current_thread() is threading.main_thread())
        return kill_found(find)

    monkeypatch.setattr(process_tree, "kill_found", note_thread)
    end = await guarded.run("sh", "-c", "kill -9 $PPID; sleep 300")
    assert end.kind == "stopped"
    assert threads
    assert not any(threads)


# ── two guards ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def guards() -> AsyncIterator[Guards]:
    made = Guards(offers=frozenset(["none"]))
    yield made
    await made.close()
    assert made.pids == []


def program(folder: Path, *argv: str, log: str = "log") -> Program:
    env = {"PATH": os.environ["PATH"]}
    return Program(argv, env, str(folder), str(folder), str(folder / log))


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_programs_in_sequence_use_one_guard(guards, tmp_path):
    for _ in range(2 * AT_ONCE):
        assert (await guards.run(program(tmp_path, "true"))).code == 0
    assert len(guards.pids) == 1


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_programs_at_once_use_both_guards(guards, tmp_path):
    parents = [program(tmp_path, "sh", "-c", "echo $PPID", log=f"log{number}") for number in range(40)]
    ends = await asyncio.gather(*map(guards.run, parents))
    assert [end.code for end in ends] == [0] * 40
    pids = set(guards.pids)
    assert len(pids) == 2
    logs = await asyncio.to_thread(lambda: [Path(each.log).read_text() for each in parents])
    assert all(any(f'"{pid}\\n"' in text for pid in pids) for text in logs)
    assert all(any(f'"{pid}\\n"' in text for text in logs) for pid in pids)


async def keep_both_busy(guards: Guards, folder: Path) -> list[asyncio.Task[ProgramEnd]]:
    running = [asyncio.create_task(guards.run(program(folder, "sleep", "300"))) for _ in range(2 * AT_ONCE)]
    await asyncio.sleep(0)  # let all of them send their requests
    await asyncio.to_thread(look_until, lambda: len(guards.pids) == 2 and not any(g.starting for g in guards._guards))
    return running


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_the_end_of_the_lease_stops_the_programs_of_both_guards(guards, tmp_path):
    running = await keep_both_busy(guards, tmp_path)
    guards.renew(SystemClock().steady() + SECOND // 5)
    assert {end.kind for end in await asyncio.gather(*running)} == {"stopped"}


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_the_death_of_one_guard_stops_only_its_own_programs(guards, tmp_path):
    running = await keep_both_busy(guards, tmp_path)
    os.kill(guards.pids[0], signal.SIGKILL)
    ended, alive = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    assert {task.result().kind for task in ended} == {"stopped"}
    assert alive
    assert (await guards.run(program(tmp_path, "true"))).code == 0
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_both_guards_end_with_their_worker(tmp_path):
    guards = Guards(offers=frozenset(["none"]))
    running = await keep_both_busy(guards, tmp_path)
    await guards.close()
    assert {end.kind for end in await asyncio.gather(*running)} == {"stopped"}
    assert guards.pids == []
    assert (await guards.run(program(tmp_path, "true"))).kind == "refused"
