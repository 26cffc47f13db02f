"""Finds the processes of a tree in /proc, and signals them.

The guard is a child subreaper: a process that loses its parent becomes a child of the guard. So every process of a
program is a descendant of its main process, or an orphan below the guard. The cgroup, the user, the session or the
environment of an orphan shows its program. If none of them does, the orphan belongs to no program and is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

MARK = "OTD_TREE"
"""The variable in each program's environment: the guard's token, a dot, and the program's number."""

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_ROUNDS = 20  # the most searches for processes that were started meanwhile; far more than needed
_libc = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """One process, as /proc shows it. The kernel reuses process ids: `born` distinguishes two processes with the same
    id."""

    pid: int
    parent: int
    session: int
    born: int
    is_zombie: bool


def become_subreaper() -> None:
    """Make this process the parent of its descendants' orphans."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def forbid_new_privileges() -> None:
    """Forbid that a program started from here gains rights by its file (set-user-id)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def read_process(pid: int) -> Process | None:
    """Return the process with this id; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may contain anything
    # a process whose first thread has ended also shows as a zombie, while its other threads run
    is_zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), is_zombie)


def own_children() -> list[int]:
    """Return the children of this process. The children of a guard are main processes and orphans. A process that ends
    meanwhile can hide another one, so call this again to be sure."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [process.pid for process in all_processes() if process.parent == me]


def all_processes() -> Iterator[Process]:
    """Yield all processes of this machine that can be seen from here."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := read_process(int(name))) is not None:
            yield process


def with_descendants(roots: Iterable[int], among: Iterable[Process]) -> list[Process]:
    """Return these processes and all of their living descendants, each before its children."""
    families: dict[int, list[Process]] = {}
    by_pid: dict[int, Process] = {}
    for process in among:
        by_pid[process.pid] = process
        families.setdefault(process.parent, []).append(process)
    found = {pid: by_pid[pid] for pid in roots if pid in by_pid}
    waiting = list(found)
    while waiting:
        for child in families.get(waiting.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                waiting.append(child.pid)
    return [process for process in found.values() if not process.is_zombie]


def send_signal(process: Process, number: int) -> None:
    """Signal this process, and never another one that has taken its id."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            now = read_process(process.pid)
            if now is not None and now.born == process.born:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill_found(find: Callable[[], Iterable[Process]]) -> int:
    """Kill all processes that `find` returns. Return how many. First this stops them, until `find` returns no new ones.
    So no process can start another one meanwhile, and a fork bomb stops at its limit."""
    stopped: dict[tuple[int, int], Process] = {}  # by id and birth, because parent and session may change
    for _ in range(_ROUNDS):
        fresh = [process for process in find() if (process.pid, process.born) not in stopped]
        if not fresh:
            break
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
            stopped[process.pid, process.born] = process
    for process in stopped.values():
        send_signal(process, signal.SIGKILL)
    return len(stopped)


def kill_below(roots: Iterable[int]) -> int:
    """Kill these processes and all of their descendants. Returns how many."""
    tops = list(roots)
    return kill_found(lambda: with_descendants(tops, all_processes()))


def mark_of(pid: int) -> str:
    """Return the mark that a process had in its environment at its start; empty if it has none, or if we may not read
    it."""
    return _in_file(f"/proc/{pid}/environ", f"{MARK}=".encode(), b"\0")


def user_of(pid: int) -> int:
    """Return the real user id of a process; -1 if it is gone."""
    text = _in_file(f"/proc/{pid}/status", b"Uid:", b"\n")
    return int(text.split()[0]) if text else -1


def users_of(pid: int) -> set[int]:
    """Return the user ids of a process: real, effective, saved, and of the file system. Empty if it is gone."""
    return set(map(int, _in_file(f"/proc/{pid}/status", b"Uid:", b"\n").split()))


def is_first_of_namespace(pid: int) -> bool:
    """Return whether a process is the first of a pid namespace. Such a process belongs to a sandbox, not to a
    program."""
    numbers = _in_file(f"/proc/{pid}/status", b"NSpid:", b"\n").split()
    return len(numbers) > 1 and numbers[-1] == "1"


def _in_file(path: str, prefix: bytes, separator: bytes) -> str:
    try:
        with open(path, "rb") as file:
            lines = file.read().split(separator)
    except OSError:
        return ""
    return next((line[len(prefix) :].decode(errors="replace") for line in lines if line.startswith(prefix)), "")
