"""What a type checker says to programs that use the library."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "program.txt"  # not .py: it is wrong on purpose, and only here
ROOT = PROGRAM.parents[2]


@pytest.mark.slow
def test_wrong_arguments_are_type_errors_and_right_ones_are_not(tmp_path):
    typed = tmp_path / "typed.py"
    typed.write_text(PROGRAM.read_text())
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "cache", typed],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    found = {int(line) for line in re.findall(r"typed\.py:(\d+): error", checked.stdout)}
    lines = PROGRAM.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert found == wrong, checked.stdout + checked.stderr
