"""Crash points: off by default, exact when armed, and every one of them is really there."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot import faults

SOURCE = Path(faults.__file__).parent


def run(point: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from onthedot import faults\n{code}\nprint('alive')"],
        env={faults.VARIABLE: point, "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_point_that_is_listed_is_in_the_source_and_the_other_way_round():
    used = {
        name for file in SOURCE.rglob("*.py") for name in re.findall(r'faults\.point\("([^"]+)"\)', file.read_text())
    }
    assert used == set(faults.POINTS)


def test_a_point_kills_the_process_there_and_then():
    assert run("plan.before_write", "faults.point('plan.before_write')").returncode == -signal.SIGKILL


def test_a_point_counts_its_visits():
    assert run("beat.before_write:3", "[faults.point('beat.before_write') for _ in range(2)]").returncode == 0
    assert run("beat.before_write:3", "[faults.point('beat.before_write') for _ in range(3)]").returncode == -9


def test_other_points_and_none_at_all_do_nothing():
    assert run("plan.before_write", "faults.point('plan.after_write')").stdout == "alive\n"
    assert run("", "faults.point('plan.after_write')").stdout == "alive\n"


@pytest.mark.parametrize("wrong", ["plan.nowhere", "plan.before_write:x"])
def test_a_point_that_does_not_exist_is_refused(wrong):
    ended = run(wrong, "")
    assert ended.returncode == 1
    assert "OTD_CRASHPOINT: expected one of" in ended.stderr
