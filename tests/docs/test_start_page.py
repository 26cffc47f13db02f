"""Every block of docs/start.md, word for word, in a fresh directory: by the command line, by curl, by the library.

The port is another one, because this machine may have its own server; nothing else is changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.running import free_port

PAGE = Path(__file__).parents[2] / "docs" / "start.md"
BIN = Path(sys.executable).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def homes(folder: Path) -> dict[str, str]:
    """Where a new user's programs keep what they have, and root's: not on this machine."""
    return {"HOME": str(folder), "OTD_STATE_DIR": str(folder / "state")}


def run(script: str, folder: Path) -> str:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", **homes(folder)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_by_the_command_line(tmp_path: Path):
    told = run("\n".join(blocks("sh cli")), tmp_path)
    assert "jobs.yaml: 1 job would change" in told
    lines = [line for line in told.splitlines() if "testing version 1.2 in green" in line]
    assert lines, told
    assert "succeeded" in told


def test_by_curl(tmp_path: Path):
    script = "\n".join(blocks("sh curl")).replace("7411", str(free_port()))
    told = run(script, tmp_path)
    assert '"role":"admin"' in told.replace(" ", "")
    assert '"state":"succeeded"' in told.replace(" ", "")
    assert "hello from curl" in told
    assert "bye" in told


def test_by_the_library(tmp_path: Path):
    [program] = blocks("python")
    (tmp_path / "start.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "start.py"], cwd=tmp_path, env=homes(tmp_path), capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "compiling" in done.stdout
    assert "testing" in done.stdout


def test_every_block_is_executed():
    kinds = set(re.findall(r"```(.+)\n", PAGE.read_text()))
    assert kinds == {"sh cli", "sh curl", "python"}
