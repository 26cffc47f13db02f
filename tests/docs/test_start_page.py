"""The pages in docs/start: every block runs word for word in a fresh folder, while `onthedot up` runs.

Only the port is changed, because other servers on this machine may use it. The installation steps are checked here
for existing targets, and were followed by hand.
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
from tests.docs.pages import RUN, blocks
from tests.servers.running import free_port

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start"
CLI, HTTP, PYTHON = PAGES = [START / "cli.md", START / "http.md", START / "python.md"]
BIN = Path(sys.executable).parent

beside_make_up = pytest.mark.usefixtures("neighbour")


def texts(page: Path, kind: str) -> list[str]:
    return [block.text for block in blocks(page) if block.kind == kind]


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The command that `make up` runs: sample jobs, with the API at the default port or a free one."""
    with started(tmp_path_factory.mktemp("up"), "up", "--plain") as up:
        up.until("Ctrl-C drains")
        yield up


def homes(folder: Path) -> dict[str, str]:
    """Variables that keep the state of programs in this folder instead of the real home folder."""
    return {"HOME": str(folder), "OTD_STATE_DIR": str(folder / "state")}


def run(command: list[str], folder: Path) -> str:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", **homes(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_shell(script: str, folder: Path) -> str:
    return run(["bash", "-euo", "pipefail", "-c", script], folder)


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
def test_the_page_for_the_command_line_works(tmp_path: Path):
    told = run_shell("\n".join(texts(CLI, "sh")), tmp_path)
    assert "jobs.yaml: 1 job would change" in told
    assert "zone      Europe/Berlin" in told
    lines = [line for line in told.splitlines() if "testing version 1.2 in green" in line]
    assert lines, told
    assert "succeeded" in told


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
def test_the_page_for_http_works(tmp_path: Path):
    script = "\n".join(texts(HTTP, "sh")).replace("7412", str(free_port()))
    told = run_shell(script, tmp_path)
    assert '"role":"admin"' in told.replace(" ", "")
    assert '"state":"succeeded"' in told.replace(" ", "")
    [log] = texts(HTTP, "text")
    assert f"}}\n{log}" in told
    assert re.search(r"^1 +hello +succeeded", told, re.MULTILINE), told


@pytest.mark.slow
@pytest.mark.timeout(180)
@beside_make_up
def test_the_page_for_python_works(tmp_path: Path):
    function, programs, blocking = texts(PYTHON, "python")
    told = {}
    for name, text in {"start": function, "build": programs, "blocking": blocking}.items():
        (tmp_path / f"{name}.py").write_text(text)
        told[name] = run([sys.executable, f"{name}.py"], tmp_path).splitlines()
    [shown] = texts(PYTHON, "text")
    assert set(told["start"]) == set(shown.splitlines())
    assert {"compiling", "testing"} <= set(told["build"])
    assert told["blocking"] == ["3"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_executed_or_shown(page: Path):
    kinds = {block.kind for block in blocks(page)}
    assert kinds <= {"sh by-hand", "sh", "python", "text"}
    assert kinds & set(RUN) - {"sh by-hand"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_installation_steps_exist(page: Path):
    checkout, wheel, *_ = texts(page, "sh by-hand")
    [target] = re.findall(r"^make (\S+)$", checkout, re.MULTILINE)
    assert f"$(VENV)/{target.removeprefix('.venv/')}: " in (ROOT / "Makefile").read_text()
    [extra] = re.findall(r"\.whl\)\[(\w+)\]", wheel)
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_page_for_http_does_not_use_the_port_of_make_up():
    assert str(PORT) not in "".join(texts(HTTP, "sh"))


def test_the_preview_uses_the_time_zone_of_the_job():
    zones = set(re.findall(r"tz[:=] ?\"?(\w+/\w+)|--tz (\S+)", "".join([*texts(CLI, "sh"), *texts(PYTHON, "python")])))
    assert {one or other for one, other in zones} == {"Europe/Berlin"}
