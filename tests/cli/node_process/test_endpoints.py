"""The HTTP API of `onthedot up` and `server`: ports, sign-in links, keys and TLS, with real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from onthedot.access import audit
from onthedot.cli.connect import read_store
from onthedot.cli.up import NodeOptions
from onthedot.model.host_port import PORT
from onthedot.settings import Settings
from tests.cli.conftest import Call
from tests.server.test_http_server import write
from tests.servers.running import free_port

ONTHEDOT = Path(sys.executable).parent / "onthedot"


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


def hold(port: int) -> socket.socket:
    """Listen at this port as soon as no other test uses it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def check_link(link: str) -> None:
    """Check that the link signs a browser in once."""
    page = link.partition("?")[0]
    with httpx2.Client(follow_redirects=True) as client:
        assert "heartbeat" in client.get(link).text
        assert ", admin" in client.get(page).text
    assert httpx2.get(link).status_code == httpx2.get(page).status_code == 401


@pytest.mark.slow
def test_a_used_default_port_is_replaced_and_a_used_given_port_is_refused(tmp_path: Path):
    with hold(PORT):
        process = started(tmp_path, "up", "--plain", "--for", "50s")
        url = re.findall(r"http://127\.0\.0\.1:(\d+)", line_with(process, "api "))
        assert url[0] != str(PORT)
        assert line_with(process, "port ").split(maxsplit=1)[1].startswith(f"{PORT} is taken by another program, so")
        stop(process)
        asked = ["server", "--listen", f"127.0.0.1:{PORT}", "--db", "x.db"]
        refused = subprocess.run(
            [ONTHEDOT, *asked], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
        )
    assert refused.returncode == 2
    assert f"listen: expected 127.0.0.1:{PORT} to be free" in refused.stderr
    assert "name another with --listen" in refused.stderr


@pytest.mark.slow
def test_up_prints_a_link_on_a_terminal(tmp_path: Path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([ONTHEDOT, "up", "--plain", "--for", "50s"], cwd=tmp_path, stdout=theirs, text=True)
    os.close(theirs)
    said = ""
    try:
        while "token=" not in said or not said.endswith("\n"):
            said += os.read(ours, 4096).decode()
        [link] = re.findall(r"http://\S+token=\S+", said)
        check_link(link)
    finally:
        process.terminate()
        while True:  # read to the end, so that the process need not wait for us
            try:
                os.read(ours, 4096)
            except OSError:
                break
        os.close(ours)
        assert process.wait(20) == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", [[], ["--json"]])
def test_without_a_terminal_up_prints_how_to_make_a_link(tmp_path: Path, shape: list[str]):
    """Others may read files and journals, so they must not contain the link."""
    process = started(tmp_path, "up", "--for", "50s", *shape)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "onthedot sessions link" in line)
        assert "token=" not in line
        [words] = re.findall(r"'onthedot (sessions link http://\S+)'", line)
        made = subprocess.run([ONTHEDOT, *words.split()], cwd=tmp_path, capture_output=True, check=True, text=True)
        check_link(made.stdout.strip())
    finally:
        stop(process)
    store = f"sqlite:///{tmp_path / 'onthedot.db'}"
    entries = read_store(store, lambda opened: audit.read(opened))
    verbs = [entry.verb for entry in entries if entry.verb != "jobs.create"]  # without the sample jobs
    assert verbs == ["sessions.link", "login", "login.refused"]


@pytest.mark.slow
def test_a_server_answers_requests_with_a_key(tmp_path: Path):
    port = free_port()
    named = ("--allow-host", "jobs.example.org", "--allow-host", "jobs")
    process = started(tmp_path, "server", "--listen", f"127.0.0.1:{port}", "--for", "50s", *named)
    try:
        assert f"http://127.0.0.1:{port}" in line_with(process, "api")
        create = [str(ONTHEDOT), "keys", "create", "ci", "--role", "viewer", "--json"]
        made = subprocess.run(create, cwd=tmp_path, capture_output=True, check=True)
        text = json.loads(made.stdout)["key"]
        answer = httpx2.get(f"http://127.0.0.1:{port}/api/v1/whoami", headers={"Authorization": f"Bearer {text}"})
        assert answer.json()["role"] == "viewer"
        asked = {"jobs.example.org": 200, "jobs:99": 200, "localhost": 200, "evil.example": 421}
        url = f"http://127.0.0.1:{port}/api/v1/version"
        assert {host: httpx2.get(url, headers={"Host": host}).status_code for host in asked} == asked
    finally:
        stop(process)


@pytest.mark.slow
def test_a_server_with_a_certificate_answers_https(tmp_path: Path):
    chain, key = write(tmp_path, "here")
    listen = ["--listen", "127.0.0.1:0", "--tls-cert", chain, "--tls-key", key]
    process = started(tmp_path, "server", "--insecure", *listen, "--for", "50s")
    try:
        [url] = re.findall(r"https://\S+", line_with(process, "api"))
        ask = [str(ONTHEDOT), "jobs", "--store", url, "--json"]
        done = subprocess.run(ask, capture_output=True, env={**os.environ, "SSL_CERT_FILE": chain})
        assert (done.returncode, done.stdout) == (0, b"[]\n"), done.stderr
        refused = subprocess.run(ask, capture_output=True)
        assert refused.returncode != 0
        assert b"certificate" in refused.stderr.lower()
    finally:
        stop(process)


@pytest.mark.slow
@pytest.mark.parametrize(("host", "warned"), [("127.1", True), ("127.0.0.1", False)])
def test_plain_http_on_an_unclear_address_is_warned_of(call: Call, tmp_path: Path, host: str, warned: bool):
    """Only some programs read 127.1 as a local address, so it counts as a name, which may be public."""
    result = call("up", "--listen", f"{host}:0", "--for", "10ms", "--db", str(tmp_path / "x.db"))
    assert result.exit_code == 0, result.output
    assert ("listens beyond this machine in plain HTTP" in result.output) == warned


@pytest.mark.slow
def test_no_api_disables_the_api(call: Call, tmp_path: Path):
    result = call("up", "--no-api", "--for", "10ms", "--db", str(tmp_path / "x.db"))
    assert result.exit_code == 0
    assert "api " not in result.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--listen", "nowhere:x"], "HOST:PORT"),
        (["--listen", "192.0.2.1:80", "--insecure"], "leave --insecure out"),
        (["--no-api", "--listen", "1"], "--no-api by itself"),
        (["--tls-key", "key.pem"], "tls_key: expected a certificate for it"),
        (["--tls-cert", "none.pem"], "none.pem: No such file"),
        (["--trusted-proxy", "proxy.example.org"], "trusted_proxies: expected an address such as"),
        (["--allow-host", "http://jobs.example.org"], "allow_hosts: expected a host without scheme"),
        (["--listen", "0", "--store", "memory:"], "a store in memory"),
    ],
)
def test_bad_listen_options_are_refused(call: Call, tmp_path: Path, options: list[str], told: str):
    place = [] if "memory:" in options else ["--db", str(tmp_path / "x.db")]
    result = call("up", "--for", "10ms", *place, *options)
    assert result.exit_code == 2, result.output
    assert told in result.output


@pytest.mark.parametrize("command", ["up", "server"])
def test_quotas_are_set_by_options_and_variables(monkeypatch: pytest.MonkeyPatch, call: Call, command: str):
    given: list[NodeOptions] = []
    monkeypatch.setattr("onthedot.cli.up.run", lambda program, said, **more: given.append(said))
    monkeypatch.setenv("ONTHEDOT_QUOTA_SUBMITS", "60")
    said = call(command, "--quota-jobs", "10", "--quota-runs", "1000")
    assert said.exit_code == 0, said.output
    settings = given[0].settings(Settings())
    assert (settings.quota_jobs, settings.quota_runs, settings.quota_submits) == (10, 1000, 60)
    assert call(command, "--quota-runs", "0").exit_code == 2
    assert len(given) == 1
