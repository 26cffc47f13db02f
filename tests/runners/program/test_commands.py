"""Commands, from definition to outcome, with real processes and a real store."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.job import Job
from onthedot.model.run import Lease
from onthedot.model.task import Command, Step, Steps, Task
from onthedot.node.runner_set import RunnerSet
from onthedot.output.records import decode
from onthedot.runners.guard.protocol import ProgramEnd
from onthedot.runners.program import program_attempt, services
from onthedot.runners.task_template import Filled
from tests.runners.program.plain_guard import PlainGuard, guard

pytestmark = pytest.mark.slow

__all__ = ["guard"]  # a fixture


def scheduler(
    tmp_path: Path, task: Task, *, settings: Mapping[str, Any] | None = None, **options: Any
) -> otd.Scheduler:
    given = otd.Settings(spool=str(tmp_path / "spool"), kill_after=SECOND)
    sched = otd.Scheduler("memory:", settings=replace(given, **(settings or {})))
    sched.add(Job(name="it", task=task, **options))
    return sched


async def run_it(sched: otd.Scheduler) -> tuple[Any, str]:
    """Run the job to its end. Returns its record and the logs of all attempts."""
    async with sched:
        run = await sched.submit("it")
        with suppress(otd.RunFailed):
            await run.result(timeout="20s")
        record = await sched.get_run(run)
        return record, "".join(log.text for log in await sched.logs(run))


def sh(script: str, **more: Any) -> Command:
    return Command(script=script, **more)


async def test_a_command_runs_in_its_workspace_with_a_clean_environment(tmp_path, guard, monkeypatch):
    monkeypatch.setenv("WORKERS_OWN_SECRET", "s3cret")
    script = "env | sort; pwd; cat; ls -la $OTD_WORKSPACE | head -1"
    record, log = await run_it(scheduler(tmp_path, sh(script, env={"COLOUR": "red"}, stdin="given\n")))
    assert record.state == "succeeded"
    lines = log.splitlines()
    printed = dict(line.split("=", 1) for line in lines if "=" in line)
    workspace = printed["OTD_WORKSPACE"]
    assert {
        "COLOUR": "red", "HOME": workspace, "LANG": "C.UTF-8", "OTD_RUN_ID": "1", "OTD_ATTEMPT": "1", "OTD_JOB": "it",
    }.items() <= printed.items()  # fmt: skip
    assert "WORKERS_OWN_SECRET" not in printed
    assert {name for name in printed if name.startswith("OTD_")} - {"OTD_TREE"} == {  # the guard sets this one
        "OTD_RUN_ID", "OTD_ATTEMPT", "OTD_FENCE", "OTD_JOB", "OTD_SCHEDULED_AT", "OTD_WORKSPACE", "OTD_CHECKPOINT",
        "OTD_OUTPUT",
    }  # fmt: skip
    assert workspace in lines
    assert "given" in lines
    assert workspace.startswith(str(tmp_path / "spool" / "1-"))
    assert list(tmp_path.glob("spool/*/work")) == []  # removed, because the run succeeded


async def test_a_command_gets_its_arguments_without_a_shell(tmp_path, guard):
    argv = (sys.executable, "-c", "import sys; print(sys.argv[1:])", "; rm -rf x", "$HOME")
    _, log = await run_it(scheduler(tmp_path, Command(argv=argv)))
    assert log == "['; rm -rf x', '$HOME']\n"


@pytest.mark.parametrize(
    ("script", "error"),
    [("exit 3", "exit code 3"), ("kill -SEGV $$", "killed by SIGSEGV"), ("false\ntrue", "exit code 1")],
)
async def test_the_end_of_the_program_is_the_error_of_the_run(tmp_path, guard, script, error):
    record, _ = await run_it(scheduler(tmp_path, sh(script)))
    assert (record.state, record.error) == ("dead", error)
    [workspace] = tmp_path.glob("spool/1-*/work")  # kept for its owner, and closed for others
    assert {path.stat().st_mode & 0o777 for path in (workspace, workspace.parent, tmp_path / "spool")} == {0o700}
    assert [path.name for path in workspace.parent.iterdir()] == ["work"]  # its log is elsewhere


async def test_a_missing_program_is_reported(tmp_path, guard):
    record, _ = await run_it(scheduler(tmp_path, Command(argv=("no-such-program",))))
    assert record.state == "dead"
    assert "no-such-program" in record.error
    assert "No such file or directory" in record.error


async def test_a_missing_directory_is_reported(tmp_path, guard):
    record, _ = await run_it(scheduler(tmp_path, sh("true", directory="nowhere")))
    assert "directory: expected one that is there, got 'nowhere'" in record.error


@pytest.mark.parametrize(("on", "attempts"), [("onthedot.ExitCode.75", 3), ("onthedot.ExitCode.3", 1)])
async def test_an_exit_code_can_be_retried(tmp_path, guard, on, attempts):
    retry = otd.Retry(3, delay="1ms", on=(on,))
    record, _ = await run_it(scheduler(tmp_path, sh("exit 75"), retry=retry))
    assert (record.attempts, record.error) == (attempts, "exit code 75")


async def test_out_of_memory_is_a_separate_error(tmp_path, guard):
    guard.instead = lambda _: ProgramEnd("out_of_memory")
    retry = otd.Retry(2, delay="1ms", on=(MemoryError,))
    record, _ = await run_it(scheduler(tmp_path, sh("true"), retry=retry))
    assert (record.attempts, record.error) == (2, "killed: it took more memory than its bounds allow")


async def test_a_run_is_recovered_after_the_death_of_its_guard(tmp_path, guard):
    ends = iter([ProgramEnd("stopped", error="the guard has died")])
    guard.instead = lambda _: next(ends, None)
    sched = scheduler(tmp_path, sh("echo twice"))
    async with sched:
        run = await sched.submit("it")
        await run.result(timeout="20s")
        first, second = await sched.history(run)
    assert (first.outcome, second.outcome) == ("lost", "succeeded")
    assert "the guard has died" in (first.error or "")


async def test_a_time_out_ends_the_program_and_is_the_error(tmp_path, guard):
    record, log = await run_it(
        scheduler(tmp_path, sh("trap 'echo asked; exit 0' TERM; sleep 60 & wait"), timeout=timedelta(seconds=2))
    )
    assert (record.state, record.error) == ("dead", "took longer than its time-out of 2 s")
    assert "asked" in log


async def test_a_cancel_ends_the_program_and_its_children(tmp_path, guard):
    sched = scheduler(tmp_path, sh("echo begun; sleep 60 & wait"))
    async with sched:
        run = await sched.submit("it")
        await wait_for_output(sched, run.id, "begun")
        await sched.cancel(run, why="not needed")
        with pytest.raises(otd.RunFailed, match="not needed"):
            await run.result(timeout="20s")
    assert guard.ends == []  # a cancelled program reports no end
    assert guard.closed


async def test_a_stopping_node_gives_programs_their_grace(tmp_path, guard):
    """The attempt gets SIGTERM and ends in time. Its run is released for other workers."""
    sched = scheduler(tmp_path, sh("trap 'exit 0' TERM; echo begun; sleep 60 & wait"), settings={"grace": 1000})
    await sched.start()
    run = await sched.submit("it")
    await wait_for_output(sched, run.id, "begun")
    events = list[Any]()
    sched._events.subscribe(events.append)
    await sched.stop()
    assert [event.abandoned for event in events if type(event).__name__ == "NodeLeft"] == [0]


async def wait_for_output(sched: otd.Scheduler, run: int, words: str) -> None:
    """Wait until the log of the run, as readers see it, has these words."""
    for _ in range(1_000):
        if any(words in log.text for log in await sched.logs(run)):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"run {run} has not logged {words!r}")


async def test_the_next_attempt_gets_the_saved_checkpoint(tmp_path, guard):
    script = (
        'test -f $OTD_CHECKPOINT && echo "found $(cat $OTD_CHECKPOINT)"; echo page-$OTD_ATTEMPT > $OTD_CHECKPOINT; '
        "test $OTD_ATTEMPT = 3"
    )
    record, log = await run_it(scheduler(tmp_path, sh(script), retry=otd.Retry(3, delay="1ms")))
    assert record.state == "succeeded"
    assert log.splitlines() == ["found page-1", "found page-2"]


async def test_a_checkpoint_is_stored_while_the_program_runs(tmp_path, guard):
    sched = scheduler(tmp_path, sh("echo page-7 > $OTD_CHECKPOINT; sleep 60"))
    async with sched:
        run = await sched.submit("it")
        saved = None
        for _ in range(400):
            saved = await sched._running().on_store(lambda store: store.queries.get_checkpoint(run.id))
            if saved is not None:
                break
            await asyncio.sleep(0.05)
        await run.cancel()
        assert saved is not None
        assert json.loads(saved.value) == {"done": [], "text": "page-7\n"}


async def test_the_outputs_of_a_program_are_the_result(tmp_path, guard):
    sched = scheduler(tmp_path, sh("echo image=a1 >> $OTD_OUTPUT; echo nonsense >> $OTD_OUTPUT"))
    async with sched:
        assert await (await sched.submit("it")).result(timeout="20s") == {"image": "a1"}


async def test_a_program_that_removes_its_workspace_harms_only_itself(tmp_path, guard):
    record, _ = await run_it(scheduler(tmp_path, sh("rm -rf $OTD_WORKSPACE")))
    assert record.state == "succeeded"
    steps = (Step(name="a", script="rm -rf $OTD_WORKSPACE"), Step(name="b", script="true"))
    record, _ = await run_it(scheduler(tmp_path, Steps(steps=steps)))
    assert (record.state, "FileNotFoundError" in record.error) == ("dead", True)


async def test_a_worker_follows_no_links_of_a_program(tmp_path, guard):
    """A program puts links at the files that its worker reads. The worker must not read their targets."""
    secret = tmp_path / "secret"
    secret.write_text("password=hunter2\n")
    script = f"ln -s {secret} $OTD_OUTPUT; ln -s {secret} $OTD_CHECKPOINT; exit 1"
    sched = scheduler(tmp_path, sh(script), retry=otd.Retry(2, delay="1ms"))
    async with sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed):
            await run.result(timeout="20s")
        saved = await sched._running().on_store(lambda store: store.queries.get_checkpoint(run.id))
        assert "hunter2" not in repr(saved)
    assert secret.read_text() == "password=hunter2\n"


class RecordingKeeper:
    """A keeper that only records."""

    def __init__(self, folder: Path) -> None:
        self.kept: list[tuple[int, list[tuple[str, str]], dict[str, str]]] = []
        self.error: Exception | None = None
        self._folder = folder

    def log_of(self, lease: Lease) -> Path:
        return self._folder / f"{lease.run_id}_{lease.attempt}"

    def hand_in(self, lease: Lease, artifacts: Sequence[tuple[str, Path]] = ()) -> None:
        if self.error is not None:
            raise self.error
        with self.log_of(lease).open("rb") as lines:
            logged = [(record.step, record.text) for record in decode(lines) if record.stream != "otd"]
        self.kept.append((lease.attempt, logged, {name: path.read_text() for name, path in artifacts}))


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch, guard: PlainGuard, tmp_path: Path) -> RecordingKeeper:
    kept = RecordingKeeper(tmp_path)
    monkeypatch.setattr(services, "SpoolKeeper", lambda *_: kept)
    return kept


async def test_logs_and_artifacts_are_handed_to_the_keeper(tmp_path, keeper):
    make = "mkdir -p out/deep; echo a > out/a.txt; echo b > out/deep/b.txt; echo c > c.log; ln -s /etc/passwd out/p.txt"
    steps = (Step(name="make", script=make), Step(name="end", argv=("echo", "done")))
    record, log = await run_it(scheduler(tmp_path, Steps(steps=steps, artifacts=("out/**/*.txt",))))
    assert record.state == "succeeded"
    assert keeper.kept == [(1, [("end", "done\n")], {"out/a.txt": "a\n", "out/deep/b.txt": "b\n"})]
    assert "'out/p.txt' is no plain file, and was left out" in log


async def test_a_job_succeeds_although_its_output_cannot_be_kept(tmp_path, keeper):
    keeper.error = OSError("no room")
    record, _ = await run_it(scheduler(tmp_path, sh("true")))
    assert record.state == "succeeded"


async def test_secrets_are_filled_in_just_before_the_start(tmp_path, guard, monkeypatch):
    """If the store is unavailable then, the run is released. The value does not appear in the log."""
    troubles = [otd.StoreUnavailable("away")]

    async def fill(lease: Lease) -> Filled:
        if troubles:
            raise troubles.pop()
        return Filled(sh("echo $TOKEN", env={"TOKEN": "s3cret"}), ("s3cret",))

    monkeypatch.setattr(RunnerSet, "_fill", lambda _: fill)
    sched = scheduler(tmp_path, sh("echo $TOKEN", env={"TOKEN": "${{ secrets.TOKEN }}"}))
    async with sched:
        run = await sched.submit("it")
        await run.result(timeout="20s")
        assert [tried.outcome for tried in await sched.history(run)] == ["released", "succeeded"]
    assert guard.programs[0].secrets == ("s3cret",)


async def test_the_output_of_failed_attempts_is_kept_too(tmp_path, keeper):
    await run_it(scheduler(tmp_path, sh("echo no; exit 1"), retry=otd.Retry(2, delay="1ms")))
    assert [attempt for attempt, _, _ in keeper.kept] == [1, 2]


# ── which worker runs them ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        ({}, {"command", "steps", "command@sandbox", "steps@sandbox"}),
        ({"least_isolation": "user"}, {"command@sandbox", "steps@sandbox"}),
        ({"programs": False}, set()),
        ({"roles": ("planner",)}, set()),
    ],
)
async def test_a_worker_offers_what_its_machine_supports_and_its_operator_allows(tmp_path, guard, settings, offered):
    guard.levels = frozenset({"none", "sandbox"})
    async with scheduler(tmp_path, sh("true"), settings=settings) as sched:
        [node] = await sched._running().on_store(lambda store: store.queries.list_nodes())
    assert {task for task in node.tasks if task.startswith(("command", "steps"))} == offered


async def test_a_restarted_scheduler_offers_what_its_settings_allow_then(tmp_path, guard):
    sched = scheduler(tmp_path, sh("true"))
    async with sched:
        assert "command" in sched.registry.task_names()
    sched.settings = replace(sched.settings, programs=False)
    async with sched:
        [*_, node] = await sched._running().on_store(lambda store: store.queries.list_nodes())
        assert "command" not in node.tasks


async def test_a_node_without_commands_starts_no_guard(tmp_path, guard):
    async with otd.Scheduler("memory:", settings=otd.Settings(spool=str(tmp_path))) as sched:
        [node] = await sched._running().on_store(lambda store: store.queries.list_nodes())
        assert "command" not in node.tasks
        await sched.put(Job(name="it", task=sh("echo later")))  # this starts a guard
        await (await sched.submit("it")).result(timeout="20s")
    assert guard.closed


async def test_a_waiting_run_reports_that_no_worker_can_execute_it(tmp_path, guard):
    from onthedot.clock import SystemClock
    from onthedot.operations.runs import why_waiting

    guard.levels = frozenset({"none"})
    sched = scheduler(tmp_path, sh("true"), isolation="sandbox")
    async with sched:
        run = await sched.submit("it")

        async def why(store: Any) -> list[str]:
            record = await store.queries.get_run(run.id)
            return await why_waiting(
                store, record, await store.queries.why_waiting(run.id), SystemClock().now() + SECOND
            )

        found = await sched._running().on_store(why)
    assert any("command@sandbox" in reason for reason in found), found


async def test_a_run_without_a_free_user_id_waits_and_is_released(tmp_path, guard, monkeypatch):
    monkeypatch.setattr(program_attempt, "_TRY_EVERY", 0.001)
    refusals = program_attempt._MOST_TRIES + 3  # the first attempt is released, and the second one has to wait, too
    guard.instead = lambda _: ProgramEnd("no_room", error="none free") if len(guard.programs) <= refusals else None
    sched = scheduler(tmp_path, sh("exit 0"))
    async with sched:
        run = await sched.submit("it")
        await run.result(timeout="20s")
        attempts = await sched.history(run.id)
    assert [str(one.outcome) for one in attempts] == ["released", "succeeded"]
    assert len(guard.programs) == refusals + 1


async def test_a_later_step_waits_for_a_user_id_until_the_time_out(tmp_path, guard, monkeypatch):
    monkeypatch.setattr(program_attempt, "_TRY_EVERY", 0.001)
    guard.instead = lambda program: ProgramEnd("no_room", error="none free") if program.label == "two" else None
    steps = Steps(steps=(Step(name="one", script="exit 0"), Step(name="two", script="exit 0")))
    record, _ = await run_it(scheduler(tmp_path, steps, timeout=timedelta(seconds=2)))
    assert record.state == "dead"
    assert "time-out" in record.error
    assert sum(program.label == "one" for program in guard.programs) == 1
