"""The group of commands: help, version, misspelt names, and a quick start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import Result

import onthedot
from onthedot.cli.main import COMMANDS

Call = Callable[..., Result]


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


def test_the_version_is_the_packages(call: Call):
    assert call("--version").output == f"onthedot {onthedot.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("job", "'jobs'"), ("nxet", "'next'"), ("frobnicate", "known: apply, artifacts, audit, backfill, cancel, ")],
)
def test_a_misspelt_command_is_told_what_was_meant(call: Call, typed: str, meant: str):
    result = call(typed)
    assert result.exit_code == 2
    assert f"unknown command '{typed}'" in result.output
    assert meant in result.output


@pytest.mark.parametrize("arguments", [("node", "drian", "a"), ("queue", "drain", "a")])
def test_a_misspelt_command_of_a_group_is_told_what_was_meant(call: Call, arguments: tuple[str, ...]):
    result = call(*arguments)
    assert result.exit_code == 2
    assert ("did you mean 'drain'?" if arguments[0] == "node" else "known: pause, resume, share") in result.output


def test_a_misspelt_option_is_told_what_was_meant(call: Call):
    result = call("jobs", "--jsno")
    assert result.exit_code == 2
    assert "--json" in result.output


@pytest.mark.slow
def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "onthedot", "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"onthedot {onthedot.__version__}\n")


@pytest.mark.slow
def test_help_loads_no_database():
    probe = "import sys\nfrom onthedot.cli.main import cli\ncli(['--help'], standalone_mode=False)\n"
    probe += "print('LOADED', *(name for name in ('sqlite3', 'asyncpg', 'onthedot.cli.outbox') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1].split() == ["LOADED"]
