"""Helpers of all test servers: a user that is not root, free ports, waiting, and an end together with the parent."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PATIENCE = 30.0  # seconds in which a server must start, stop or answer
NOBODY = 65534  # servers refuse to run as root, and need a user in /etc/passwd

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerTrouble(Exception):
    """A server did not start, stop or answer."""


def user_options() -> dict[str, Any]:
    """Options for `subprocess`: run as nobody if we are root, in a folder that every user may read."""
    if os.geteuid() != 0:
        return {"cwd": "/"}
    return {"cwd": "/", "user": NOBODY, "group": NOBODY, "extra_groups": []}


def start(command: Iterable[str | Path], *, log: Path) -> subprocess.Popen[bytes]:
    """Start a server. The kernel sends it SIGQUIT when the calling thread ends, for any reason."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only the test run
            preexec_fn=_die_with_parent,
            **user_options(),
        )


def _die_with_parent() -> None:
    """Runs in the child after the change of user, which resets this setting."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def wait_ended(popen: subprocess.Popen[bytes], what: str) -> int:
    """Return its exit code. A server that does not end in time is killed, which is an error."""
    try:
        return popen.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait(PATIENCE)
        raise ServerTrouble(f"{what} was still alive {PATIENCE:g} s after it was stopped, and was killed") from None


def wait_answers(ask: Callable[[], bool], popen: subprocess.Popen[bytes], log: Path, what: str) -> None:
    """Wait until the server answers. It is an error if it ends before, or is not in time."""
    give_up_at = time.monotonic() + PATIENCE
    while not ask():
        if popen.poll() is not None:
            raise ServerTrouble(f"{what} ended with {popen.returncode} before it answered:\n{tail(log)}")
        if time.monotonic() > give_up_at:
            raise ServerTrouble(f"{what} did not answer within {PATIENCE:g} s:\n{tail(log)}")
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """The state as one letter: R or S runs, T is stopped, Z has ended and is not reaped yet; empty: no such process."""
    listed = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            return listed.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""
    done = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1]


def wait_until(found: Callable[[], bool], what: str) -> None:
    """Poll until `found` returns true. It is an error if that takes too long."""
    give_up_at = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > give_up_at:
            raise ServerTrouble(f"waited {PATIENCE:g} s for {what}, and it did not happen")
        time.sleep(0.005)


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"


def free_port() -> int:
    """A free loopback port below 32,768. Outgoing connections get ports above that, so none of them can take the port
    of a server while it restarts."""
    for _ in range(100):
        port = 12_000 + secrets.randbelow(20_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerTrouble("no free port on 127.0.0.1 between 12000 and 32000, in 100 tries")


def make_folder(name: str) -> Path:
    """A folder for one server. It is not below pytest's folder, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix=f"onthedot-{name}-"))
    give_to_server_user(folder)
    return folder


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def give_to_server_user(path: Path) -> None:
    """Make the server's user the owner of this path."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def anyone_may_read(path: Path) -> bool:
    """Whether every user can read this folder."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))
