"""`onthedot up` and `server` serve the HTTP API: a real process, asked over a real socket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from click.testing import Result

from tests.servers.running import free_port

ONTHEDOT = Path(sys.executable).parent / "onthedot"
Call = Callable[..., Result]


def started(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([ONTHEDOT, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, text=True)


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0


def line_with(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"no line with {word!r}")


@pytest.mark.slow
def test_up_prints_a_link_that_lets_its_owner_in(tmp_path: Path):
    process = started(tmp_path, "up", "--for", "50s")
    try:
        [link] = re.findall(r"http://\S+token=\S+", line_with(process, "api"))
        with httpx2.Client(follow_redirects=True) as client:
            assert "heartbeat" in client.get(link).text
            assert client.get(link.partition("?")[0] + "api/v1/whoami").json()["role"] == "admin"
        assert httpx2.get(link.partition("?")[0] + "api/v1/jobs").status_code == 401
        told = subprocess.run([str(ONTHEDOT), "audit", "--json"], cwd=tmp_path, capture_output=True, check=True)
        made = {(entry["verb"], entry["object"]) for entry in json.loads(told.stdout)}
        assert made >= {("jobs.create", "job/default/heartbeat"), ("tokens.create", "token/up")}
    finally:
        stop(process)


@pytest.mark.slow
def test_a_server_is_asked_with_a_key(tmp_path: Path):
    port = free_port()
    process = started(tmp_path, "server", "--listen", f"127.0.0.1:{port}", "--for", "50s")
    try:
        assert f"http://127.0.0.1:{port}" in line_with(process, "api")
        create = [str(ONTHEDOT), "keys", "create", "ci", "--role", "viewer", "--json"]
        made = subprocess.run(create, cwd=tmp_path, capture_output=True, check=True)
        text = json.loads(made.stdout)["key"]
        answer = httpx2.get(f"http://127.0.0.1:{port}/api/v1/whoami", headers={"Authorization": f"Bearer {text}"})
        assert answer.json()["role"] == "viewer"
    finally:
        stop(process)


@pytest.mark.slow
def test_nothing_listens_where_that_was_not_asked_for(call: Call, tmp_path: Path):
    result = call("up", "--no-api", "--for", "10ms", "--db", str(tmp_path / "x.db"))
    assert result.exit_code == 0
    assert "api " not in result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--listen", "nowhere:x"], "HOST:PORT"),
        (["--listen", "192.0.2.1:80", "--insecure"], "leave --insecure out"),
        (["--no-api", "--listen", "1"], "--no-api by itself"),
        (["--listen", "0", "--store", "memory:"], "a store in memory"),
    ],
)
def test_what_cannot_be_listened_at_is_told(call: Call, tmp_path: Path, options: list[str], told: str):
    place = [] if "memory:" in options else ["--db", str(tmp_path / "x.db")]
    result = call("up", "--for", "10ms", *place, *options)
    assert result.exit_code == 2, result.output
    assert told in result.output
