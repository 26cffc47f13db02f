"""What is missing is installed, or fails, or is named: never passed over."""

from __future__ import annotations

import pytest

from tests.servers import plugin, setup
from tests.servers.setup import Program

MISSING = Program("no-such-program", "no-such-package", "a thing that is not there")
THERE = Program("sh", "dash", "the shell")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    run: list[str] = []

    def note(line: str) -> int:
        run.append(line)
        return 0

    monkeypatch.setattr(setup, "_run", note)
    return run


def allow(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    monkeypatch.setattr(Program, "may_be_installed", lambda _: allowed)


def test_what_is_there_is_left_alone(commands: list[str]):
    assert setup.install((THERE,)) == 0
    assert commands == []


def test_without_the_right_nothing_is_tried_and_it_is_said(monkeypatch, commands: list[str], capsys):
    allow(monkeypatch, False)
    assert setup.install((MISSING,)) == 0
    assert commands == []
    assert "will not be tested: a thing that is not there" in capsys.readouterr().out


def test_an_installation_that_brings_nothing_fails_with_the_line(monkeypatch, commands: list[str], capsys):
    allow(monkeypatch, True)
    assert setup.install((MISSING,)) == 1
    assert commands == [MISSING.install_line]
    assert "apt-get install -y --no-install-recommends no-such-package" in capsys.readouterr().err


def test_a_test_fails_if_it_could_have_its_program(monkeypatch):
    allow(monkeypatch, True)
    with pytest.raises(pytest.fail.Exception, match="apt-get install -y --no-install-recommends no-such-package"):
        plugin.need(MISSING)


def test_a_test_is_left_out_only_without_the_right(monkeypatch):
    allow(monkeypatch, False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: a thing that is not there: no-such-program"):
        plugin.need(MISSING)


def test_the_end_of_a_run_lists_what_was_left_out_once(pytester_lines):
    assert pytester_lines.count("NOT TESTED: a thing: x is not installed") == 1


@pytest.fixture
def pytester_lines() -> list[str]:
    """What the summary writes for two tests that were left out for one reason, and one for another kind of reason."""

    class Report:
        def __init__(self, reason: str) -> None:
            self.longrepr = ("file.py", 1, f"Skipped: {reason}")

    class Reporter:
        def __init__(self) -> None:
            self.lines: list[str] = []

        def getreports(self, name: str) -> list[Report]:
            missing = Report("NOT TESTED: a thing: x is not installed")
            return [missing, missing, Report("only on macOS")] if name == "skipped" else []

        def write_line(self, line: str, **markup: bool) -> None:
            self.lines.append(line)

    reporter = Reporter()
    plugin.pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    return reporter.lines
