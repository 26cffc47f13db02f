"""The programs in `examples/`: each runs to its end and prints the lines that its comments promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.name)
def test_an_example_program_prints_what_it_promises(program, tmp_path):
    ended = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert ended.returncode == 0, ended.stderr
    expected = [line.removeprefix("# prints: ") for line in program.read_text().splitlines() if "# prints: " in line]
    assert expected
    for line in expected:
        assert line in ended.stdout, ended.stdout


def test_there_are_example_programs():
    assert len(EXAMPLES) >= 3
