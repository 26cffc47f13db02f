"""No unmarked test starts a child process, in whichever way it tries."""

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
    """What a child process is to do."""


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
def test_a_marked_test_may():
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
    """The output of a pytest on `INNER`."""
    (folder / "test_inner.py").write_text(INNER)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: one\n    soak: another\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.lanes", "-v", "-p", "no:cacheprovider", *more]
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_test_that_swallows_the_error_fails_too(tmp_path: Path):
    told = run_inner(tmp_path)
    assert "test_that_swallows_it FAILED" in told, told
    assert "1 failed, 4 passed" in told, told


@pytest.mark.slow
def test_servers_are_not_in_the_first_lane(tmp_path: Path):
    told = run_inner(tmp_path, "-m", "not slow and not soak")
    assert "test_with_a_parameter_that_names_a_server[memory] PASSED" in told, told
    assert "3 deselected" in told, told
