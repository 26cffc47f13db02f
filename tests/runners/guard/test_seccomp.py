"""The filter of system calls gives the right answers for both processors. An interpreter of our own runs it here."""

import errno
import struct

import pytest

from onthedot.runners.guard.seccomp import program_for

ALLOW, KILL, ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}


def judge(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """Returns what the kernel would answer."""
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
        ("x86_64", 56, (0x0100_0011,), ALLOW),  # clone, with the flags of fork
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
        ("x86_64", 16, (0, 0xFFFF_FFFF_0000_5412), ERRNO | errno.EPERM),  # the kernel looks only at the low half
        ("aarch64", 29, (0, 0x5412), ERRNO | errno.EPERM),
        ("aarch64", 29, (0, 0x5401), ALLOW),
        ("x86_64", 0x4000_0000 + 39, (), ERRNO | errno.ENOSYS),  # x32
    ],
)
def test_the_filter_answers_each_call(machine: str, number: int, arguments: tuple[int, ...], answer: int):
    assert judge(machine, number, *arguments) == answer


SET_ID = [  # numbers on x86_64 and aarch64 (None: no such call), index of the mode argument, flags
    ("chmod", (90, None), 1, {}),
    ("fchmod", (91, 52), 1, {}),
    ("fchmodat", (268, 53), 2, {}),
    ("fchmodat2", (452, 452), 2, {}),
    ("creat", (85, None), 1, {}),
    ("mknod", (133, None), 1, {}),
    ("mknodat", (259, 33), 2, {}),
    ("open, O_CREAT", (2, None), 2, {1: 0o102}),
    ("open, O_TMPFILE", (2, None), 2, {1: 0o20200002}),
    ("openat, O_CREAT", (257, 56), 3, {2: 0o102}),
    ("openat, O_TMPFILE", (257, 56), 3, {2: 0o20200002}),
]


@pytest.mark.parametrize("machine", ARCH)
@pytest.mark.parametrize(("name", "numbers", "mode_at", "more"), SET_ID, ids=[one[0] for one in SET_ID])
def test_the_filter_refuses_set_user_id_and_set_group_id_modes(
    machine: str, name: str, numbers, mode_at: int, more: dict[int, int]
):
    number = numbers[list(ARCH).index(machine)]
    if number is None:
        return

    def answer(mode: int) -> int:
        return judge(machine, number, *({**more, mode_at: mode}.get(at, 0) for at in range(6)))

    assert {answer(mode) for mode in (0, 0o644, 0o1777, 0o100755)} == {ALLOW}
    assert {answer(mode) for mode in (0o4755, 0o2755, 0o6755, 0o104000, 0xFFFF_FFFF_0000_0800)} == {ERRNO | errno.EPERM}


@pytest.mark.parametrize("machine", ARCH)
def test_an_open_without_create_ignores_the_mode(machine: str):
    """Without O_CREAT the register of the mode argument has a random value."""
    assert judge(machine, {"x86_64": 257, "aarch64": 56}[machine], 0, 0, 0o2, 0o6755) == ALLOW
    # Openat2 has its mode in memory, where the filter cannot read it.
    assert judge(machine, 437) == ERRNO | errno.ENOSYS


def test_a_call_of_another_system_call_table_kills_the_program():
    assert judge("x86_64", 20, arch=0x4000_0003) == KILL
    assert judge("aarch64", 20, arch=0x4000_0028) == KILL


def test_there_is_no_filter_for_other_processors():
    assert program_for("riscv64") is None
