"""Fault points do nothing by default, kill or freeze the process when set, and all exist in the source."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot import fault_points

pytestmark = pytest.mark.slow

SOURCE = Path(fault_points.__file__).parent


def run(point: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from onthedot import fault_points\n{code}\nprint('alive')"],
        env={fault_points.VARIABLE: point, "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_list_has_exactly_the_points_of_the_source():
    used = {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r'fault_points\.point\("([^"]+)"\)', file.read_text())
    }
    assert used == set(fault_points.POINTS)


def test_a_point_kills_the_process_immediately():
    assert run("plan.before_write", "fault_points.point('plan.before_write')").returncode == -signal.SIGKILL


def test_a_point_counts_its_visits():
    assert run("beat.before_write:3", "[fault_points.point('beat.before_write') for _ in range(2)]").returncode == 0
    assert run("beat.before_write:3", "[fault_points.point('beat.before_write') for _ in range(3)]").returncode == -9


def test_points_that_are_not_set_do_nothing():
    assert run("plan.before_write", "fault_points.point('plan.after_write')").stdout == "alive\n"
    assert run("", "fault_points.point('plan.after_write')").stdout == "alive\n"


@pytest.mark.parametrize("wrong", ["plan.nowhere", "plan.before_write:x"])
def test_an_unknown_point_is_refused(wrong):
    ended = run(wrong, "")
    assert ended.returncode == 1
    assert "OTD_CRASHPOINT: expected one of" in ended.stderr


def test_a_stop_point_freezes_the_process_immediately_and_once():
    loop = "for _ in range(3):\n    fault_points.point('beat.before_write')\n    print('on', flush=True)"
    environment = {fault_points.STOP_VARIABLE: "beat.before_write:2", "PYTHONPATH": str(SOURCE.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", f"from onthedot import fault_points\n{loop}"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        state = os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert state is not None
        assert state.si_status == signal.SIGSTOP
        assert os.read(child.stdout.fileno(), 99) == b"on\n"  # only the first visit has returned
        child.send_signal(signal.SIGCONT)
        assert child.communicate(timeout=30)[0] == "on\non\n"  # it stops only once
    assert child.returncode == 0


def test_an_unknown_stop_point_is_refused():
    environment = {fault_points.STOP_VARIABLE: "plan.nowhere", "PYTHONPATH": str(SOURCE.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", "import onthedot.fault_points"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "OTD_STOPPOINT: expected one of" in ended.stderr
