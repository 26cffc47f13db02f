"""A test without the mark `slow` fails if it starts a child process in any way."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import lanes


def nothing() -> None:
    """The work of a child process."""


def start(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    context.Process(target=nothing).start()


WAYS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "a shell": lambda: os.system("true"),  # noqa: S605
    "fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "asyncio": lambda: asyncio.run(asyncio.create_subprocess_exec("true")),
    "multiprocessing by fork": lambda: start("fork"),
    "multiprocessing by spawn": lambda: start("spawn"),
    "multiprocessing by forkserver": lambda: start("forkserver"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_unmarked_test_starts_no_child_process(way: str):
    with pytest.raises(pytest.fail.Exception, match=r"needs @pytest\.mark\.slow"):
        WAYS[way]()
    lanes.forget()


@pytest.mark.slow
def test_a_slow_test_may_start_a_child_process():
    assert subprocess.run(["true"], check=False).returncode == 0


INNER = """
import subprocess
import pytest

def test_that_swallows_it():
    try:
        subprocess.run(["true"])
    except BaseException:
        pass

@pytest.fixture
def valkey():
    return subprocess.run(["true"]).returncode

def test_with_a_fixture_that_starts_a_server(valkey):
    assert valkey == 0

@pytest.mark.parametrize("store", ["memory", "redis"])
def test_with_a_parameter_that_names_a_server(store):
    pass

@pytest.mark.soak
def test_that_is_long():
    subprocess.run(["true"])
"""


def run_inner(folder: Path, *more: str) -> str:
    """Run pytest on `INNER`, and return its output."""
    (folder / "test_inner.py").write_text(INNER)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: one\n    soak: another\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.lanes", "-v", "-p", "no:cacheprovider", *more]
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_test_that_swallows_the_error_fails_too(tmp_path: Path):
    printed = run_inner(tmp_path)
    assert "test_that_swallows_it FAILED" in printed, printed
    assert "1 failed, 4 passed" in printed, printed


@pytest.mark.slow
def test_tests_that_need_a_server_are_marked_as_slow(tmp_path: Path):
    printed = run_inner(tmp_path, "-m", "not slow and not soak")
    assert "test_with_a_parameter_that_names_a_server[memory] PASSED" in printed, printed
    assert "3 deselected" in printed, printed
