"""Every public name has a docstring with an example, and every example does what it says. So do the programs in
`examples/`."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import onthedot

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
MODULES = sorted({getattr(onthedot, name).__module__ for name in onthedot.__all__})


@pytest.mark.parametrize("name", onthedot.__all__)
def test_a_public_name_has_an_example(name):
    assert ">>>" in (getattr(onthedot, name).__doc__ or ""), f"onthedot.{name}: its docstring has no example"


@pytest.mark.parametrize("module", [*MODULES, "onthedot.scheduler_verbs", "onthedot.tasks.notes"])
def test_the_examples_in_docstrings_are_true(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.name)
def test_an_example_program_runs(program, tmp_path):
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
