"""Probes report if a tool of the machine works, is broken or is missing. None takes long or leaves anything behind."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onthedot.runners import probes
from onthedot.runners.probes import Cgroups, Probe

Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Installs fake programs. Only these and the shell are on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / name).chmod(0o755)

    return install


@pytest.mark.slow
def test_a_working_sandbox_is_ok(fake: Fake):
    fake("bwrap", 'if [ "$1" = --version ]; then echo bubblewrap 0.8.0; else exit 0; fi')
    state, found = probes.bubblewrap()
    assert state == "ok"
    assert found.startswith("bubblewrap 0.8.0; system calls ")


@pytest.mark.slow
def test_a_sandbox_without_permission_is_broken(fake: Fake):
    fake("bwrap", 'echo "bwrap: No permissions to create new namespace" >&2; echo more >&2; exit 1')
    assert probes.bubblewrap() == Probe("broken", "bwrap: No permissions to create new namespace")


def test_tools_that_are_not_installed_are_missing(fake: Fake):
    assert probes.bubblewrap() == Probe("missing", "bwrap is not installed")
    assert probes.git() == Probe("missing", "git is not installed")


@pytest.mark.slow
def test_an_old_git_is_broken(fake: Fake):
    fake("git", "echo git version 2.30.2")
    assert probes.git() == Probe("broken", "git version 2.30.2; expected 2.37 or later")
    fake("git", "echo git version 2.37.0")
    assert probes.git() == Probe("ok", "git version 2.37.0")


@pytest.mark.slow
def test_a_program_that_fails_without_output_is_broken(fake: Fake):
    fake("git", "exit 7")
    assert probes.git() == Probe("broken", "git has ended with code 7")


@pytest.mark.slow
def test_a_program_that_cannot_start_is_broken(fake: Fake, tmp_path: Path):
    fake("git", "")
    (tmp_path / "bin" / "git").write_bytes(b"\x7fELF nonsense")
    assert probes.git() == Probe("broken", "git cannot be started: Exec format error")


@pytest.mark.slow
def test_a_program_that_hangs_is_killed_with_its_children(fake: Fake, tmp_path: Path):
    fake("git", f"sleep 60 & echo $! > {tmp_path}/child; sleep 60")
    began = time.monotonic()
    assert probes.try_program(["git"], patience=2) == Probe("broken", "git has not answered within 2 s")
    child = int((tmp_path / "child").read_text())
    while not _is_gone(child):  # the kernel takes a moment to end it
        time.sleep(0.01)
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_a_probe_does_not_wait_for_a_child_that_holds_the_output_open(fake: Fake):
    fake("git", "sleep 60 & echo hello")
    assert probes.try_program(["git"], patience=0.3).state == "broken"


def _is_gone(pid: int) -> bool:
    """Whether a killed process is gone, or a zombie until its new parent collects it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] in ("Z", "X")


def test_the_user_level_needs_root():
    assert probes.user_level(1000) == Probe("missing", "user id 1000, which is not root")


@pytest.mark.slow
@pytest.mark.usefixtures("root")
def test_the_user_level_is_tried_out(monkeypatch: pytest.MonkeyPatch):
    state, found = probes.user_level()
    assert (state, found.startswith("root; a user, /tmp and ipc for each program; system calls ")) == ("ok", True)
    monkeypatch.setattr(probes, "user_trial", lambda: ["sh", "-c", "echo mount /tmp: not allowed >&2; exit 1"])
    assert probes.user_level() == Probe("broken", "mount /tmp: not allowed")


def groups(tmp_path: Path, own: str, files: dict[str, str]) -> Cgroups:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own").write_text(own)
    found = probes.cgroups(tmp_path / "cgroup", tmp_path / "own")
    assert not list((tmp_path / "cgroup").rglob("onthedot-probe-*")) if (tmp_path / "cgroup").exists() else True
    return found


def test_control_groups_of_version_2_are_found(tmp_path: Path):
    files = {"cgroup.controllers": "cpu io memory pids", "app.slice/cgroup.controllers": "memory pids\n"}
    found = groups(tmp_path, "0::/app.slice\n", files)
    assert found == Cgroups(2, frozenset({"memory", "pids"}), writable=True, folder=str(tmp_path / "cgroup/app.slice"))


def test_control_groups_of_version_1_are_found(tmp_path: Path):
    files = {"memory/a/tasks": "", "pids/a/tasks": "", "cpu/tasks": ""}
    found = groups(tmp_path, "3:memory:/a\n2:pids:/a\n1:cpu:/\n0::/\n", files)
    assert (found.version, found.controllers, found.writable) == (1, frozenset({"memory", "pids", "cpu"}), True)


def test_a_group_that_is_not_visible_is_replaced_by_the_root(tmp_path: Path):
    found = groups(tmp_path, "0::/docker/4711\n", {"cgroup.controllers": "memory pids"})
    assert found.folder == str(tmp_path / "cgroup")


def test_control_groups_without_permission_are_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: Path, *args: object) -> None:
        raise PermissionError

    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("memory pids")
    (tmp_path / "own").write_text("0::/\n")
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert not probes.cgroups(folder, tmp_path / "own").writable


def test_a_machine_may_have_no_control_groups(tmp_path: Path):
    assert groups(tmp_path, "", {}) == Cgroups(0)
    assert probes.cgroups(tmp_path, tmp_path / "no such file") == Cgroups(0)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[[bytes | None], str]]:
    """A socket of a fake engine, with this answer. `None`: it never answers."""
    servers: list[socket.socket] = []

    def listen(answer: bytes | None) -> str:
        path = str(tmp_path / "engine.sock")
        server = socket.socket(socket.AF_UNIX)
        servers.append(server)
        server.bind(path)
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            if answer is not None:
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)
            else:
                servers.append(connection)

        threading.Thread(target=serve, daemon=True).start()
        return path

    yield listen
    for server in servers:
        server.close()


def test_an_engine_that_answers_is_ok(engine: Callable[[bytes | None], str]):
    path = engine(b"HTTP/1.0 200 OK\r\n\r\nOK")
    assert probes.container_engine(["/no/such.sock", path]) == Probe("ok", path)


def test_an_engine_that_refuses_is_broken(engine: Callable[[bytes | None], str]):
    path = engine(b"HTTP/1.0 500 Oh\r\n\r\n")
    assert probes.container_engine([path]) == Probe("broken", f"{path} answers 'HTTP/1.0 500 Oh'")


def test_an_engine_that_never_answers_is_broken(engine: Callable[[bytes | None], str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "PATIENCE", 0.2)
    path = engine(None)
    assert probes.container_engine([path]) == Probe("broken", f"{path} does not answer: timed out")


def test_an_engine_without_a_socket_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert probes.container_engine(["/no/such.sock"]) == Probe("missing", "no socket at /no/such.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert probes.container_engine() == Probe("missing", f"no socket at {tmp_path}/none.sock")
