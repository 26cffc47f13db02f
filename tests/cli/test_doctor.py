"""`onthedot doctor`: it reports what works on this machine, as text or JSON, with an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onthedot.runners import probes
from onthedot.runners.probes import Cgroups, Probe
from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has git, but neither a sandbox nor containers."""
    monkeypatch.setattr(probes, "git", lambda: Probe("ok", "git version 2.39.5"))
    monkeypatch.setattr(probes, "bubblewrap", lambda: Probe("missing", "bwrap is not installed"))
    monkeypatch.setattr(probes, "user_level", lambda: Probe("ok", "root"))
    monkeypatch.setattr(probes, "container_engine", lambda: Probe("broken", "/x.sock does not answer: refused"))
    monkeypatch.setattr(probes, "cgroups", lambda: Cgroups(2, frozenset({"memory", "pids"}), writable=True))


def test_findings_are_listed_with_remedies(call: Call, database: Path):
    result = call("doctor", "--db", database)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == [
        "store", "kept", "pools", "clock", "python", "tzdata", "open files", "spool", "bubblewrap", "user", "cgroups",
        "containers", "git",
    ]  # fmt: skip
    place = lines.index("bubblewrap  missing  bwrap is not installed")
    assert lines[place + 1].strip().startswith("no isolation 'sandbox'")
    assert lines[place + 2].strip().startswith("do: install bubblewrap")


def test_findings_can_be_json(call: Call, database: Path):
    told = json.loads(call("doctor", "--db", database, "--json").output)
    assert told["ok"] is True
    assert list(told["findings"][0]) == ["name", "state", "found", "costs", "remedy", "wanted"]
    assert {one["state"] for one in told["findings"]} == {"ok", "missing", "broken"}


def test_a_configured_part_that_fails_gives_exit_code_1(call: Call, tmp_path: Path):
    result = call("doctor", "--db", tmp_path / "none.db", "--output", tmp_path / "none")
    assert result.exit_code == 1
    assert result.output.endswith("configured, and not working: store, output\n")
    told = call("doctor", "--db", tmp_path / "none.db", "--json")
    assert (told.exit_code, json.loads(told.output)["ok"]) == (1, False)


def test_a_missing_default_store_is_no_failure(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = call("doctor")
    assert result.exit_code == 0, result.output
    assert "store       missing" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_checked_with_its_settings_jobs_and_store(call: Call, tmp_path: Path):
    (tmp_path / "shop.py").write_text(
        "import onthedot as otd\n"
        "from onthedot.model.task import Command\n"
        f"sched = otd.Scheduler('sqlite:///{tmp_path}/shop.db', settings=otd.Settings(seats=3))\n"
        "sched.jobs['build'] = otd.Job(name='build', task=Command(argv=('make',)), isolation='sandbox')\n"
    )
    assert call("store", "migrate", "--db", tmp_path / "shop.db").exit_code == 0
    result = call("doctor", tmp_path / "shop.py")
    assert result.exit_code == 1
    assert "3 seats" in result.output
    assert result.output.endswith("configured, and not working: bubblewrap\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "mysql://x"], "store URL: expected"),
        (["none.py"], "PROGRAM: expected a Python file"),
        (["--db", "a", "--store", "memory:"], "expected --store or --db, got both"),
    ],
)
def test_bad_input_is_refused(call: Call, arguments: list[str], message: str):
    result = call("doctor", *arguments)
    assert result.exit_code == 2
    assert message in result.output
