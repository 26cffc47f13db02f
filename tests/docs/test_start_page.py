"""Every block of docs/start.md, word for word, in a fresh directory, while `onthedot up` runs: by the command line, by
curl, by the library.

The port is another one, because other tests and servers of this machine may have it; nothing else is changed. What
installs it, from a checkout or a wheel, is read here, and was followed by hand.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.model.host_port import PORT
from tests.cli.started import Started, started
from tests.servers.running import free_port

PAGE = Path(__file__).parents[2] / "docs" / "start.md"
BIN = Path(sys.executable).parent

beside_make_up = pytest.mark.usefixtures("neighbour")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """What `make up` runs: sample jobs at the usual port, or another if that is taken."""
    with started(tmp_path_factory.mktemp("up"), "up", "--plain") as up:
        up.until("Ctrl-C drains")
        yield up


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


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
def test_by_the_command_line(tmp_path: Path):
    told = run("\n".join(blocks("sh cli")), tmp_path)
    assert "jobs.yaml: 1 job would change" in told
    assert "zone      Europe/Berlin" in told
    lines = [line for line in told.splitlines() if "testing version 1.2 in green" in line]
    assert lines, told
    assert "succeeded" in told


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
def test_by_curl(tmp_path: Path):
    script = "\n".join(blocks("sh curl")).replace("7412", str(free_port()))
    told = run(script, tmp_path)
    assert '"role":"admin"' in told.replace(" ", "")
    assert '"state":"succeeded"' in told.replace(" ", "")
    assert told.endswith(
        "}\nonthedot: step 1 of 2: greet\nhello from curl\nonthedot: step 2 of 2: bye\nbye\n\n"
    )  # text


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
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
    assert kinds == {"sh checkout", "sh wheel", "sh cli", "sh curl", "python"}


def test_what_installs_it_is_there():
    root = PAGE.parents[1]
    [target] = re.findall(r"^make (\S+)$", "".join(blocks("sh checkout")), re.MULTILINE)
    assert f"$(VENV)/{target.removeprefix('.venv/')}: " in (root / "Makefile").read_text()
    [extra] = re.findall(r"\.whl\)\[(\w+)\]", "".join(blocks("sh wheel")))
    assert extra in tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_no_port_is_the_one_of_make_up():
    assert str(PORT) not in "".join(blocks("sh curl"))


def test_the_preview_is_in_the_zone_of_the_job():
    zones = set(re.findall(r"tz[:=] ?\"?(\w+/\w+)|--tz (\S+)", "".join([*blocks("sh cli"), *blocks("python")])))
    assert {one or other for one, other in zones} == {"Europe/Berlin"}
