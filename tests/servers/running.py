"""What every test server needs: a user that is not root, a free port, and an end that comes with its parent's."""

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

PATIENCE = 30.0  # seconds until a server must have done what it was asked for
NOBODY = 65534  # servers refuse to run as root, and want a user that is in /etc/passwd

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerTrouble(Exception):
    """A server did not start, stop or answer."""


def as_somebody() -> dict[str, Any]:
    """For subprocess: nobody where we are root, ourselves otherwise; never in a folder that it may not see."""
    if os.geteuid() != 0:
        return {"cwd": "/"}
    return {"cwd": "/", "user": NOBODY, "group": NOBODY, "extra_groups": []}


def start(command: Iterable[str | Path], *, log: Path) -> subprocess.Popen[bytes]:
    """Start a server. When the thread that called this has ended, however it ended, the server gets a SIGQUIT."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C at the terminal is the test run's to deal with
            preexec_fn=_die_with_parent,
            **as_somebody(),
        )


def _die_with_parent() -> None:
    """In the child, after it has become nobody: the kernel forgets the wish when the user changes."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def wait_ended(popen: subprocess.Popen[bytes], what: str) -> int:
    """Its exit code; a server that does not end in good time is killed, and that is an error."""
    try:
        return popen.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait(PATIENCE)
        raise ServerTrouble(f"{what} was still alive {PATIENCE:g} s after it was stopped, and was killed") from None


def wait_answers(ask: Callable[[], bool], popen: subprocess.Popen[bytes], log: Path, what: str) -> None:
    """Ask until it answers. It has not answered when it has ended, or when patience has."""
    give_up_at = time.monotonic() + PATIENCE
    while not ask():
        if popen.poll() is not None:
            raise ServerTrouble(f"{what} ended with {popen.returncode} before it answered:\n{tail(log)}")
        if time.monotonic() > give_up_at:
            raise ServerTrouble(f"{what} did not answer within {PATIENCE:g} s:\n{tail(log)}")
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """One letter: R and S go on, T is stopped, Z has ended and is not fetched yet; empty: there is none."""
    listed = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            return listed.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""
    done = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1]


def wait_until(found: Callable[[], bool], what: str) -> None:
    """Look again and again, as long as patience lasts."""
    give_up_at = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > give_up_at:
            raise ServerTrouble(f"waited {PATIENCE:g} s in vain for {what}")
        time.sleep(0.005)


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"


def free_port() -> int:
    """A loopback port that nobody had a moment ago, and that no connection is given by chance: those have ports above
    32,767, and one of them could take a server's port while it is restarted."""
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
    """A folder of the server's own. Not below pytest's, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix=f"onthedot-{name}-"))
    give_away(folder)
    return folder


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def give_away(path: Path) -> None:
    """Let the server's user own this."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def anyone_may_read(path: Path) -> bool:
    """Whether a user who owns nothing can come to this folder."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))
