"""Probes what this machine can do: isolation levels for workers, and all else for `onthedot doctor`.

A probe leaves nothing behind. Those for the doctor take at most a second.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from onthedot.model.task import Level
from onthedot.runners import container_engines
from onthedot.runners.guard import sandbox
from onthedot.runners.guard.users import USERS

PATIENCE = 0.9
"""Seconds for one probe."""

_OLDEST_GIT = (2, 37)

State = Literal["ok", "missing", "broken"]


class Probe(NamedTuple):
    """The result of a probe: what was found, or why it does not work."""

    state: State
    found: str


class Cgroups(NamedTuple):
    """Control groups: which version (0: none), which controllers our own group has, and whether groups can be made."""

    version: Literal[0, 1, 2]
    controllers: frozenset[str] = frozenset()
    writable: bool = False
    folder: str = ""  # our own group's


def try_program(words: Sequence[str], *, patience: float = PATIENCE, handed: Sequence[int] = ()) -> Probe:
    """Run a small program to its end. Returns its first line, or what is wrong. Ends all processes that it started.

    >>> try_program(["sh", "-c", "echo one; echo two"])
    Probe(state='ok', found='one')
    >>> try_program(["no such program"])
    Probe(state='missing', found='no such program is not installed')
    """
    if shutil.which(words[0]) is None:
        return Probe("missing", f"{words[0]} is not installed")
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            pass_fds=handed,
        )  # fmt: skip
    except OSError as error:
        return Probe("broken", f"{words[0]} cannot be started: {error.strerror}")
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return Probe("broken", f"{words[0]} has not answered within {patience:g} s")
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if process.returncode:
        return Probe("broken", _first_line(err) or f"{words[0]} has ended with code {process.returncode}")
    return Probe("ok", _first_line(out))


def _first_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().partition("\n")[0][:200]


def bubblewrap() -> Probe:
    """Probe whether a sandbox works. The kernel may forbid it although bubblewrap is installed."""
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")) as handed:
        _, *words = sandbox.bubblewrap("/usr", "/usr", handed=handed)  # the same sandbox as the guard's
        tried = try_program(["bwrap", *words, "true"], handed=handed)
    version = try_program(["bwrap", "--version"]) if tried.state == "ok" else tried
    return version._replace(found=f"{version.found}; {sandbox.in_words()}") if version.state == "ok" else version


def git() -> Probe:
    """Probe whether git can check out sources. We cannot set the address of a host in older versions of git."""
    found = try_program(["git", "--version"])
    version = tuple(map(int, re.findall(r"\d+", found.found)[:2]))
    if found.state == "ok" and version < _OLDEST_GIT:
        return Probe("broken", f"{found.found}; expected 2.37 or later")
    return found


def user_level(uid: int | None = None) -> Probe:
    """Probe whether programs can have their own user and temporary folders. Only root can do that."""
    uid = os.geteuid() if uid is None else uid
    if uid != 0:
        return Probe("missing", f"user id {uid}, which is not root")
    tried = try_program(user_trial())
    calls = sandbox.calls_in_words()
    return Probe("ok", f"root; a user, /tmp and ipc for each program; {calls}") if tried.state == "ok" else tried


def cgroups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Cgroups:
    """The control groups that we can use. Makes a group in our own, and removes it."""
    try:
        lines = [line.split(":", 2) for line in own.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return Cgroups(0)
    places = {name: path for _, names, path in (line for line in lines if len(line) == 3) for name in names.split(",")}
    if (root / "cgroup.controllers").is_file():
        folder = _within(root, places.get("", "/"))
        try:
            controllers = frozenset((folder / "cgroup.controllers").read_text(encoding="utf-8").split())
        except OSError:
            controllers = frozenset()
        return Cgroups(2, controllers, _can_make_group(folder), str(folder))
    first = {name: _within(root / name, places[name]) for name in places if name and (root / name).is_dir()}
    bounding = [first[name] for name in ("memory", "pids") if name in first]
    if not bounding:
        return Cgroups(0)
    writable = len(bounding) == 2 and all(_can_make_group(folder) for folder in bounding)
    return Cgroups(1, frozenset(first), writable, str(bounding[0]))


def _within(root: Path, path: str) -> Path:
    """The folder of our own group; the root if that is not visible, as in a container."""
    folder = root / path.lstrip("/")
    return folder if folder.is_dir() else root


def _can_make_group(folder: Path) -> bool:
    probe = folder / f"onthedot-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def container_engine(sockets: Iterable[str] | None = None) -> Probe:
    """Probe whether Docker or Podman answers at one of these sockets (None: at the usual places)."""
    places = _usual_sockets() if sockets is None else list(sockets)
    there = [path for path in places if Path(path).exists()]
    if not there:
        return Probe("missing", f"no socket at {', '.join(places)}")
    answers = [_ping(path) for path in there]
    return next((answer for answer in answers if answer.state == "ok"), answers[0])


def _usual_sockets() -> list[str]:
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        return [host.removeprefix("unix://")]
    return container_engines.usual_sockets()


def _ping(path: str) -> Probe:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(path)
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = connection.recv(200)
    except OSError as error:
        return Probe("broken", f"{path} does not answer: {error}")
    first = _first_line(answer)
    return Probe("ok", path) if " 200 " in f"{first} " else Probe("broken", f"{path} answers {first!r}")


# ── levels of isolation ─────────────────────────────────────────────────────────────────────────────────────────────


_PATIENCE = 10  # seconds for a program that does nothing


def isolation_levels() -> frozenset[Level]:
    """The levels that work on this machine. Only Linux has any."""
    if sys.platform != "linux":
        return frozenset()
    levels: set[Level] = {"none", "process"}
    uid = USERS[-1] if os.geteuid() == 0 else None
    if uid is not None and _works(user_trial(), None):
        levels.add("user")
    with sandbox.in_descriptors(sandbox.sandbox_files({}, 0, "/")) as handed:
        # any directory will do as the workspace
        if _works([*sandbox.bubblewrap("/usr", "/usr", handed=handed), "true"], uid, handed):
            levels.add("sandbox")
    return frozenset(levels)


def user_trial() -> list[str]:
    """The command that tests whether a program can have its own user and folders."""
    found_at = f"PYTHONPATH={Path(__file__).parents[2]}"
    words = ["-S", "-P", "-m", "onthedot.runners.guard.namespaces", str(USERS[-1])]
    return ["/usr/bin/env", "-i", found_at, sys.executable, *words]


def _works(words: list[str], uid: int | None, handed: Sequence[int] = ()) -> bool:
    rights = {} if uid is None else {"user": uid, "group": uid, "extra_groups": ()}
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - words of our own
            words, cwd="/", env={"PATH": os.defpath}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PATIENCE, check=False, pass_fds=handed, **rights,  # type: ignore[call-overload]
        )  # fmt: skip
        return bool(done.returncode == 0)
    return False
