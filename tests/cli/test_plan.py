"""`onthedot plan` and `apply`: plan shows what a file would change, and apply changes exactly that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call, SetClock

BOTH = """\
jobs:
  - {name: backup, schedule: "0 2 * * *", run: echo hi}
  - {name: report, schedule: every 6h, run: echo report}
"""
MOVED = """\
jobs:
  - {name: backup, schedule: "30 3 * * *", run: echo hi}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "jobs.yaml"
    path.write_text(BOTH)
    return path


def names(call: Call) -> list[str]:
    return [job["job"] for job in json.loads(call("jobs", "--json").output)]


def test_a_plan_changes_nothing_and_creates_no_store(call: Call, file: Path):
    result = call("plan", file)
    assert result.exit_code == 0, result.output
    assert "+ backup: created\n    30 new starts in the next 30 days:\n      20" in result.output
    assert "+ report: created\n    120 new starts in the next 30 days:\n      20" in result.output
    assert "jobs.yaml: 2 jobs would change\n" in result.output
    assert "by hour of the day (" in result.output
    assert not (file.parent / "onthedot.db").exists()


def test_apply_stores_the_planned_jobs(call: Call, file: Path):
    assert "jobs.yaml: 2 jobs changed\n" in call("apply", file).output
    assert names(call) == ["backup", "report"]
    assert call("plan", file, "--exit-code").output == "= 2 jobs unchanged\nno changes\n"


def test_a_plan_shows_changed_fields_and_moved_starts(call: Call, file: Path, set_clock: SetClock):
    set_clock("2026-06-01T12:00Z")  # between 02:00 and 03:30 the next start would move to an earlier day
    call("apply", file)
    call("pause", "backup")
    file.write_text(MOVED)
    told = call("plan", file, "--exit-code")
    assert told.exit_code == 3
    assert "~ backup: changed (paused, and stays so)\n" in told.output
    assert '    schedule.cron: "0 2 * * *" → "30 3 * * *"\n' in told.output
    assert "    30 starts in the next 30 days moved by 1 h 30 m later:\n" in told.output
    assert "      2026-06-02 02:00:00 +00:00 → 2026-06-02 03:30:00 +00:00\n" in call("plan", file, "--utc").output
    assert "! not in jobs.yaml any more, and left as they are (--prune removes them): report\n" in told.output


def test_a_plan_shows_dates_in_the_users_time_zone(call: Call, file: Path, set_clock: SetClock, in_berlin: None):
    set_clock("2026-06-01T12:00Z")
    told = call("plan", file).output
    assert "    30 new starts in the next 30 days:\n      2026-06-02 04:00:00 +02:00\n" in told
    assert "by hour of the day (CEST):" in told
    assert "by hour of the day (UTC):" in call("plan", file, "--utc").output


def test_a_plan_says_if_it_stopped_counting_starts(call: Call, file: Path, set_clock: SetClock):
    set_clock("2026-06-01T12:00Z")
    file.write_text("jobs:\n  - {name: tick, schedule: every 10s, run: echo hi}\n")
    told = call("plan", file, "--utc", "--no-load").output
    assert "    more than 20,000 new starts, counting stopped at 2026-06-03 19:33:30 +00:00:\n" in told
    [job] = json.loads(call("plan", file, "--json").output)["jobs"]
    assert (len(job["appear"]), job["stopped"]) == (20_000, True)
    assert job["counted_until"] == "2026-06-03T19:33:29.999999Z"


def test_only_prune_removes_and_only_what_came_from_the_file(call: Call, file: Path, tmp_path: Path):
    other = tmp_path / "other.yaml"
    other.write_text("jobs:\n  - {name: other, run: echo other}\n")
    call("apply", other)
    call("apply", file)
    file.write_text(MOVED)
    call("apply", file)
    assert names(call) == ["backup", "other", "report"]
    told = json.loads(call("apply", file, "--prune", "--json").output)
    assert {job["name"]: job["change"] for job in told["jobs"]} == {"backup": "unchanged", "report": "removed"}
    assert len(told["jobs"][1]["vanish"]) == 120
    assert names(call) == ["backup", "other"]


def test_a_program_can_be_planned_and_applied(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(
        "import onthedot as otd\nsched = otd.Scheduler('memory:')\n"
        "@sched.job(schedule=otd.cron('@daily'))\nasync def tidy(): ...\n"
    )
    assert "app.py: 1 job changed" in call("apply", "app.py").output
    told = json.loads(call("plan", "app.py", "--source", "mine", "--json").output)
    assert told["jobs"][0]["until_now_from"] == "app.py"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs:\n  - {name: a, schedule: '0 2 * *', nonsense: 1}\n", "unknown key 'nonsense'"),
        ("jobs: {}\n", "expected a list"),
        ("", "jobs.yaml"),
    ],
)
def test_an_invalid_file_changes_nothing(call: Call, file: Path, text: str, problem: str):
    file.write_text(text)
    for command in ("plan", "apply"):
        result = call(command, file)
        assert result.exit_code == 2
        assert problem in result.output
    assert not (file.parent / "onthedot.db").exists()


def test_an_invalid_source_name_is_refused(call: Call, file: Path):
    result = call("apply", file, "--source", "what is this?")
    assert (result.exit_code, "source: expected letters" in result.output) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_pause_is_exported_planned_and_applied_to_another_store(
    call: Call, tmp_path: Path, kind: str, request: pytest.FixtureRequest
):
    fixtures = {"postgres": "postgres_url", "redis": "valkey_url"}
    there = request.getfixturevalue(fixtures[kind]) if kind in fixtures else f"sqlite:///{tmp_path / 'there.db'}"
    here, file = f"sqlite:///{tmp_path / 'here.db'}", tmp_path / "jobs.yaml"
    file.write_text("jobs:\n  - {name: tick, schedule: every 1s, run: date}\n  - {name: other, run: date}\n")
    assert call("apply", str(file), "--store", here).exit_code == 0
    assert call("pause", "tick", "--reason", "it moves", "--until", "2096-01-01T00:00Z", "--store", here).exit_code == 0
    file.write_text(call("export", "--store", here).stdout)
    assert "    paused: {reason: it moves, until: " in file.read_text()
    if kind != "sqlite":
        assert call("store", "migrate", "--store", there).exit_code == 0
    planned = call("plan", str(file), "--store", there)
    assert "+ tick: created (paused)\n" in planned.stdout
    assert call("apply", str(file), "--store", there).exit_code == 0
    states = {one["job"]: one for one in json.loads(call("jobs", "--json", "--store", there).stdout)}
    assert (states["tick"]["state"], states["other"]["state"]) == ("paused", "active")
    assert json.loads(call("runs", "--json", "--store", there).stdout or "[]") == []
    assert call("plan", str(file), "--store", there, "--exit-code").exit_code == 0
    file.write_text("jobs:\n  - {name: tick, paused: false, schedule: every 1s, run: date}\n")
    planned = call("plan", str(file), "--store", there)
    assert '    paused: {"reason": "it moves", "until": "2096-01-01T00:00Z"} → false\n' in planned.stdout
    assert call("apply", str(file), "--store", there).exit_code == 0
    [tick] = [one for one in json.loads(call("jobs", "--json", "--store", there).stdout) if one["job"] == "tick"]
    assert tick["state"] == "active"


def test_a_job_of_another_file_is_not_overwritten(call: Call, file: Path, tmp_path: Path):
    other = tmp_path / "timer.yaml"
    other.write_text("jobs: [{name: backup, schedule: '@daily', run: other}, {name: more, run: x}]")
    file.write_text("jobs: [{name: backup, schedule: '@hourly', run: mine}]")
    db = str(tmp_path / "it.db")
    assert call("apply", str(file), "--db", db).exit_code == 0
    planned = call("plan", str(other), "--db", db, "--no-load")
    assert f"! backup is stored from {file.name}: 'apply' refuses the whole file" in planned.stdout
    assert json.loads(call("plan", str(other), "--db", db, "--json").stdout)["refused"] == ["backup"]
    refused = call("apply", str(other), "--db", db)
    assert refused.exit_code == 2
    assert f"timer.yaml: job 'backup' is stored from {file.name}; nothing was written; " in refused.stderr
    assert "more" not in call("jobs", "--db", db).stdout
    taken = call("apply", str(other), "--db", db, "--take-over")
    assert (taken.exit_code, f"~ backup: changed (until now from {file.name})" in taken.stdout) == (0, True)


def test_a_job_without_a_start_soon_says_when_it_starts_first(call: Call, file: Path, set_clock: SetClock):
    set_clock("2026-06-01T12:00Z")
    file.write_text(
        "jobs:\n"
        "  - {name: yearly, schedule: '30 2 25 12 *', run: echo hi}\n"
        "  - {name: over, schedule: at 2026-05-01T09:00Z, run: echo hi}\n"
        "  - {name: asked, run: echo hi}\n"
        "  - {name: held, paused: true, schedule: '30 2 25 12 *', run: echo hi}\n"
    )
    told = call("plan", file, "--utc", "--no-load").output
    assert told == (
        "+ yearly: created\n"
        "    no start in the next 30 days; the first is 2026-12-25 02:30:00 +00:00\n"
        "+ over: created\n"
        "    no start in the next 30 days, and none later\n"
        "+ asked: created\n"
        "+ held: created (paused)\n"
        "jobs.yaml: 4 jobs would change\n"
    )
    call("apply", file)
    file.write_text("jobs:\n  - {name: yearly, schedule: '30 2 26 12 *', run: echo hi}\n")
    told = call("plan", file, "--utc", "--no-load").output
    assert "the first is 2026-12-26 02:30:00 +00:00\n" in told
    assert "it starts as before" not in told
