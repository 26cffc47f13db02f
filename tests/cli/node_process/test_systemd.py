"""systemd: a node reports that it is ready, alive and stopping to a socket, and SIGHUP starts a drain."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from onthedot.cli.main import cli
from onthedot.cli.node_process.systemd import Notifier, NotifierGroup, Watchdog
from onthedot.clock import SECOND
from tests.cli.started import PROGRAM, started, wake
from tests.processes.kit import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "install.md"


class Listener:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(30)

    def heard(self) -> list[str]:
        return self._socket.recv(4096).decode().split("\n")

    def until(self, line: str) -> list[str]:
        """Read to the first message that has this line, and return its lines."""
        while True:
            lines = self.heard()
            if line in lines:
                return lines

    def has_nothing(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(4096)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(30)
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    abstract = getattr(request, "param", "path") == "abstract"
    listener = Listener(f"@onthedot-{os.getpid()}-{time.monotonic_ns()}" if abstract else str(tmp_path / "notify"))
    yield listener
    listener.close()


# ── the protocol ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_variables_are_taken_from_the_environment():
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "PATH": "/bin"}
    notifier = Notifier.take(environment)
    assert (notifier.is_wanted, notifier.watchdog, environment) == (True, 3 * SECOND, {"PATH": "/bin"})
    others = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}
    assert Notifier.take(others).watchdog == 0
    assert Notifier.take({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "soon"}).watchdog == 0
    assert not Notifier.take({"WATCHDOG_USEC": "3000000"}).is_wanted


@pytest.mark.parametrize("listener", ["path", "abstract"], indirect=True)
def test_messages_follow_the_protocol(listener: Listener):
    notifier = Notifier(listener.name)
    notifier.ready("two\nlines")
    notifier.stopping(5 * SECOND)
    notifier.alive()
    assert listener.heard() == ["READY=1", "STATUS=two lines"]
    assert listener.heard() == ["STOPPING=1", "STATUS=draining", "EXTEND_TIMEOUT_USEC=35000000"]
    assert listener.heard() == ["WATCHDOG=1"]


def test_a_missing_socket_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    Notifier(str(tmp_path / "nowhere")).ready("ready")
    assert "systemd could not be told 'READY=1'" in caplog.text


def test_watchdog_messages_end_when_one_loop_hangs(listener: Listener):
    hangs = threading.Event()

    def ping(answer: Callable[[], None]) -> None:
        if not hangs.is_set():
            answer()

    watchdog = Watchdog(Notifier(listener.name, SECOND // 50), [ping, lambda answer: answer()])
    watchdog.start()
    for _ in range(3):
        assert listener.heard() == ["WATCHDOG=1"]
    hangs.set()
    while not listener.has_nothing(0.05):  # messages sent before
        pass
    assert listener.has_nothing(0.05)
    watchdog.stop()


def test_a_group_is_ready_and_alive_when_all_its_processes_are(listener: Listener):
    living = {0, 1}
    family = NotifierGroup(Notifier(listener.name, 2 * SECOND), 2, living.__contains__)
    try:
        one, other = (Notifier.take(family.environment(number)) for number in range(2))
        assert (one.watchdog, other.watchdog) == (2 * SECOND, 2 * SECOND)
        one.alive()
        one.alive()
        one.ready("works")  # sent last, so that the group has read its other messages when it is ready
        other.ready("works")
        assert listener.heard() == ["READY=1", "STATUS=2 nodes ready"]
        other.alive()
        assert listener.heard() == ["WATCHDOG=1"]
        living.remove(1)  # this process died, and will be restarted
        one.alive()
        assert listener.heard() == ["WATCHDOG=1"]
        one.stopping(SECOND)
        assert listener.heard() == ["EXTEND_TIMEOUT_USEC=31000000"]
    finally:
        family.close()


# ── real processes ───────────────────────────────────────────────────────────────────────────────────────────

NAP = """
import asyncio, os
from pathlib import Path
import onthedot as otd

sched = otd.Scheduler("sqlite:///onthedot.db")

@sched.job(schedule=otd.gap("1h"))
async def nap() -> None:
    Path("seen").write_text(",".join(name for name in os.environ if name.startswith(("NOTIFY", "WATCHDOG"))))
    while not Path("wake").exists():
        await asyncio.sleep(0.02)
    Path("woken").touch()
"""


@contextmanager
def notifying(monkeypatch: pytest.MonkeyPatch, listener: Listener, **more: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name, value in {"NOTIFY_SOCKET": listener.name, **more}.items():
            patch.setenv(name, value)
        yield


@pytest.mark.slow
def test_a_node_reports_that_it_is_ready_alive_and_stopping(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "naps.py").write_text(NAP)
    with (
        notifying(monkeypatch, listener, WATCHDOG_USEC="500000"),
        started(tmp_path, "up", "naps.py", "--plain", "--listen", "127.0.0.1:0", "--grace", "20s") as node,
    ):
        assert listener.until("READY=1")[1] == "STATUS=plans and works, up to 64 attempts at once"
        listener.until("WATCHDOG=1")
        listener.until("WATCHDOG=1")
        node.until("started", "nap")
        wait_until(lambda: (tmp_path / "seen").exists(), "the handler")
        node.signal(signal.SIGHUP)
        node.signal(signal.SIGHUP)
        assert "EXTEND_TIMEOUT_USEC=50000000" in listener.until("STOPPING=1")
        listener.until("WATCHDOG=1")  # also during the drain
        node.signal(signal.SIGHUP)  # SIGHUP never shortens the drain
        wake(tmp_path)
        assert node.end() == 0
    assert (tmp_path / "woken").exists()
    assert (tmp_path / "seen").read_text() == ""


@pytest.mark.slow
def test_a_node_that_hangs_sends_no_watchdog_messages(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
):
    with (
        notifying(monkeypatch, listener, WATCHDOG_USEC="200000"),
        started(tmp_path, "up", "--no-api", "--plain") as node,
    ):
        listener.until("READY=1")
        listener.until("WATCHDOG=1")
        node.signal(signal.SIGSTOP)  # stops all its loops
        while not listener.has_nothing(0.6):
            pass
        node.signal(signal.SIGCONT)
        listener.until("WATCHDOG=1")


@pytest.mark.slow
def test_several_processes_are_ready_together(tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "app.py").write_text(PROGRAM)
    with (
        notifying(monkeypatch, listener, WATCHDOG_USEC="1000000"),
        started(tmp_path, "worker", "app.py", "--processes", "2", "--node-id", "w") as family,
    ):
        assert listener.until("READY=1") == ["READY=1", "STATUS=2 nodes ready"]
        listener.until("WATCHDOG=1")
        family.signal(signal.SIGHUP)
        listener.until("STOPPING=1")
        assert family.end() == 0
        assert family.has("left", "node w-1")
        assert family.has("left", "node w-2")


@pytest.mark.slow
def test_sighup_drains_a_server(tmp_path: Path):
    with started(tmp_path, "server", "--listen", "127.0.0.1:0") as node:
        node.until("Ctrl-C drains")
        node.signal(signal.SIGHUP)
        assert node.end() == 0
        assert node.has("left")


@pytest.mark.slow
def test_nohup_is_respected(tmp_path: Path):
    command = [sys.executable, "-m", "onthedot", "up", "--no-api", "--plain", "--db", "x.db"]
    process = subprocess.Popen(
        ["nohup", *command], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert any("Ctrl-C drains" in line for line in process.stdout)
        process.send_signal(signal.SIGHUP)
        assert any("finished" in line for line in process.stdout)  # the node continues
        process.send_signal(signal.SIGTERM)
        assert any("left" in line for line in process.stdout)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stdout.close()


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────

DIRECTIVES = {
    "Unit": {"Description", "Documentation", "After", "Wants", "StartLimitIntervalSec"},
    "Service": {
        *("Type", "NotifyAccess", "User", "Group", "StateDirectory", "WorkingDirectory", "Environment"),
        *("EnvironmentFile", "ExecStart", "WatchdogSec", "KillMode", "TimeoutStopSec", "Restart", "RestartSec"),
        *("RestartPreventExitStatus", "LimitNOFILE", "TasksMax", "OOMPolicy", "Delegate"),
    },
    "Install": {"WantedBy"},
}


def units() -> dict[str, configparser.RawConfigParser]:
    found = {}
    for name, text in re.findall(r"`/etc/systemd/system/([\w.-]+)`:\n\n```ini\n(.*?)```", PAGE.read_text(), re.DOTALL):
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(text)
        found[name] = unit
    return found


def test_the_units_of_the_install_page_are_valid():
    assert sorted(units()) == ["onthedot-server.service", "onthedot-worker.service"]
    for unit in units().values():
        assert set(unit.sections()) == set(DIRECTIVES)
        for section in unit.sections():
            assert set(unit[section]) <= DIRECTIVES[section]
        service = unit["Service"]
        assert (service["Type"], service["NotifyAccess"], service["KillMode"]) == ("notify", "main", "mixed")
        program, name, *arguments = shlex.split(service["ExecStart"])
        assert program.endswith("/bin/onthedot")
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, arguments, resilient_parsing=False)
