"""What every attempt behind a door has in common: filled in first, recorded, kept, and with one outcome."""

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
from tests.runners.attempts import Passing, lease_of, said


class Saying:
    """A door that says something, and ends."""

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


class Kept:
    """A recording in a folder, which can fail."""

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


async def test_what_is_said_is_recorded_and_kept(tmp_path: Path):
    recording, door = Kept(tmp_path), Saying("one\ntw", "o\nthree")
    passing = Passing(door, recording=recording)
    attempt = passing.begin(lease_of(Noop()))
    assert await passing.end(attempt) == SUCCEEDED
    passing.runner.close()
    assert said(attempt) == "one\ntwo\nthree\ndone with ()\n"
    with recording.file.open("rb") as file:
        records = list(decode(file))
    assert "".join(record.text for record in records if record.stream == "out") == "one\ntwo\nthree"
    assert recording.kept == [(7, passing.loop)]  # on the engine's loop: the store is there
    assert door.thread == "onthedot Saying"


async def test_a_record_that_cannot_be_kept_fails_nothing(tmp_path: Path):
    passing = Passing(Saying("x\n"), recording=Kept(tmp_path, fails=True))
    attempt = passing.begin(lease_of(Noop()))
    assert await passing.end(attempt) == SUCCEEDED
    passing.runner.close()
    assert "could not be kept: OSError: no room left" in said(attempt)


async def test_a_task_is_filled_in_on_the_engines_loop():
    where = []

    async def fill(lease: Lease) -> Filled:
        where.append(asyncio.get_running_loop())
        return Filled(lease.record.job.task, ("hush",))

    passing = Passing(Saying(), fill=fill)
    attempt = passing.begin(lease_of(Noop()))
    assert await passing.end(attempt) == SUCCEEDED
    passing.runner.close()
    assert where == [passing.loop]


async def test_what_cannot_be_filled_in_is_a_failure():
    async def fill(lease: Lease) -> Filled:
        raise LookupError("secret A: expected its value, got none")

    passing = Passing(Saying(), fill=fill)
    outcome = await passing.end(passing.begin(lease_of(Noop())))
    passing.runner.close()
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, "LookupError: secret A: expected its value, got none")


class Hiding(Capture):
    """Hides what it is told to hide, as the one of production does."""

    def __init__(self, path: Path, *, secrets: Sequence[str], **options: Any) -> None:
        super().__init__(path, secrets=secrets, **options)
        self._hidden = secrets

    def feed(self, stream: Stream, data: bytes) -> str:
        for secret in self._hidden:
            data = data.replace(secret.encode(), b"***")
        return super().feed(stream, data)


@pytest.mark.parametrize("raises", [False, True])
async def test_no_error_tells_a_secret(monkeypatch: pytest.MonkeyPatch, raises: bool):
    class Tactless(Saying):
        async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
            if raises:
                raise LookupError("nothing at /?token=hush")
            return Outcome(OutcomeKind.FAILED, "nothing at /?token=hush")

    async def fill(lease: Lease) -> Filled:
        return Filled(lease.record.job.task, ("hush",))

    monkeypatch.setattr(io_runner, "Capture", Hiding)
    passing = Passing(Tactless(), fill=fill)
    outcome = await passing.end(passing.begin(lease_of(Noop())))
    passing.runner.close()
    assert str(outcome.error).endswith("nothing at /?token=***")


async def test_a_door_that_cannot_be_made_ready_opens_all_the_same():
    door = Saying("x")
    passing = Passing(door)
    passing.runner.warm_up()
    assert await passing.end(passing.begin(lease_of(Noop()))) == SUCCEEDED
    passing.runner.close()


async def test_a_runner_that_was_never_used_has_no_thread():
    passing = Passing(Saying())
    passing.runner.close()
    assert "onthedot Saying" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("before", range(3_985, 4_002))
async def test_an_error_that_is_cut_tells_no_part_of_a_secret(before: int):
    error = failed(RuntimeError("." * (before - len("RuntimeError: ")) + "Hunter2-and-a-half" + "." * 99))
    told = without_secrets(error, forms_of(["Hunter2-and-a-half"])).error
    assert told is not None
    assert set(told.removeprefix("RuntimeError: ")) <= set(".*")
