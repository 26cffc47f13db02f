"""The filter of system calls, run by an interpreter of our own: the same answers for both processors."""

import errno
import struct

import pytest

from onthedot.work.guard.seccomp import program_for

ALLOW, KILL, ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}


def judge(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the kernel would answer."""
    program = program_for(machine)
    assert program is not None
    data = struct.pack(
        "=IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *arguments, *[0] * (6 - len(arguments))
    )
    at, word = 0, 0
    while True:
        code, true, false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        match code:
            case 0x20:
                [word] = struct.unpack_from("=I", data, value)
            case 0x15:
                at += true if word == value else false
            case 0x35:
                at += true if word >= value else false
            case 0x45:
                at += true if word & value else false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "answer"),
    [
        ("x86_64", 0, (), ALLOW),  # read
        ("aarch64", 63, (), ALLOW),
        ("x86_64", 59, (), ALLOW),  # execve
        ("aarch64", 221, (), ALLOW),
        ("x86_64", 272, (0x1000_0000,), ERRNO | errno.EPERM),  # unshare
        ("aarch64", 97, (0x1000_0000,), ERRNO | errno.EPERM),
        ("x86_64", 250, (), ERRNO | errno.EPERM),  # keyctl
        ("aarch64", 219, (), ERRNO | errno.EPERM),
        ("x86_64", 56, (0x0100_0011,), ALLOW),  # clone, as fork does it
        ("aarch64", 220, (0x0100_0011,), ALLOW),
        ("x86_64", 56, (0x1000_0011,), ERRNO | errno.EPERM),
        ("aarch64", 220, (0x0002_0011,), ERRNO | errno.EPERM),
        ("x86_64", 435, (), ERRNO | errno.ENOSYS),  # clone3
        ("aarch64", 435, (), ERRNO | errno.ENOSYS),
        ("x86_64", 41, (1,), ALLOW),  # socket
        ("aarch64", 198, (10,), ALLOW),
        ("x86_64", 41, (40,), ERRNO | errno.EAFNOSUPPORT),
        ("aarch64", 198, (38,), ERRNO | errno.EAFNOSUPPORT),
        ("x86_64", 16, (0, 0x5412), ERRNO | errno.EPERM),  # ioctl
        ("x86_64", 16, (0, 0xFFFF_FFFF_0000_5412), ERRNO | errno.EPERM),  # the kernel looks at the low half alone
        ("aarch64", 29, (0, 0x5412), ERRNO | errno.EPERM),
        ("aarch64", 29, (0, 0x5401), ALLOW),
        ("x86_64", 0x4000_0000 + 39, (), ERRNO | errno.ENOSYS),  # x32
    ],
)
def test_calls_are_judged(machine: str, number: int, arguments: tuple[int, ...], answer: int):
    assert judge(machine, number, *arguments) == answer


def test_another_table_of_calls_is_the_end():
    assert judge("x86_64", 20, arch=0x4000_0003) == KILL
    assert judge("aarch64", 20, arch=0x4000_0028) == KILL


def test_other_processors_have_no_filter():
    assert program_for("riscv64") is None
