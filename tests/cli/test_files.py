"""`onthedot check | lint | export | import`: files of jobs are checked, exported, and made from other formats."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

import onthedot as otd
from onthedot.cli.main import cli
from onthedot.client.values import job_record
from onthedot.define.job_reader import read_job_list, read_jobs
from onthedot.define.schema import file_schema
from onthedot.model.job import Call as CallTask
from onthedot.model.job import Job, Pause
from onthedot.model.task import Command, Param
from onthedot.operations.open_verbs import opened
from onthedot.operations.put_job import put_job
from onthedot.server.models import job_out
from onthedot.stores.sqlite import SqliteStore
from tests.cli.conftest import Call, SetClock
from tests.model.test_job_json import FULL

GOOD = "jobs:\n  - {name: a, schedule: '@daily', run: x}\n  - {name: b, after: [a], call: report}\n"
BAD = "jobs:\n  - name: a\n    schedule: '61 * * * *'\n    rn: x\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    return tmp_path


def test_a_valid_file_passes_the_check(call: Call, files: Path):
    result = call("check", "good.yaml")
    assert (result.exit_code, result.output) == (0, "good.yaml: 2 jobs, nothing is wrong\n")


def test_all_mistakes_are_reported_with_their_positions(call: Call, files: Path):
    result = call("check", "good.yaml", "bad.yaml", "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == "good.yaml: 2 jobs, nothing is wrong\n"
    lines = result.stderr.splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == [
        "bad.yaml:2:5:", "bad.yaml:3:15:", "bad.yaml:4:5:", "none.yaml:",
    ]  # fmt: skip
    assert "did you mean 'run'?" in lines[2]
    assert lines[-1] == "4 problems in 2 files"


def test_the_report_of_check_can_be_json(call: Call, files: Path):
    result = call("check", "good.yaml", "bad.yaml", "--json")
    assert result.exit_code == 2
    good, bad = json.loads(result.stdout)["files"]
    assert good == {"file": "good.yaml", "jobs": ["a", "b"], "problems": [], "warnings": []}
    assert [(one["line"], one["column"]) for one in bad["problems"]] == [(2, 5), (3, 15), (4, 5)]


def test_duplicates_and_cycles_across_files_are_reported(call: Call, files: Path):
    (files / "again.yaml").write_text("jobs: [{name: a, after: [b], noop: true}]")
    result = call("check", "good.yaml", "again.yaml")
    assert result.exit_code == 2
    assert "again.yaml: job 'a': expected each job once, it is in good.yaml already" in result.stderr
    (files / "circle.yaml").write_text("jobs: [{name: c, after: [d], noop: true}, {name: d, after: [c], noop: true}]")
    assert "expected no job to run after itself" in call("check", "circle.yaml").stderr


def test_a_file_of_jobs_can_be_json(call: Call, files: Path):
    (files / "jobs.json").write_text(json.dumps({"jobs": [{"name": "a", "run": "x\ny"}]}))
    assert call("check", "jobs.json").exit_code == 0


@pytest.mark.slow
def test_check_reads_standard_input(files: Path):
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


def test_check_prints_the_schema(call: Call):
    assert json.loads(call("check", "--schema").output) == file_schema()


def test_check_without_a_file_is_refused(call: Call):
    result = call("check")
    assert result.exit_code == 2
    assert "expected the name of a file" in result.output


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lint_reports_an_odd_expression(call: Call, set_clock: SetClock):
    set_clock("2026-01-01T12:00:00Z")
    result = call("lint", "*/20 2 * * *", "--tz", "Europe/Berlin")
    assert result.exit_code == 0
    assert "the clocks in Europe/Berlin skip from 02:00 to 03:00" in result.output
    assert call("lint", "*/7 * * * *", "--exit-code").exit_code == 3
    assert call("lint", "*/5 * * * *", "--exit-code").output == (
        "*/5 * * * *   (every 5 minutes, UTC)\nnothing is odd\n"
    )


def test_lint_reports_odd_schedules_of_a_file(call: Call, files: Path):
    (files / "odd.yaml").write_text("jobs: [{name: a, schedules: ['*/7 * * * *', '@daily'], noop: true}]")
    result = call("lint", "odd.yaml", "--json")
    first, second = json.loads(result.output)["schedules"]
    assert (first["job"], [odd["kind"] for odd in first["odd"]], second["odd"]) == ("a", ["uneven"], [])
    assert call("lint", "good.yaml").output == "nothing is odd\n"
    assert "a: */7 * * * *" in call("lint", "odd.yaml").output


@pytest.fixture
def doubtful(files: Path) -> str:
    """A store with a job that an earlier version accepted and this one refuses."""
    job = Job(name="far", task=Command(argv=("ssh", "host", "${{ params.x }}")), params=(Param(name="x"),))

    async def fill() -> None:
        async with opened(f"sqlite:///{files}/otd.db") as there:
            await put_job(there.store, job, clock=there.clock, settings=there.settings)
            await there.verbs().put(Job(name="near", task=Command(argv=("ls", "${{ params.x }}")), params=job.params))

    asyncio.run(fill())
    return f"{files}/otd.db"


def test_lint_reports_stored_parameters_that_may_be_read_as_code(call: Call, doubtful: str):
    told = call("lint", "--db", doubtful)
    assert told.output.startswith("far: argv[2]: expected no parameter where it may be read as code")
    assert "near" not in told.output
    result = call("lint", "--db", doubtful, "--json", "--exit-code")
    assert result.exit_code == 3
    assert [one["job"] for one in json.loads(result.output)["parameters"]] == ["far"]


def test_a_stored_job_with_such_parameters_is_exported_and_read_by_clients(call: Call, doubtful: str):
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
def test_lint_refuses_bad_input(files: Path, arguments: list[str], expected: str):
    result = CliRunner().invoke(cli, ["lint", *arguments])
    assert result.exit_code == 2
    assert expected in result.output


def test_a_missing_parent_is_a_warning(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The job cannot start, so check, lint, plan and apply warn. It is no error: the parent may be stored later."""
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


CORPUS = Path(__file__).parents[1] / "define" / "importers" / "corpus"


def stored(path: Path) -> list[Job]:
    async def read() -> list[Job]:
        store = await SqliteStore.open(path, read_only=True)
        jobs = [record.job for record in await store.queries.list_jobs()]
        await store.close()
        return jobs

    return asyncio.run(read())


def put(path: Path, *jobs: Job) -> None:
    async def write() -> None:
        store = await SqliteStore.open(path)
        for job in jobs:
            await store.put_job(job)
        await store.close()

    asyncio.run(write())


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_exported_jobs_equal_the_stored_ones(call: Call, database: Path, form: str):
    result = call("export", "--db", str(database), "--format", form)
    assert result.exit_code == 0
    text = result.stdout
    assert (read_jobs(text) if form == "yaml" else read_job_list(json.loads(text))) == stored(database)


def test_a_field_that_a_file_cannot_express_becomes_a_comment(call: Call, tmp_path: Path):
    put(tmp_path / "it.db", Job(name="soon", task=CallTask(handler="x"), schedules=(otd.in_("1h"),)))
    text = call("export", "--db", str(tmp_path / "it.db")).stdout
    assert "  # 'in …' is counted from when it is stored" in text
    told = call("export", "--db", str(tmp_path / "it.db"), "--format", "json").stderr
    assert told.startswith("default/soon: 'in …' is counted")


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_pause_is_exported(call: Call, database: Path, form: str):
    until = ("--until", "2096-01-01T09:00+01:00")
    assert call("pause", "tick", "--reason", "too loud\nby far", *until, "--db", str(database)).exit_code == 0
    result = call("export", "tick", "--db", str(database), "--format", form)
    [job] = read_jobs(result.stdout) if form == "yaml" else read_job_list(json.loads(result.stdout))
    assert job.paused == Pause(reason="too loud by far", until=datetime(2096, 1, 1, 8, tzinfo=UTC))
    assert (result.stderr, "#" in result.stdout) == ("", False)


def test_a_long_reason_of_a_pause_is_exported_shortened(call: Call, database: Path):
    assert call("pause", "tick", "--reason", "long " * 400, "--db", str(database)).exit_code == 0
    [job] = read_jobs(call("export", "tick", "--db", str(database)).stdout)
    assert job.paused is not None
    assert job.paused.reason == "long " * 100


def test_a_job_that_a_file_cannot_express_is_named(call: Call, tmp_path: Path):
    deep: list[object] = []
    for _ in range(30):
        deep = [deep]
    plain = Job(name="plain", task=CallTask(handler="a"), retry=otd.Retry(2, when="app.rule"))
    put(tmp_path / "it.db", Job(name="deep", task=CallTask(handler="a"), args={"a": deep}), plain)
    text = call("export", "--db", str(tmp_path / "it.db")).stdout
    assert "# default/deep cannot be written in a file: " in text
    assert "# retry.when names a function of the program, app.rule" in text
    assert read_jobs(text) == [plain]


def test_jobs_can_be_exported_as_csv(call: Call, database: Path):
    result = call("export", "--db", str(database), "--format", "csv")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(result.stdout))}
    assert rows["report"]["schedule"] == "30 2 * * *; every 1d from 2026-01-01T09:00Z"
    assert rows["report"]["next"] == "2026-03-29T01:00:00+00:00" or rows["report"]["next"].startswith(
        "2026-03-29T01:00"
    )
    assert rows["long"]["task"] == "sleep 1h"
    assert rows["on_demand"]["next"] == ""


def test_the_export_can_be_limited_to_a_job_or_namespace(call: Call, database: Path):
    put(database, Job(name="tick", namespace="team", task=CallTask(handler="a")))
    both = read_jobs(call("export", "tick", "--db", str(database)).stdout)
    assert [job.namespace for job in both] == ["default", "team"]
    [job] = read_jobs(call("export", "--namespace", "team", "--db", str(database)).stdout)
    assert (job.name, job.namespace) == ("tick", "team")
    assert call("export", "--namespace", "none", "--db", str(database)).stdout == "jobs: []\n"
    refused = call("export", "tik", "--db", str(database))
    assert refused.exit_code == 2
    assert "expected the name of a stored job, got 'tik', did you mean 'tick'?" in refused.stderr


def test_a_job_with_conflicting_options_is_named_and_not_written(call: Call, tmp_path: Path):
    """The options of FULL exclude each other, so no file can define it."""
    put(tmp_path / "it.db", FULL)
    result = call("export", "--db", str(tmp_path / "it.db"))
    assert result.exit_code == 0
    assert result.stdout.startswith("jobs: []\n  # team/report cannot be written in a file: ")
    assert read_jobs(result.stdout) == []


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("form", "file", "names", "said", "code"),
    [
        (
            "crontab",
            "user.crontab",
            ["backup", "sync"],
            "user.crontab:12:1: '@reboot /usr/local/bin/warm-cache': it",
            3,
        ),
        ("systemd", "backup.timer", ["backup"], "backup.service:7:1: it runs as backup there", 0),
        ("systemd", "poll.timer", ["poll"], "OnBootSec=2min: it counts from the start of the machine", 3),
        ("kubernetes", "cronjobs.yaml", ["report", "tick"], "cronjobs.yaml:13:1: successfulJobsHistoryLimit: ", 3),
        ("csv", "document.csv", ["143214", "143215"], "'noop' stands in its place", 0),
    ],
)
def test_files_of_other_formats_are_imported(call: Call, form: str, file: str, names: list[str], said: str, code: int):
    result = call("import", str(CORPUS / file), "--from", form)
    assert result.exit_code == code
    assert [job.name for job in read_jobs(result.stdout)][: len(names)] == names
    assert said in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.split()[1].startswith("job")
    assert f" {result.stderr.count('; left out')} left out" in last  # only left-out jobs and starts use these words


def test_left_out_lines_are_comments_in_the_file(call: Call, tmp_path: Path):
    (tmp_path / "it").write_text("0 1 * * * a\n@reboot warm\n")
    text = call("import", str(tmp_path / "it"), "--from", "crontab", "--tz", "UTC").stdout
    assert text.rstrip().endswith(
        "it:2:1: '@reboot warm': it names no time; start it with systemd or with a program; left out"
    )
    assert text.count("# not imported: ") == 1
    assert [job.name for job in read_jobs(text)] == ["a"]


def test_the_report_of_an_import_can_be_json(call: Call):
    result = call("import", str(CORPUS / "user.crontab"), "--from", "crontab", "--tz", "Europe/Berlin", "--json")
    told = json.loads(result.stdout)
    assert [job["name"] for job in told["jobs"]][:2] == ["backup", "sync"]
    assert {one["line"] for one in told["remarks"] if one["left_out"]} == {12, 18, 19}
    assert all(one["file"].endswith("user.crontab") and one["text"] for one in told["remarks"])
    assert (result.stderr, result.exit_code) == ("", 3)


def test_a_crontab_uses_the_time_zone_of_the_machine(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    (tmp_path / "it").write_text("30 2 * * * backup\n")
    result = call("import", str(tmp_path / "it"), "--from", "crontab")
    assert read_jobs(result.stdout)[0].schedules == (otd.cron("30 2 * * *", tz="Asia/Kathmandu"),)
    assert "it: times without a zone are read in Asia/Kathmandu, the zone of this machine; --tz sets another" in (
        result.stderr
    )
    named = call("import", str(tmp_path / "it"), "--from", "crontab", "--tz", "UTC")
    assert (read_jobs(named.stdout)[0].schedules, "zone" in named.stderr) == ((otd.cron("30 2 * * *"),), False)
    assert named.stderr == "1 job, 0 remarks, 0 left out\n"


def test_comments_of_a_crontab_are_kept_above_their_job(call: Call, tmp_path: Path):
    (tmp_path / "it").write_text("# m h dom mon dow command\n\n# Nightly: \x1b[31mred\n30 2 * * * backup\n")
    result = call("import", str(tmp_path / "it"), "--from", "crontab", "--tz", "UTC")
    assert result.stdout.startswith("jobs:\n  # Nightly:  [31mred\n  - name: backup\n")


def test_an_import_can_store_its_jobs(call: Call, tmp_path: Path):
    path = tmp_path / "it.db"
    assert call("store", "migrate", "--db", str(path)).exit_code == 0
    arguments = ("import", str(CORPUS / "cronjobs.yaml"), "--from", "kubernetes", "--apply", "--db", str(path))
    assert call(*arguments).stdout == "report: created\ntick: created\n"
    assert call(*arguments).stdout == "report: unchanged\ntick: unchanged\n"
    assert [(job.namespace, job.name) for job in stored(path)] == [("default", "tick"), ("shop", "report")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none.txt", "--from", "crontab"], "none.txt: expected a file that can be read"),
        (["empty.txt", "--from", "csv"], "expected a column 'name' or 'job_id'"),
        (["empty.txt", "--from", "crontab"], "0 jobs"),
        (["empty.txt", "--from", "moon"], "'moon' is not one of"),
        (["empty.txt", "--from", "csv", "--tz", "Mars"], "Mars"),
        (["binary.txt", "--from", "csv"], "expected text in UTF-8"),
    ],
)
def test_bad_input_of_an_import_is_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    result = call("import", *arguments)
    assert result.exit_code == 2
    assert expected in result.output


def test_a_repeated_name_gets_a_number(call: Call, tmp_path: Path):
    """No job is lost. The job of the second file gets the same number at each import."""
    (tmp_path / "a").write_text("# first\n0 2 * * * /usr/bin/backup /srv\n")
    (tmp_path / "b").write_text("# second\n0 3 * * * /usr/bin/backup /home\n0 4 * * * /usr/bin/backup-2\n")
    arguments = ("import", str(tmp_path / "a"), str(tmp_path / "b"), "--from", "crontab", "--tz", "UTC")
    result = call(*arguments)
    jobs = {job.name: job.schedules[0] for job in read_jobs(result.stdout)}
    assert jobs == {
        "backup": otd.cron("0 2 * * *"), "backup-3": otd.cron("0 3 * * *"), "backup-2": otd.cron("0 4 * * *"),
    }  # fmt: skip
    assert "job 'backup': a file before this one has a job of this name; this one is named 'backup-3'" in result.stderr
    assert "b:2:1: " in result.stderr
    assert result.exit_code == 0
    first, second = result.stdout.index("# first"), result.stdout.index("# second")
    assert first < result.stdout.index("name: backup\n") < second < result.stdout.index("name: backup-3")
    assert call(*arguments).stdout == result.stdout


def test_a_renamed_job_is_still_a_parent(call: Call, tmp_path: Path):
    (tmp_path / "a.csv").write_text("name,schedule,run\nload,@daily,x\n")
    (tmp_path / "b.csv").write_text("name,schedule,run\nload,@hourly,y\nreport,after load,z\n")
    result = call("import", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--from", "csv")
    [_, load, report] = read_jobs(result.stdout)
    assert load.name == "load-2"
    assert report.after == otd.After("load-2")


@pytest.mark.parametrize(
    ("file", "said", "names"),
    [
        ("user.crontab", "read as a crontab", ["backup", "sync"]),
        ("backup.timer", "read as a systemd unit", ["backup"]),
        ("cronjobs.yaml", "read as YAML of Kubernetes", ["report", "tick"]),
        ("document.csv", "read as a table", ["143214", "143215"]),
    ],
)
def test_an_import_guesses_the_format_and_names_it(call: Call, file: str, said: str, names: list[str]):
    result = call("import", str(CORPUS / file))
    assert f"{file}: {said}; --from reads it as something else" in result.stderr
    assert [job.name for job in read_jobs(result.stdout)][: len(names)] == names


def test_all_timers_of_a_folder_are_imported(call: Call, tmp_path: Path):
    for name in ("backup.timer", "backup.service", "poll.timer", "poller.service"):
        (tmp_path / name).write_text((CORPUS / name).read_text())
    for more in ((), ("--from", "systemd")):
        result = call("import", *more, str(tmp_path), "--tz", "UTC")
        assert [job.name for job in read_jobs(result.stdout)] == ["backup", "poll"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["cj.yaml", "--from", "crontab"],
            "cj.yaml: expected a crontab, but this looks like YAML of Kubernetes: --from kub",
        ),
        (
            ["my.crontab", "--from", "kubernetes"],
            "my.crontab: expected YAML of Kubernetes, but this looks like a crontab",
        ),
        (["text.txt"], "text.txt: it does not look like csv, crontab, systemd, kubernetes; say what it is with --from"),
        (["cj.yaml", "my.crontab"], "expected files of one kind, got several: cj.yaml is YAML of Kubernetes, my.cront"),
        (
            ["jobs.yaml"],
            "jobs.yaml: this is a file of jobs already; 'onthedot check FILE' and 'onthedot apply FILE' read it",
        ),
        (["empty"], "empty: expected a folder with timers (*.timer), YAML or tables, found none"),
        (["empty", "--from", "systemd"], "empty: expected a folder with *.timer, found none"),
    ],
)
def test_a_file_of_another_format_is_refused_in_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("cj.yaml").write_text((CORPUS / "cronjobs.yaml").read_text())
    Path("my.crontab").write_text("PATH=/bin\n0 2 * * * backup\n")
    Path("jobs.yaml").write_text("# mine\njobs: [{name: a, run: x}]\n")
    Path("text.txt").write_text("Hello world\n")
    result = call("import", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: {expected}" in result.stderr
    assert len(result.stderr.splitlines()) == 1
