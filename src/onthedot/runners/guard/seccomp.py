"""Refuses system calls of programs at level `user` or `sandbox`, with a seccomp filter (classic BPF).

The filter refuses calls that reach rarely used parts of the kernel or make namespaces. It allows all other calls. We
need no library: `program_for` assembles the bytes. In a sandbox, bubblewrap loads them (`--seccomp`); at level `user`,
the guard's fork does. The filter exists for x86_64 and aarch64. On other processors there is none, and
`onthedot doctor` reports that.

| the call | returns |
|---|---|
| one of `_REFUSED`; `clone` with a new namespace; `ioctl` that types into a terminal | EPERM |
| one that makes a file set-user-id or set-group-id: other users could start that file as its owner | EPERM |
| `clone3` and `openat2`, whose flags and mode a filter cannot read; programs then use `clone`, `openat` | ENOSYS |
| `socket` of another family than unix, IPv4, IPv6 and netlink (vsock leaves a network namespace) | EAFNOSUPPORT |
| any call of another processor's table (32 bit, x32) | SIGSYS, ENOSYS |
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

_REFUSED: dict[str, tuple[int, int]] = {  # numbers on x86_64 and aarch64; -1: there is no such call
    # keys stay in the kernel: the next program with this user id would find them
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "lookup_dcookie": (212, 18),
    "syslog": (103, 116), "vhangup": (153, 58), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "nfsservctl": (180, 42), "modify_ldt": (154, -1), "ioperm": (173, -1), "iopl": (172, -1), "uselib": (134, -1),
    "sysfs": (139, -1), "_sysctl": (156, -1),
}  # fmt: skip
_WITH_MODE: dict[tuple[int, int], int] = {  # the calls that set a file's mode, and which argument it is
    (90, -1): 1, (91, 52): 1, (268, 53): 2, (452, 452): 2,  # chmod, fchmod, fchmodat, fchmodat2
    (85, -1): 1, (133, -1): 1, (259, 33): 2,  # creat, mknod, mknodat
}  # fmt: skip
_OPEN, _OPENAT, _OPENAT2 = (2, -1), (257, 56), (437, 437)
_SET_ID = 0o6000
_MAKES_FILE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: without one of them, open has no mode
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_NEW_NAMESPACE = 0x7E02_0000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_TYPES_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32 = 0x4000_0000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of classic BPF, with 32-bit words
_NUMBER, _ARCH = 0, 4  # their offsets in struct seccomp_data
_FIRST, _SECOND, _THIRD, _FOURTH = 16, 24, 32, 40  # the arguments' low halves


class _Machine(NamedTuple):
    column: int
    arch: int  # AUDIT_ARCH_…


_MACHINES = {"x86_64": _Machine(0, 0xC000_003E), "aarch64": _Machine(1, 0xC000_00B7)}


class _Jump(NamedTuple):
    """One comparison. It jumps to a label if it is true."""

    how: int
    value: int
    to: str


_Line = _Jump | tuple[int, int] | str
"""A comparison, an instruction with its value, or a label."""


def program_for(machine: str = "") -> bytes | None:
    """Return the filter for this processor (empty: this machine's), as the kernel reads it; None if there is none.

    >>> len(program_for("x86_64")) % 8, program_for("riscv64")
    (0, None)
    """
    found = _MACHINES.get(machine or os.uname().machine)
    return None if found is None else _assemble(_lines(found))


def load() -> None:
    """Filter the calls of this process and of all its future children. `forbid_new_privileges` must come first."""
    program = program_for()
    if program is None:
        return
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    words = (ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), header, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if libc.prctl(*words) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, f"seccomp: {os.strerror(failure)}")


def _lines(machine: _Machine) -> list[_Line]:
    at = machine.column
    refused = [numbers[at] for numbers in _REFUSED.values() if numbers[at] >= 0]
    return [
        (_LOAD, _ARCH),
        _Jump(_EQUAL, machine.arch, "known"),
        (_RETURN, _KILL),
        "known",
        (_LOAD, _NUMBER),
        *([_Jump(_AT_LEAST, _X32, "unknown")] if machine is _MACHINES["x86_64"] else []),
        *(_Jump(_EQUAL, number, "refused") for number in refused),
        *(_Jump(_EQUAL, call[at], f"mode {mode}") for call, mode in _WITH_MODE.items() if call[at] >= 0),
        *([_Jump(_EQUAL, _OPEN[at], "open")] if _OPEN[at] >= 0 else []),
        _Jump(_EQUAL, _OPENAT[at], "openat"),
        _Jump(_EQUAL, _OPENAT2[at], "unknown"),
        _Jump(_EQUAL, _CLONE3[at], "unknown"),
        _Jump(_EQUAL, _CLONE[at], "clone"),
        _Jump(_EQUAL, _SOCKET[at], "socket"),
        _Jump(_EQUAL, _IOCTL[at], "ioctl"),
        (_RETURN, _ALLOW),
        "open",
        (_LOAD, _SECOND),
        _Jump(_ANY_BIT, _MAKES_FILE, "mode 2"),
        (_RETURN, _ALLOW),
        "openat",
        (_LOAD, _THIRD),
        _Jump(_ANY_BIT, _MAKES_FILE, "mode 3"),
        (_RETURN, _ALLOW),
        *(line for mode, place in ((1, _SECOND), (2, _THIRD), (3, _FOURTH)) for line in _mode_lines(mode, place)),
        "clone",
        (_LOAD, _FIRST),
        _Jump(_ANY_BIT, _NEW_NAMESPACE, "refused"),
        (_RETURN, _ALLOW),
        "ioctl",
        (_LOAD, _SECOND),
        *(_Jump(_EQUAL, request, "refused") for request in _TYPES_INTO_TERMINAL),
        (_RETURN, _ALLOW),
        "socket",
        (_LOAD, _FIRST),
        *(_Jump(_EQUAL, family, "allowed") for family in _FAMILIES),
        (_RETURN, _ERRNO | errno.EAFNOSUPPORT),
        "allowed",
        (_RETURN, _ALLOW),
        "refused",
        (_RETURN, _ERRNO | errno.EPERM),
        "unknown",
        (_RETURN, _ERRNO | errno.ENOSYS),
    ]


def _mode_lines(mode: int, place: int) -> list[_Line]:
    return [f"mode {mode}", (_LOAD, place), _Jump(_ANY_BIT, _SET_ID, "refused"), (_RETURN, _ALLOW)]


def _assemble(lines: list[_Line]) -> bytes:
    """Encode the instructions. Labels become distances: jumps go forward, over at most 255 instructions."""
    places: dict[str, int] = {}
    instructions: list[_Jump | tuple[int, int]] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)
    words = []
    for number, line in enumerate(instructions):
        if isinstance(line, _Jump):
            words.append(struct.pack("=HBBI", line.how, places[line.to] - number - 1, 0, line.value))
        else:
            words.append(struct.pack("=HBBI", line[0], 0, 0, line[1]))
    return b"".join(words)
