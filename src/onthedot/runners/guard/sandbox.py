"""Makes the sandbox of a program: the arguments of bubblewrap, and the files that bubblewrap reads.

If the worker is root, the program has a user of its own (`users.py`). Elsewhere it has the worker's user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from onthedot.runners.guard import seccomp

_TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own
_TEMPORARY_BYTES = 256 << 20  # for each of them at most
_MOST_OPTIONS = 8_400  # words of options in a file; bubblewrap accepts 9,000 in all
_READS = ("--args", "--ro-bind-data", "--ro-bind-data", "--seccomp")
_READ_AS = ("", "/etc/passwd", "/etc/group", "")
_BUBBLEWRAPS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "hosts", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "protocols", "services", "ssl", "timezone",
)  # fmt: skip


def sandbox_files(env: Mapping[str, str], uid: int, home: str) -> list[bytes]:
    """Return the contents that bubblewrap reads from descriptors, in the order of `bubblewrap`'s `handed`.

    One of them is the job's environment. In bubblewrap's own environment it could change how bubblewrap is loaded
    (`LD_PRELOAD`), outside of the sandbox. In arguments every user of the machine could read it. Raise ValueError for
    names and values that cannot be in an environment: a NUL would begin another option.
    """
    words: list[str] = []
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"environment: expected a name without '=' and a value without NUL, got {name!r}")
        words += ["--setenv", name, value]
    if len(words) > _MOST_OPTIONS:
        raise ValueError(f"environment: expected at most {_MOST_OPTIONS // 3} variables in a sandbox, got {len(env)}")
    options = b"".join(os.fsencode(word) + b"\0" for word in words)
    home = home if home.isprintable() and ":" not in home else "/"
    users = f"root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\njob:x:{uid}:{uid}::{home}:/bin/sh\n"
    groups = f"root:x:0:\nnogroup:x:65534:\njob:x:{uid}:\n"
    seccomp_filter = seccomp.program_for()
    return [options, os.fsencode(users), groups.encode(), *([] if seccomp_filter is None else [seccomp_filter])]


def bubblewrap(directory: str, workspace: str, *, handed: Sequence[int] = (), network: bool = False) -> list[str]:
    """Return the command that runs a program in a sandbox, without the program itself. `handed`: the descriptors of
    `sandbox_files`. `network`: the sandbox shares the machine's network, without name resolution."""
    program = next(filter(os.path.exists, _BUBBLEWRAPS), "bwrap")
    words = [program, "--die-with-parent", "--unshare-all", "--cap-drop", "ALL", "--hostname", "sandbox"]
    if can_disable_namespaces(program):
        words += ["--unshare-user", "--disable-userns"]
    if network:
        words.append("--share-net")
    words += ["--ro-bind", "/usr", "/usr"]
    for name in _TOP:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            words += ["--ro-bind", str(top), str(top)]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for own in _TEMPORARY:  # without a size they could use all of the machine's memory, outside of any limit
        words += ["--size", str(_TEMPORARY_BYTES), "--tmpfs", own]
    words += ["--remount-ro", "/dev"]
    words += ["--bind", workspace, workspace]
    for option, descriptor, *place in zip(_READS, map(str, handed), _READ_AS, strict=False):
        words += [option, descriptor, *filter(None, place)]
    words += ["--remount-ro", "/", "--chdir", directory, "--"]
    return words


def in_memory(content: bytes) -> int:
    """Return a descriptor of these bytes in memory."""
    file = os.memfd_create("onthedot")
    written = 0
    while written < len(content):
        written += os.write(file, content[written:])
    os.lseek(file, 0, os.SEEK_SET)
    return file


@contextmanager
def in_descriptors(files: Sequence[bytes]) -> Iterator[list[int]]:
    """Open a descriptor in memory for each of these contents during the block."""
    opened = [in_memory(content) for content in files]
    try:
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def in_words() -> str:
    """Return as text for people how a sandbox protects this machine besides its namespaces."""
    program = next(filter(os.path.exists, _BUBBLEWRAPS), "bwrap")
    inner = "" if can_disable_namespaces(program) else "; user namespaces inside: only the filter forbids them"
    return f"{calls_in_words()}{inner}"


def calls_in_words() -> str:
    """Return as text for people whether system calls are filtered on this machine."""
    return "system calls filtered" if seccomp.program_for() else f"system calls not filtered on {os.uname().machine}"


@cache
def can_disable_namespaces(program: str) -> bool:
    """Return whether this bubblewrap knows `--disable-userns` (0.8 and later). We read this from its file, without
    starting it."""
    try:
        return b"--disable-userns" in Path(program).read_bytes()
    except OSError:
        return False
