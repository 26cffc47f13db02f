"""Missing programs: they are installed, or their tests fail, or they are listed as not tested."""

from __future__ import annotations

import pytest

from tests.servers import plugin, setup
from tests.servers.setup import Program

MISSING = Program("no-such-program", "no-such-package", "a thing that is not there")
PRESENT = Program("sh", "dash", "the shell")


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


def test_a_present_program_is_not_installed(commands: list[str]):
    assert setup.install((PRESENT,)) == 0
    assert commands == []


def test_without_the_right_a_missing_program_is_only_reported(monkeypatch, commands: list[str], capsys):
    allow(monkeypatch, False)
    assert setup.install((MISSING,)) == 0
    assert commands == []
    assert "will not be tested: a thing that is not there" in capsys.readouterr().out


def test_a_failed_installation_prints_the_command(monkeypatch, commands: list[str], capsys):
    allow(monkeypatch, True)
    assert setup.install((MISSING,)) == 1
    assert commands == [MISSING.install_line]
    assert "apt-get install -y --no-install-recommends no-such-package" in capsys.readouterr().err


def test_a_test_fails_if_its_program_could_be_installed(monkeypatch):
    allow(monkeypatch, True)
    with pytest.raises(pytest.fail.Exception, match="apt-get install -y --no-install-recommends no-such-package"):
        plugin.need(MISSING)


def test_a_test_is_skipped_only_without_the_right(monkeypatch):
    allow(monkeypatch, False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: a thing that is not there: no-such-program"):
        plugin.need(MISSING)


def test_the_summary_lists_each_untested_thing_once(pytester_lines):
    assert pytester_lines.count("NOT TESTED: a thing: x is not installed") == 1


@pytest.fixture
def pytester_lines() -> list[str]:
    """The lines of the summary for two tests skipped for the same missing program, and one skipped otherwise."""

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
