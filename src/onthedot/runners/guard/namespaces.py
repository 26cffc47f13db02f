"""Gives a program of level `user` its own temporary folders and shared memory.

In its mount namespace the program can write to its workspace, and to new `/tmp`, `/var/tmp` and `/dev/shm`. It reads
the rest of the machine with the rights of its user. So after the program has ended, its user id owns no files outside
of the workspace. Queues and shared memory of System V and POSIX end with the program's ipc namespace.

`python -m onthedot.runners.guard.namespaces UID` tests this. It needs root, and Linux 5.12.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from onthedot.runners.guard import process_tree, seccomp

_OWN = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - the program gets new ones instead of these
_BYTES = 256 << 20  # for each of them at most
_NEW_MOUNTS, _NEW_IPC = 0x0002_0000, 0x0800_0000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_MOUNT_SETATTR = 442  # the same number on every processor
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_libc = ctypes.CDLL(None, use_errno=True)


def keep_private(workspace: str) -> None:
    """Make the namespaces. Call it in a fork, as root, before the fork takes the program's user."""
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_IPC), "unshare")
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    there = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # the workspace may be below /tmp
    own = [place for place in _OWN if os.path.isdir(place) and not os.path.islink(place)]
    for place in own:
        _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, f"mode=1777,size={_BYTES}")
    before = os.umask(0o022)
    os.makedirs(workspace, exist_ok=True)
    os.umask(before)
    _mount(f"/proc/self/fd/{there}", workspace, None, _BIND)
    os.close(there)
    _set_read_only("/", _AT_RECURSIVE, on=True)
    for place in (*own, "/proc", workspace):  # a workspace below /tmp is a mount of its own
        _set_read_only(place, 0, on=False)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def _set_read_only(place: str, flags: int, *, on: bool) -> None:
    attributes = struct.pack("=QQQQ", _READ_ONLY if on else 0, 0 if on else _READ_ONLY, 0, 0)
    done = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), os.fsencode(place), ctypes.c_uint(flags), attributes,
        ctypes.c_size_t(len(attributes)),
    )  # fmt: skip
    _check(done, f"mount_setattr {place}")


def _check(done: int, what: str) -> None:
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def main(uid: int) -> None:
    """Test the namespaces on this machine, with the same steps as before a program of level `user`."""
    keep_private("/usr")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    process_tree.forbid_new_privileges()
    seccomp.load()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except OSError as refused:
        sys.exit(refused.strerror)
