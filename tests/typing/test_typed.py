"""Type checkers accept right uses of the library and refuse wrong ones, and every option has a description."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.define import options
from onthedot.define.options import HandlerOptions, JobOptions, ProgramOptions
from onthedot.runners.hooks import KINDS

HERE = Path(__file__).parent
PROGRAMS = ("calls", "options")  # .txt, so that other tools skip them: they are wrong on purpose
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_only_wrong_uses_are_type_errors(tmp_path):
    """All programs share one run of mypy, because most of its time is for the library."""
    files = [tmp_path / f"{name}.py" for name in PROGRAMS]
    for name, file in zip(PROGRAMS, files, strict=True):
        file.write_text((HERE / f"{name}.txt").read_text())
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "cache", *files],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    for name, file in zip(PROGRAMS, files, strict=True):
        found = {int(line) for line in re.findall(rf"{name}\.py:(\d+): error", checked.stdout)}
        wrong = {number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# wrong")}
        assert found == wrong, (name, found ^ wrong, checked.stdout + checked.stderr)


@pytest.mark.parametrize(
    ("define", "kind"),
    [
        (otd.Scheduler.job, HandlerOptions),
        (otd.Scheduler.command, ProgramOptions),
        (otd.Scheduler.steps, ProgramOptions),
    ],
)
def test_a_signature_names_every_option(define: Callable[..., Any], kind: type):
    """`help()` and interactive shells show names, not types."""
    shown = inspect.signature(define).parameters
    assert shown.keys() > kind.__annotations__.keys()
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in shown.values())


def test_every_option_is_known_and_described():
    source = inspect.getsource(options)
    for kind in (JobOptions, HandlerOptions, ProgramOptions):
        for name in vars(kind)["__annotations__"]:
            assert name in options.OPTIONS or name in KINDS
            assert re.search(rf'\n    {name}: .*\n    """[A-Z`].*\."""\n', source), name
