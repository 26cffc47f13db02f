"""`onthedot logs`: it shows the output of a run, from the output store or live from the store."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.cli import logs
from onthedot.cli.logs import PASSED_OVER, LogPrinter
from onthedot.clock import SECOND
from onthedot.model.run import RunRecord, RunState
from onthedot.output.locations import output_location
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.records import Mark, Record, encode, encode_mark
from onthedot.output.run_output import AttemptOutput
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import LogRecord
from tests.cli.conftest import Call
from tests.observe.sample_events import NOON
from tests.servers.s3 import S3Server

RECORDS = [
    Record(1_000_000, "out", "build", "compiling\n"),
    Record(2_000_000, "err", "build", "\x1b[31mwarning\x1b[0m\x1b[2J\n"),
    Record(3_000_000, "out", "test", "ok"),
]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOOK_EVERY", 0)


@pytest.fixture
def output(database: Path, tmp_path: Path) -> Path:
    """The folder with the output of run 4, which is dead. Its first attempt had no output."""
    folder = tmp_path / "output"

    async def keep() -> None:
        store = await SqliteStore.open(database, read_only=True)
        attempts = await store.queries.list_attempts(4)
        await store.close()
        for attempt, records in zip(attempts, ([], RECORDS), strict=True):
            (tmp_path / "log").write_bytes(b"".join(map(encode, records)))
            await OutputStore(folder).keep(Name(4, attempt.attempt, attempt.lease_id), tmp_path / "log")

    asyncio.run(keep())
    return folder


def test_plain_output_has_no_control_characters(call: Call, database: Path, output: Path):
    result = call("logs", "4", "--plain", "--db", database, "--output", output)
    assert result.exit_code == 0, result.output
    assert result.stdout == ("── attempt 2, step build ──\ncompiling\nwarning\n── attempt 2, step test ──\nok\n")


def test_each_line_has_its_time_stream_and_step(call: Call, database: Path, output: Path):
    result = call("logs", "4", "--db", database, "--output", output)
    assert result.stdout.splitlines() == [
        "── attempt 2, 1970-01-01 (CET) ──",
        "01:00:01.000 out build | compiling",
        "01:00:02.000 err build | warning",
        "01:00:03.000 out test | ok",
    ]
    told = call("logs", "4", "--db", database, "--output", output, "--utc").stdout
    assert "── attempt 2, 1970-01-01 (UTC) ──\n00:00:01.000 out build | compiling\n" in told


def test_the_output_can_be_limited_to_a_range_of_time(call: Call, database: Path, output: Path):
    def found(*arguments: str) -> list[str]:
        return call("logs", "4", "--plain", "--db", database, "--output", output, *arguments).stdout.split()[-1:]

    assert found("--until", "1970-01-01T00:00:02Z") == ["compiling"]
    assert found("--until", "1970-01-01 01:00:03") == ["warning"]
    assert found("--since", "1970-01-01T00:00:02.5Z") == ["ok"]
    assert found("--since", "yesterday") == []


class ManualClock:
    """A clock that only the test moves."""

    at = 0

    def now(self) -> int:
        return NOON + self.at

    def steady(self) -> int:
        return self.at


def test_a_live_line_without_an_instant_gets_the_current_time(capsys: pytest.CaptureFixture[str], in_berlin: None):
    clock = ManualClock()
    printer = LogPrinter(attempt=None, step=None, as_json=False, clock=clock)
    printer.tell(AttemptOutput(1, "before\n"))
    clock.at = 5 * SECOND
    printer.tell(AttemptOutput(1, "before\nnow, and "))
    printer.tell(AttemptOutput(1, "before\nnow, and more\nthe last\n"))
    record = Record(NOON + 6 * SECOND, "err", "test", "before\nnow, and more\nthe last\nend\n")
    printer.tell(AttemptOutput(1, record.text, [record], kept=True))
    assert capsys.readouterr().out.splitlines() == [
        "before",
        "── attempt 1, 2026-01-01 (CET) ──",
        "~13:00:05 | now, and more",
        "~13:00:05 | the last",
        "13:00:06.000 err test | end",
    ]


def test_two_streams_do_not_share_a_line(capsys: pytest.CaptureFixture[str], in_berlin: None):
    records = [Record(NOON, "out", "", "50 %"), Record(NOON, "err", "", "oh\n"), Record(NOON, "out", "", "100 %\n")]
    printer = LogPrinter(attempt=None, step=None, as_json=False)
    printer.tell(AttemptOutput(1, "".join(record.text for record in records), records))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "13:00:00.000 out | 50 %",
        "13:00:00.000 err | oh",
        "13:00:00.000 out | 100 %",
    ]


def test_the_output_can_be_limited_to_an_attempt_or_step(call: Call, database: Path, output: Path):
    assert call("logs", "4", "--db", database, "--output", output, "--step", "test", "--plain").stdout == "ok\n"
    result = call("logs", "4", "--db", database, "--output", output, "--attempt", "1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "run 4 has said nothing\n"


def test_a_run_without_output_shows_its_error():
    printer = LogPrinter(attempt=None, step=None, as_json=False, plain=True, between=(None, None))
    run = RunRecord(
        4,
        "mail",
        "default",
        "submit:a",
        0,
        0,
        RunState.DEAD,
        "",
        1,
        1,
        0,
        0,
        error="OSError: no such program\nat line 1",
    )
    told = logs._silent(run, printer)
    assert told == "run 4 has said nothing; it is dead: OSError: no such program; 'onthedot show 4' tells more"


def test_output_is_read_from_s3_and_a_wrong_key_is_reported(
    call: Call, database: Path, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    place = s3.url(s3.fresh_prefix())
    (tmp_path / "log").write_bytes(b"".join(map(encode, RECORDS)))

    async def keep() -> None:
        store = await SqliteStore.open(database, read_only=True)
        last = (await store.queries.list_attempts(4))[-1]
        await store.close()
        await OutputStore(output_location(place, None)).keep(Name(4, last.attempt, last.lease_id), tmp_path / "log")

    asyncio.run(keep())
    assert call("logs", "4", "--db", database, "--output", place, "--step", "test", "--plain").stdout == "ok\n"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-key")
    refused = call("logs", "4", "--db", database, "--output", place)
    assert refused.exit_code == 1
    assert "privileges" in refused.stderr
    assert "wrong-key" not in refused.output


@pytest.mark.slow
def test_the_location_of_output_is_read_from_the_store(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The program sets the location, not the command line, and `logs` runs in another directory."""
    monkeypatch.chdir(tmp_path)
    settings = otd.Settings(output="kept", spool=str(tmp_path / "spool"), programs=True)
    sched = otd.Scheduler("sqlite:///it.db", settings=settings)
    sched.command("it", script="echo one; echo two >&2")

    async def run() -> None:
        async with sched:
            await (await sched.submit("it")).result(timeout="20s")

    asyncio.run(run())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for more in ((), ("--output", tmp_path / "kept")):
        lines = call("logs", "1", "--db", tmp_path / "it.db", "--json", *more).stdout.splitlines()
        assert {(json.loads(line)["stream"], json.loads(line)["text"]) for line in lines} >= {("err", "two\n")}, more


def test_json_has_all_fields_of_each_record(call: Call, database: Path, output: Path):
    lines = call("logs", "4", "--db", database, "--output", output, "--json").stdout.splitlines()
    assert json.loads(lines[1]) == {
        "attempt": 2,
        "at": "1970-01-01T00:00:02.000000Z",
        "stream": "err",
        "step": "build",
        "text": "\x1b[31mwarning\x1b[0m\x1b[2J\n",
    }
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99"], "RUN: expected a stored run, got 99; 'onthedot runs --db "),
        (["4", "--attempt", "3"], "--attempt: expected 1 to 2, got 3"),
        (["3", "--attempt", "1"], "--attempt: expected none: it has not been tried yet, got 1"),
        (["4", "--step", "biuld"], "--step: expected one of its steps, got 'biuld', did you mean 'build'?"),
        (["4", "--output", "ftp://x"], "output: expected a directory or s3://bucket/prefix, got 'ftp://x'"),
    ],
)
def test_bad_input_is_refused(call: Call, database: Path, output: Path, arguments: list[str], message: str):
    place = [] if "--output" in arguments else ["--output", output]
    result = call("logs", *arguments, "--db", database, *place)
    assert result.exit_code == 2
    assert message in result.stderr


def test_damaged_output_is_reported(call: Call, database: Path, output: Path):
    for path in output.rglob("log.gz"):
        path.write_bytes(b"x" * path.stat().st_size)
    result = call("logs", "4", "--db", database, "--output", output)
    assert result.exit_code == 1
    assert "the log of run 4 was changed since it was kept" in result.stderr


def test_follow_reports_how_the_run_ended(call: Call, database: Path, output: Path):
    result = call("logs", "4", "-f", "--db", database, "--output", output)
    assert result.exit_code == 1
    assert result.stdout.endswith("ok\n")
    assert result.stderr == (
        "run 4 of broken: dead after 2 attempts; failed 2 times: ValueError: line one\\nline two\n"
    )
    assert call("logs", "1", "-f", "--db", database, "--output", output).exit_code == 0


# ── live output ──────────────────────────────────────────────────────────────────────────────────────────────────


class LiveStore:
    """A store with a run whose output grows with each query."""

    def __init__(self, run: RunRecord, *told: str) -> None:
        self.queries = self
        self._run = replace(run, state=RunState.RUNNING, attempts=1, reason="", error=None)
        self._told = list(told)

    async def get_run(self, run_id: int) -> RunRecord:
        del run_id
        if len(self._told) == 1:
            self._run = replace(self._run, state=RunState.SUCCEEDED)
        return self._run

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        del run_id
        text = self._told.pop(0) if len(self._told) > 1 else self._told[0]
        return [LogRecord(1, text)] if text else []

    async def list_attempts(self, run_id: int) -> list[Any]:
        del run_id
        return []


def test_follow_shows_all_text_once_and_ends_with_the_run(database: Path, capsys: pytest.CaptureFixture[str]):
    async def check() -> int:
        store = await SqliteStore.open(database, read_only=True)
        run = await store.queries.get_run(1)
        await store.close()
        assert run is not None
        living: Any = LiveStore(
            run, "", "one\n", "one\n", "one\ntwo \x1b[3", "one\ntwo \x1b[31mred", "one\ntwo \x1b[31mred!\n"
        )
        printer = LogPrinter(attempt=None, step=None, as_json=False)
        return await logs._tell(living, OutputStore(None), 1, printer, True)

    assert asyncio.run(check()) == 0
    told = capsys.readouterr()
    assert told.out == "one\ntwo red!\n"
    assert told.err == "run 1 of tick: succeeded\n"


def marked(*records: Record) -> str:
    return "".join(encode_mark(Mark(*record[:3])) + record.text for record in records)


@pytest.mark.parametrize("step", [None, "test"])
def test_follow_shows_the_time_stream_and_step_of_live_lines(
    database: Path, capsys: pytest.CaptureFixture[str], in_berlin: None, step: str | None
):
    async def check() -> int:
        store = await SqliteStore.open(database, read_only=True)
        run = await store.queries.get_run(1)
        await store.close()
        assert run is not None
        one, two, three = RECORDS
        living: Any = LiveStore(run, marked(one), marked(one, two), marked(one, two, three._replace(text="ok\n")))
        printer = LogPrinter(attempt=None, step=step, as_json=False)
        return await logs._tell(living, OutputStore(None), 1, printer, True)

    assert asyncio.run(check()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "── attempt 1, 1970-01-01 (CET) ──",
        *(["01:00:01.000 out build | compiling", "01:00:02.000 err build | warning"] if step is None else []),
        "01:00:03.000 out test | ok",
    ]


def texts(capsys: pytest.CaptureFixture[str], *said: AttemptOutput) -> str:
    printer = LogPrinter(attempt=None, step=None, as_json=False, plain=True)
    for one in said:
        printer.tell(one)
    printer.close()
    return capsys.readouterr().out


def test_live_text_is_not_repeated_when_the_record_is_stored(capsys: pytest.CaptureFixture[str]):
    record = Record(1, "out", "", "compiling … done\nthe end\n")
    told = AttemptOutput(1, "compiling … \ndone\n\n")  # each piece of a note ends with a line break
    assert texts(capsys, told, AttemptOutput(1, record.text, [record], kept=True)) == "compiling … \ndone\n\nthe end\n"


def test_text_with_a_lost_middle_continues_where_it_is_known_or_has_a_remark(capsys: pytest.CaptureFixture[str]):
    first = "".join(f"line {number}\n" for number in range(200))
    later = "line 0\n[… left out …]\n" + first[-600:] + "and more\n"
    assert texts(capsys, AttemptOutput(1, first), AttemptOutput(1, later)) == first + "and more\n"
    assert texts(capsys, AttemptOutput(1, "abc"), AttemptOutput(1, "xyz\n")) == f"abc{PASSED_OVER}xyz\n"
