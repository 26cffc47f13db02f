"""The command `onthedot` itself: help, version, misspelt names, shell completion, and what is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onthedot
from onthedot.cli.main import COMMANDS, SHELLS
from tests.cli.conftest import Call


def test_help_lists_every_command(call: Call):
    result = call("--help")
    assert result.exit_code == 0
    lines = result.output.partition("Commands:\n")[2].splitlines()[: len(COMMANDS)]
    assert [line.split()[0] for line in lines] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(call: Call, command: str):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    onthedot {command}" in result.output


def test_version_prints_the_version_of_the_package(call: Call):
    assert call("--version").output == f"onthedot {onthedot.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("job", "'jobs'"), ("nxet", "'next'"), ("frobnicate", "known: apply, artifacts, audit, backfill, cancel, ")],
)
def test_a_misspelt_command_gets_a_suggestion(call: Call, typed: str, meant: str):
    result = call(typed)
    assert result.exit_code == 2
    assert f"unknown command '{typed}'" in result.output
    assert meant in result.output


@pytest.mark.parametrize("arguments", [("node", "drian", "a"), ("queue", "drain", "a")])
def test_a_misspelt_command_of_a_group_gets_a_suggestion(call: Call, arguments: tuple[str, ...]):
    result = call(*arguments)
    assert result.exit_code == 2
    assert ("did you mean 'drain'?" if arguments[0] == "node" else "known: pause, resume, share") in result.output


def test_a_misspelt_option_gets_a_suggestion(call: Call):
    result = call("jobs", "--jsno")
    assert result.exit_code == 2
    assert "--json" in result.output


@pytest.mark.slow
def test_onthedot_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "onthedot", "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"onthedot {onthedot.__version__}\n")


def loaded(arguments: list[str], names: str, folder: Path) -> list[str]:
    """The modules among `names` that a command imports."""
    probe = "import sys\nfrom onthedot.cli.main import cli\ncli(sys.argv[2:], standalone_mode=False)\n"
    probe += "print('LOADED', *(name for name in sys.argv[1].split() if name in sys.modules))"
    run = [sys.executable, "-c", probe, names, *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=30, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.slow
def test_help_imports_no_database_and_no_command(tmp_path: Path):
    commands = " ".join(f"onthedot.cli.{entry.module}" for entry in COMMANDS.values() if entry.module != "main")
    assert loaded(["--help"], f"sqlite3 asyncpg asyncio rich onthedot.schedules.cron {commands}", tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["up", "plan", "simulate", "doctor"])
def test_the_help_of_a_command_does_not_import_the_engine(command: str, tmp_path: Path):
    probe = ["-c", "import sys\nfrom onthedot.cli.main import cli\ncli(sys.argv[1:])", command, "--help"]
    done = subprocess.run([sys.executable, "-X", "importtime", *probe], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "onthedot.scheduler\n" in done.stderr) == (0, False)


@pytest.mark.slow
def test_a_list_imports_neither_the_client_nor_the_engine(call: Call, tmp_path: Path):
    assert call("store", "migrate", "--db", tmp_path / "onthedot.db").exit_code == 0
    slow = "onthedot.client.client onthedot.client.views onthedot.operations.open_verbs onthedot.scheduler rich fastapi"
    assert loaded(["jobs"], f"{slow} onthedot.cli.jobs", tmp_path) == ["onthedot.cli.jobs"]


ONTHEDOT = Path(sys.executable).with_name("onthedot")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script_for_each_shell(call: Call, shell: str):
    result = call("completion", shell)
    assert result.exit_code == 0
    assert f"_ONTHEDOT_COMPLETE={shell}_complete" in result.output
    assert "onthedot" in result.output


def test_an_unknown_shell_is_refused_with_the_known_ones(call: Call):
    result = call("completion", "tcsh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["onthedot", "do"], ["doctor"]),
        (["onthedot", "runs", "--j"], ["--job", "--json"]),
        (["onthedot", "completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes_commands_and_options(tmp_path: Path, typed: list[str], expected: list[str]):
    script = (
        'eval "$(onthedot completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
        '_onthedot_completion onthedot; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{ONTHEDOT.parent}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["bash", "-c", script, "bash", *typed], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert sorted(told.stdout.split()) == expected
