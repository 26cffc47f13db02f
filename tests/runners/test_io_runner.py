"""What all executors share: tasks are filled in first, output is recorded and kept, each attempt has one outcome."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onthedot.model.run import Lease
from onthedot.model.task import Noop
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.output.capture import Capture
from onthedot.output.records import Stream, decode
from onthedot.output.redact import forms_of
from onthedot.runners import io_runner
from onthedot.runners.attempt import Attempt
from onthedot.runners.io_runner import OutputWriter
from onthedot.runners.outcomes import failed, without_secrets
from onthedot.runners.task_template import Filled
from tests.runners.attempts import RunnerBench, lease_of, log_of


class PrintingExecutor:
    """An executor that prints texts and succeeds."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.thread = ""

    async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
        self.thread = threading.current_thread().name
        for text in self._texts:
            said.feed("out", text.encode())
        said.remark(f"done with {filled.secrets}")
        return SUCCEEDED

    async def warm_up(self) -> None:
        self.thread = threading.current_thread().name
        raise LookupError("nothing to be loaded")

    async def close(self) -> None:
        pass


class FakeRecording:
    """A recording in a folder. It can fail."""

    def __init__(self, folder: Path, *, fails: bool = False) -> None:
        self.file = folder / "record"
        self.fails = fails
        self.kept: list[tuple[int, asyncio.AbstractEventLoop]] = []

    def path(self, lease: Lease) -> Path:
        return self.file

    async def keep(self, lease: Lease) -> None:
        self.kept.append((lease.run_id, asyncio.get_running_loop()))
        if self.fails:
            raise OSError("no room left")


async def test_output_is_recorded_and_kept(tmp_path: Path):
    recording, executor = FakeRecording(tmp_path), PrintingExecutor("one\ntw", "o\nthree")
    bench = RunnerBench(executor, recording=recording)
    attempt = bench.begin(lease_of(Noop()))
    assert await bench.end(attempt) == SUCCEEDED
    bench.runner.close()
    assert log_of(attempt) == "one\ntwo\nthree\ndone with ()\n"
    with recording.file.open("rb") as file:
        records = list(decode(file))
    assert "".join(record.text for record in records if record.stream == "out") == "one\ntwo\nthree"
    assert recording.kept == [(7, bench.loop)]  # on the engine's loop, where the store is
    assert executor.thread == "onthedot PrintingExecutor"


async def test_an_attempt_succeeds_although_its_record_cannot_be_kept(tmp_path: Path):
    bench = RunnerBench(PrintingExecutor("x\n"), recording=FakeRecording(tmp_path, fails=True))
    attempt = bench.begin(lease_of(Noop()))
    assert await bench.end(attempt) == SUCCEEDED
    bench.runner.close()
    assert "could not be kept: OSError: no room left" in log_of(attempt)


async def test_a_task_is_filled_in_on_the_engines_loop():
    where = []

    async def fill(lease: Lease) -> Filled:
        where.append(asyncio.get_running_loop())
        return Filled(lease.record.job.task, ("hush",))

    bench = RunnerBench(PrintingExecutor(), fill=fill)
    attempt = bench.begin(lease_of(Noop()))
    assert await bench.end(attempt) == SUCCEEDED
    bench.runner.close()
    assert where == [bench.loop]


async def test_a_task_that_cannot_be_filled_in_is_a_failure():
    async def fill(lease: Lease) -> Filled:
        raise LookupError("secret A: expected its value, got none")

    bench = RunnerBench(PrintingExecutor(), fill=fill)
    outcome = await bench.end(bench.begin(lease_of(Noop())))
    bench.runner.close()
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, "LookupError: secret A: expected its value, got none")


class HidingCapture(Capture):
    """Hides the secrets, as the capture of production does."""

    def __init__(self, path: Path, *, secrets: Sequence[str], **options: Any) -> None:
        super().__init__(path, secrets=secrets, **options)
        self._hidden = secrets

    def feed(self, stream: Stream, data: bytes) -> str:
        for secret in self._hidden:
            data = data.replace(secret.encode(), b"***")
        return super().feed(stream, data)


@pytest.mark.parametrize("raises", [False, True])
async def test_no_error_contains_a_secret(monkeypatch: pytest.MonkeyPatch, raises: bool):
    class TactlessExecutor(PrintingExecutor):
        async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
            if raises:
                raise LookupError("nothing at /?token=hush")
            return Outcome(OutcomeKind.FAILED, "nothing at /?token=hush")

    async def fill(lease: Lease) -> Filled:
        return Filled(lease.record.job.task, ("hush",))

    monkeypatch.setattr(io_runner, "Capture", HidingCapture)
    bench = RunnerBench(TactlessExecutor(), fill=fill)
    outcome = await bench.end(bench.begin(lease_of(Noop())))
    bench.runner.close()
    assert str(outcome.error).endswith("nothing at /?token=***")


async def test_an_executor_whose_warm_up_fails_still_runs_attempts():
    executor = PrintingExecutor("x")
    bench = RunnerBench(executor)
    bench.runner.warm_up()
    assert await bench.end(bench.begin(lease_of(Noop()))) == SUCCEEDED
    bench.runner.close()


async def test_an_unused_runner_has_no_thread():
    bench = RunnerBench(PrintingExecutor())
    bench.runner.close()
    assert "onthedot PrintingExecutor" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("before", range(3_985, 4_002))
async def test_an_error_that_is_cut_contains_no_part_of_a_secret(before: int):
    error = failed(RuntimeError("." * (before - len("RuntimeError: ")) + "Hunter2-and-a-half" + "." * 99))
    shown = without_secrets(error, forms_of(["Hunter2-and-a-half"])).error
    assert shown is not None
    assert set(shown.removeprefix("RuntimeError: ")) <= set(".*")
