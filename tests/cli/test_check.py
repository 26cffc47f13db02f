"""`onthedot check` and `onthedot lint`: everything that is wrong or odd, for people and for machines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onthedot.cli.main import cli
from onthedot.client.values import job_record
from onthedot.define.schema import file_schema
from onthedot.model.job import Job
from onthedot.model.task import Command, Param
from onthedot.operations.open_verbs import opened
from onthedot.operations.put_job import put_job
from onthedot.server.models import job_out
from tests.cli.conftest import Call, Stand

GOOD = "jobs:\n  - {name: a, schedule: '@daily', run: x}\n  - {name: b, after: [a], call: report}\n"
BAD = "jobs:\n  - name: a\n    schedule: '61 * * * *'\n    rn: x\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    return tmp_path


def test_a_good_file(call: Call, files: Path):
    result = call("check", "good.yaml")
    assert (result.exit_code, result.output) == (0, "good.yaml: 2 jobs, nothing is wrong\n")


def test_every_mistake_at_once_with_its_place(call: Call, files: Path):
    result = call("check", "good.yaml", "bad.yaml", "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == "good.yaml: 2 jobs, nothing is wrong\n"
    lines = result.stderr.splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == [
        "bad.yaml:2:5:", "bad.yaml:3:15:", "bad.yaml:4:5:", "none.yaml:",
    ]  # fmt: skip
    assert "did you mean 'run'?" in lines[2]
    assert lines[-1] == "4 problems in 2 files"


def test_for_machines(call: Call, files: Path):
    result = call("check", "good.yaml", "bad.yaml", "--json")
    assert result.exit_code == 2
    good, bad = json.loads(result.stdout)["files"]
    assert good == {"file": "good.yaml", "jobs": ["a", "b"], "problems": [], "warnings": []}
    assert [(one["line"], one["column"]) for one in bad["problems"]] == [(2, 5), (3, 15), (4, 5)]


def test_what_is_wrong_between_files(call: Call, files: Path):
    (files / "again.yaml").write_text("jobs: [{name: a, after: [b], noop: true}]")
    result = call("check", "good.yaml", "again.yaml")
    assert result.exit_code == 2
    assert "again.yaml: job 'a': expected each job once, it is in good.yaml already" in result.stderr
    (files / "circle.yaml").write_text("jobs: [{name: c, after: [d], noop: true}, {name: d, after: [c], noop: true}]")
    assert "expected no job to run after itself" in call("check", "circle.yaml").stderr


def test_json_is_a_file_of_jobs_too(call: Call, files: Path):
    (files / "jobs.json").write_text(json.dumps({"jobs": [{"name": "a", "run": "x\ny"}]}))
    assert call("check", "jobs.json").exit_code == 0


@pytest.mark.slow
def test_standard_input(files: Path):
    done = subprocess.run(
        [sys.executable, "-m", "onthedot", "check", "-"],
        input=BAD,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "standard input:4:5: unknown key 'rn'" in done.stderr


def test_the_schema_is_published(call: Call):
    assert json.loads(call("check", "--schema").output) == file_schema()


def test_no_file_is_no_answer(call: Call):
    result = call("check")
    assert result.exit_code == 2
    assert "expected the name of a file" in result.output


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_odd_expression(call: Call, stand: Stand):
    stand("2026-01-01T12:00:00Z")
    result = call("lint", "*/20 2 * * *", "--tz", "Europe/Berlin")
    assert result.exit_code == 0
    assert "the clocks in Europe/Berlin skip from 02:00 to 03:00" in result.output
    assert call("lint", "*/7 * * * *", "--exit-code").exit_code == 3
    assert call("lint", "*/5 * * * *", "--exit-code").output == (
        "*/5 * * * *   (every 5 minutes, UTC)\nnothing is odd\n"
    )


def test_an_odd_file(call: Call, files: Path):
    (files / "odd.yaml").write_text("jobs: [{name: a, schedules: ['*/7 * * * *', '@daily'], noop: true}]")
    result = call("lint", "odd.yaml", "--json")
    first, second = json.loads(result.output)["schedules"]
    assert (first["job"], [odd["kind"] for odd in first["odd"]], second["odd"]) == ("a", ["uneven"], [])
    assert call("lint", "good.yaml").output == "nothing is odd\n"
    assert "a: */7 * * * *" in call("lint", "odd.yaml").output


@pytest.fixture
def doubtful(files: Path) -> str:
    """A store with a job that an earlier version took, and this one would not."""
    job = Job(name="far", task=Command(argv=("ssh", "host", "${{ params.x }}")), params=(Param(name="x"),))

    async def fill() -> None:
        async with opened(f"sqlite:///{files}/otd.db") as there:
            await put_job(there.store, job, clock=there.clock, settings=there.settings)
            await there.verbs().put(Job(name="near", task=Command(argv=("ls", "${{ params.x }}")), params=job.params))

    asyncio.run(fill())
    return f"{files}/otd.db"


def test_stored_parameters_that_may_be_read_as_code(call: Call, doubtful: str):
    told = call("lint", "--db", doubtful)
    assert told.output.startswith("far: argv[2]: expected no parameter where it may be read as code")
    assert "near" not in told.output
    result = call("lint", "--db", doubtful, "--json", "--exit-code")
    assert result.exit_code == 3
    assert [one["job"] for one in json.loads(result.output)["parameters"]] == ["far"]


def test_a_stored_job_with_them_is_exported_and_read_by_clients(call: Call, doubtful: str):
    exported = call("export", "--db", doubtful)
    assert "name: far" in exported.output
    assert "cannot" not in exported.output
    assert "name: far" in call("export", "far", "--db", doubtful).output
    refused = CliRunner().invoke(cli, ["check", "-"], input=exported.output)
    assert refused.exit_code == 2

    async def told() -> Job:
        async with opened(f"sqlite:///{doubtful}") as there:
            record = await there.verbs().get_job("far")
            assert record is not None
            return job_record(job_out(record)).job

    assert asyncio.run(told()).name == "far"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["@daily", "--db", "otd.db"], "expected EXPR or FILE, or a store, got both"),
        (["--db", "otd.db", "--tz", "UTC"], "--tz: expected with EXPR only"),
        (["0 0 31 2 *"], "which never comes"),
        (["*", "*"], "expected one EXPR or FILE, got 2 words"),
        (["bad.yaml"], "bad.yaml:4:5: unknown key 'rn'"),
        (["good.yaml", "--tz", "UTC"], "--tz: expected with EXPR only"),
    ],
)
def test_what_lint_refuses(files: Path, arguments: list[str], expected: str):
    result = CliRunner().invoke(cli, ["lint", *arguments])
    assert result.exit_code == 2
    assert expected in result.output


def test_a_job_after_one_that_is_not_there(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It can never start: a warning of check and lint, plan and apply; no mistake, because it may be stored later."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("jobs: [{name: a, run: x, after: [nix]}]")
    Path("nix.yaml").write_text("jobs: [{name: nix, run: x}]")
    text = "a: after: no job 'nix' is stored; it does not start before there is one"
    checked = call("check", "a.yaml")
    assert (checked.exit_code, checked.stderr) == (
        0, "a.yaml: warning: job 'a': after: no job 'nix' is in these files; it does not start before there is one\n",
    )  # fmt: skip
    assert call("check", "a.yaml", "nix.yaml").stderr == ""
    assert "a: after: no job 'nix' is in this file" in call("lint", "a.yaml").stdout
    for command in ("plan", "apply"):
        assert f"! {text}" in call(command, "a.yaml", "--db", "it.db").stdout
    found = call("lint", "--db", "it.db", "--exit-code")
    assert (found.exit_code, found.stdout) == (3, f"{text}\n")
    assert json.loads(call("lint", "--db", "it.db", "--json").stdout)["after"] == [
        {"job": "a", "problem": text.removeprefix("a: ")}
    ]
    assert call("apply", "nix.yaml", "--db", "it.db").exit_code == 0
    assert call("lint", "--db", "it.db").stdout == "nothing is odd\n"
    assert "!" not in call("plan", "a.yaml", "--db", "it.db").stdout
