"""Starts one program, in one of two ways. In both, the program's limits apply from its first instruction.

A program at level `user` or `sandbox`, or with cgroups, is a fork of the guard, which sets everything before it becomes
the program. Any other program is spawned (`posix_spawn`), which takes half the time. During the spawn the guard lowers
its own soft limits, and the program inherits them. Right after it the guard sets the program's hard limits. Before that
the program could raise its soft limits. That is acceptable, because it runs as the worker's own user.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import NamedTuple, NoReturn

from onthedot.model.task import Bounds, Level
from onthedot.runners.guard import namespaces, process_tree, sandbox, seccomp
from onthedot.runners.guard.users import User

ISOLATED: tuple[Level, ...] = ("user", "sandbox")
"""The levels that isolate a program from its worker."""

NOT_FOR_US = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Stopping a service or a terminal signals all of its processes. The guard ignores these signals: it ends with its
worker."""

_NOT_STARTED = 127
_MOST_WORDS = 4_096
_TO_SPAWN = 16 << 20  # bytes that the guard needs while its own memory is limited
_LAST = 1 << 20  # more descriptors than a process can have
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, *NOT_FOR_US)  # we ignore these; programs would inherit that


class Spawned(NamedTuple):
    """A started process, and our ends of its pipes."""

    pid: int
    stdin: int  # -1: the program has no input
    out: int
    err: int
    trouble: int = -1  # of a fork: a pipe with the error if it could not become the program


class Rights(NamedTuple):
    """The user, the level and the limits of a program."""

    user: User | None = None  # None: the guard's user
    workspace: str = ""  # that user becomes its owner
    level: Level = "none"
    procs_files: Sequence[str] = ()  # of its cgroups
    limits: Sequence[tuple[int, int]] = ()
    files: Sequence[bytes] = ()  # contents of its descriptors 3, 4, …

    @property
    def needs_fork(self) -> bool:
        """Return whether some setting must be made inside the new process."""
        return self.isolated or bool(self.procs_files)

    @property
    def isolated(self) -> bool:
        """Return whether the program is isolated from its worker."""
        return self.level in ISOLATED


def limits_of(bounds: Bounds, *, own_user: bool) -> list[tuple[int, int]]:
    """Return the limits of each process. The kernel counts processes per user, so a limit on them needs a user of its
    own.

    Memory means private writable memory (`RLIMIT_DATA`). We do not limit the address space, because many runtimes
    reserve gigabytes of it without using them.
    """
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, bounds.memory),
        (resource.RLIMIT_NOFILE, bounds.files),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_CPU, None if bounds.cpu is None else max(1, -(-bounds.cpu // timedelta(seconds=1)))),
        (resource.RLIMIT_NPROC, bounds.processes if own_user else None),
    ]
    return [(number, value) for number, value in wanted if value is not None]


def spawn(argv: Sequence[str], env: Mapping[str, str], directory: str, *, reads: bool, rights: Rights) -> Spawned:
    """Start a program. Raise OSError or ValueError if that fails. A fork reports later errors in `trouble`."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        if reads:
            read_end, write_end = os.pipe()
            theirs.append(read_end)
            ours.append(write_end)
        else:
            theirs.append(os.open(os.devnull, os.O_RDONLY))
        _add_pipe(ours, theirs)
        _add_pipe(ours, theirs)
        if rights.needs_fork or _is_less_than_we_have(rights.limits, max(theirs)):
            _add_pipe(ours, theirs)
            pid = os.fork()
            if pid == 0:
                _become(argv, env, directory, theirs, rights)
        else:
            pid = _spawn(argv, env, directory, theirs, rights)
    except (OSError, ValueError):
        for end in ours:
            os.close(end)
        raise
    finally:
        for end in theirs:
            os.close(end)
    for end in ours:
        os.set_blocking(end, False)
    return Spawned(pid, *([] if reads else [-1]), *ours)


def _add_pipe(ours: list[int], theirs: list[int]) -> None:
    read_end, write_end = os.pipe()
    theirs.append(write_end)
    ours.append(read_end)


def _spawn(argv: Sequence[str], env: Mapping[str, str], directory: str, standard: list[int], rights: Rights) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(standard)]
    os.chdir(directory)
    try:
        with _lowered(rights.limits):
            pid = _find_and_spawn(argv, env, actions)
    finally:
        os.chdir("/")
    with suppress(ProcessLookupError, PermissionError):  # it has ended already, or runs as another user (set-user-id)
        for number, value in rights.limits:
            resource.prlimit(pid, number, _within(_most(number), number, value))
    return pid


@contextmanager
def _lowered(limits: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Lower our own soft limits during the block, so that a process that is spawned meanwhile begins with them. The
    limit of processor time stays: the guard may have used more already. No program uses a second of it before the guard
    sets its limit."""
    before = [(number, resource.getrlimit(number)) for number, _ in limits if number != resource.RLIMIT_CPU]
    try:
        for number, value in limits:
            if number != resource.RLIMIT_CPU:
                resource.setrlimit(number, (_within(_most(number), number, value)[0], _most(number)))
        yield
    finally:
        for number, limit in before:
            resource.setrlimit(number, limit)


def _is_less_than_we_have(limits: Sequence[tuple[int, int]], highest: int) -> bool:
    """Return whether the guard itself needs as much memory, or as many descriptors, as the program may have. Then the
    guard cannot lower its own limits. `highest` is the highest of our
    descriptors that the program gets."""
    most = dict(limits)
    if most.get(resource.RLIMIT_NOFILE, highest + 1) <= highest:
        return True
    if resource.RLIMIT_DATA not in most:
        return False
    with open("/proc/self/statm", encoding="ascii") as file:
        ours = int(file.read().split()[5]) * resource.getpagesize()
    return most[resource.RLIMIT_DATA] < ours + _TO_SPAWN


@cache
def _most(number: int) -> int:
    """Return the guard's own hard limit, which its children inherit. It never changes."""
    return resource.getrlimit(number)[1]


def _find_and_spawn(argv: Sequence[str], env: Mapping[str, str], actions: list[tuple[int, int, int]]) -> int:
    """Spawn a program. Find it as a shell does: by its path, or in the directories of the program's own PATH."""
    name = argv[0]
    places = [""] if "/" in name else [f"{place or '.'}/" for place in env.get("PATH", os.defpath).split(":")]
    trouble: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    for place in places:
        try:
            return os.posix_spawn(
                f"{place}{name}", list(argv), env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_IGNORED
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            trouble = error
    raise trouble


def _become(argv: Sequence[str], env: Mapping[str, str], directory: str, pipes: list[int], rights: Rights) -> NoReturn:
    """Become the program, or report why that failed. This runs in the new process."""
    *standard, trouble = pipes
    try:
        signal.set_wakeup_fd(-1)
        for ignored in _IGNORED:
            signal.signal(ignored, signal.SIG_DFL)
        os.setsid()
        os.umask(0o077)
        # duplicate all of them first: one may have the number of another's target
        lifted = [os.dup(end) for end in standard]
        for number, end in enumerate(lifted):
            os.dup2(end, number)
        for path in rights.procs_files:
            with open(path, "w") as file:
                file.write("0")
        if rights.user is not None:
            uid = rights.user.uid
            rights.user.own(rights.workspace)  # here, because it may take long and the guard must not wait
            if rights.level == "user":
                namespaces.keep_private(rights.workspace)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if rights.isolated:
            process_tree.forbid_new_privileges()
        if rights.level == "user":
            seccomp.load()  # in a sandbox, bubblewrap loads the filter
        process_tree.die_with_parent()
        os.chdir(directory)
        first = 3 + len(rights.files)
        trouble = fcntl.fcntl(trouble, fcntl.F_DUPFD_CLOEXEC, first)
        files = [fcntl.fcntl(sandbox.in_memory(content), fcntl.F_DUPFD, first) for content in rights.files]
        for number, end in enumerate(files, start=3):
            os.dup2(end, number)
        os.closerange(first, trouble)
        os.closerange(trouble + 1, _LAST)
        # last, because these limits are for the program only
        for number, value in rights.limits:
            resource.setrlimit(number, _within(resource.getrlimit(number)[1], number, value))
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - its purpose is to start the user's program
    except BaseException as error:  # noqa: BLE001 - the guard gets the error, and this process ends
        os.write(trouble, f"{type(error).__name__}: {error}".encode(errors="replace")[:_MOST_WORDS])
    finally:
        os._exit(_NOT_STARTED)


def _within(most: int, number: int, value: int) -> tuple[int, int]:
    """Return the soft and the hard limit for a value. Both are at most `most`."""
    hard = value + 5 if number == resource.RLIMIT_CPU else value  # SIGXCPU first, then SIGKILL
    return (value, hard) if most == resource.RLIM_INFINITY else (min(value, most), min(hard, most))


def trouble_of(spawned: Spawned) -> str:
    """Return why an ended process never became the program; empty if it did."""
    if spawned.trouble < 0:
        return ""
    try:
        return os.read(spawned.trouble, _MOST_WORDS).decode(errors="replace")
    except BlockingIOError:
        return ""
