"""`onthedot simulate`: it prints the simulated load as text or JSON, and never calls a handler."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import datetime

import pytest

from onthedot.cli import simulation

PROGRAM = """
import onthedot as otd

sched = otd.Scheduler("sqlite:///never.db")
TZ = "Europe/Berlin"

def refuse():
    raise AssertionError("nobody calls this")

for number in range(5):
    sched.job(name=f"hourly_{number}", schedule=otd.cron("0 * * * *", tz=TZ))(refuse)
sched.job(name="report", schedule=otd.cron("30 2 * * *", tz=TZ), catch_up="last")(refuse)
sched.job(name="sync", schedule=otd.cron("*/15 * * * *", tz=TZ), overlap="skip")(refuse)
sched.job(name="mail", after=["report"])(refuse)
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(PROGRAM)
    yield "app.py"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == []


def test_the_report_has_jobs_outages_load_and_warnings(call, app):
    ended = call(
        "simulate", app, "--days", "2", "--from", "2026-06-01", "--durations", "sync=20m",
        "--outage", "2026-06-02T02:00..+4h",
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(
        "simulated  app.py from 2026-06-01 00:00:00 +02:00 to 2026-06-03 00:00:00 +02:00 (Europe/Berlin), in "
    )
    assert "outage     from 2026-06-02 02:00:00 +02:00 to 2026-06-02 06:00:00 +02:00" in lines
    assert "those marked ~ take 1.0 s, which is a guess: --durations JOB=5m" in ended.stdout
    rows = {line.split()[0]: line for line in lines if line}
    assert re.match(r"hourly_0 +44 +4 missed +on time +~1\.0 s +at the start of every hour", rows["hourly_0"])
    assert re.match(r"report +2 +1 +3 h 30 m +~1\.0 s", rows["report"])
    assert re.match(r"sync +88 +88 overlap, 16 missed +on time +20 m", rows["sync"])
    assert re.match(r"mail +2 .*after report", rows["mail"])
    assert [line[:9] for line in lines if line.startswith(("Mon ", "Tue "))] == ["Mon 06-01", "Tue 06-02"]
    assert "peak       7 attempts at once" in ended.stdout
    assert "warning    6 of 7 jobs start in one second, 44 times, such as at minute :00" in ended.stdout
    assert "warning    sync takes 20 m:" in ended.stdout
    assert "\x1b" not in ended.stdout


def test_the_report_can_be_json(call, app):
    ended = call("simulate", app, "--days", "1", "--from", "2026-03-29", "--json", "--seats", "3")
    answer = json.loads(ended.stdout)
    assert list(answer) == [
        "version", "program", "from", "to", "tz", "days", "seats", "assumed_s", "took_s", "outages", "jobs", "load",
        "peak", "warnings",
    ]  # fmt: skip
    assert (answer["version"], answer["tz"], answer["seats"], answer["days"]) == (1, "Europe/Berlin", 3, 1)
    day = datetime.fromisoformat(answer["to"]) - datetime.fromisoformat(answer["from"])
    assert day.total_seconds() == 23 * 3600, "the clocks go forward on this day"
    jobs = {job["job"]: job for job in answer["jobs"]}
    assert (jobs["hourly_0"]["runs"], jobs["report"]["runs"], jobs["mail"]["runs"]) == (23, 1, 1)
    [load] = answer["load"]
    assert load["day"] == "2026-03-29"
    assert load["hours"][2] == 0, "this hour did not exist"
    assert sum(load["hours"]) == sum(job["runs"] for job in answer["jobs"])
    assert {warning["kind"] for warning in answer["warnings"]} == {"herd", "seats"}
    described = call("simulate", "--help").stdout
    for name in {*answer, *jobs["report"]}:
        assert name in described, f"{name} is not documented in --help"


@pytest.mark.slow
def test_weeks_are_shown_by_weekday(call, app):
    ended = call("simulate", app, "--days", "15", "--from", "2026-06-01", "--durations", "*=5s", "--tz", "UTC")
    assert [line[:4] for line in ended.stdout.splitlines() if re.match(r"[A-Z][a-z]{2} +[░▒▓█]", line)] == [
        "Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun ",
    ]  # fmt: skip
    assert "starts an hour, on average (UTC)" in ended.stdout
    assert "~ take 5.0 s" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--durations", "5m"], "--durations: expected JOB=LENGTH, such as report=5m, got '5m'"),
        (["--durations", "report=often"], "--durations report: expected a length of time"),
        (["--durations", "reprot=5m"], "got 'reprot', did you mean 'report'"),
        (["--outage", "2026-06-01"], "--outage: expected START..END"),
        (["--outage", "2026-06-01T10:00..2026-06-01T09:00"], "expected its end after its start"),
        (["--outage", "2026-07-01..+1h"], "simulate more days"),
        (["--outage", "soon..+1h"], "--outage: expected a point in time"),
        (["--from", "tomorrow"], "--from: expected a point in time"),
        (["--tz", "Europe/Berlim"], "Europe/Berlin"),
        (["--days", "0"], "--days"),
    ],
)
def test_bad_input_is_refused(call, app, arguments, problem):
    ended = call("simulate", app, "--days", "2", "--from", "2026-06-01", *arguments)
    assert ended.exit_code == 2
    assert problem in ended.stderr
    assert "Traceback" not in ended.output


def test_progress_is_printed_on_standard_error(call, app, monkeypatch):
    monkeypatch.setattr(simulation, "_PATIENCE", 0)
    ended = call("simulate", app, "--days", "3", "--from", "2026-06-01", "--json")
    assert "simulated 33 % of 3 days" in ended.stderr
    json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_used_on_a_terminal_unless_disabled(app, no_color):
    command = [sys.executable, "-m", "onthedot", "simulate", app, "--days", "1", "--from", "2026-06-01"]
    reader, terminal = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm-256color", "COLUMNS": "150"}
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=environment) as process:
        os.close(terminal)
        shown = b""
        while chunk := _read(reader):
            shown += chunk
        assert process.wait(timeout=50) == 0
    os.close(reader)
    text = shown.decode()
    assert "Mon 06-01" in text
    assert ("\x1b[38;5;" in text) is not bool(no_color)
    assert ("\x1b" in text) is not bool(no_color)


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65_536)
    except OSError:  # on Linux, the other end is closed
        return b""
