"""An isolated program reaches nothing of its worker or of another owner.

Not through its environment, not through system calls or user ids, and not through what an earlier program left.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.runners.guard.guarded_programs import PYTHON, GuardedPrograms, look_until

pytestmark = pytest.mark.usefixtures("root", "sandbox")

ISOLATED_LEVELS = pytest.mark.parametrize("level", ["user", "sandbox"])
SECRET = "sesame-4711"


# ── the environment ──────────────────────────────────────────────────────────────────────────────────────────


async def test_the_environment_of_a_job_does_not_reach_bubblewrap_itself(guarded: GuardedPrograms):
    """Outside of the sandbox, bubblewrap's own loader would obey these variables and write to this folder."""
    drop = guarded.workspace("drop")
    drop.chmod(0o777)
    env = {"PATH": "/usr/bin:/bin", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{drop}/trace"}
    assert (await guarded.run("true", level="sandbox", env=env)).code == 0
    assert os.listdir(drop) == []


async def test_environment_values_appear_in_no_process_list(guarded: GuardedPrograms):
    waits = "echo $TOKEN > seen; while [ ! -e go ]; do sleep 0.05; done"
    env = {"PATH": "/usr/bin:/bin", "TOKEN": SECRET}
    run = asyncio.ensure_future(guarded.run("sh", "-c", waits, level="sandbox", env=env))
    await asyncio.to_thread(look_until, lambda: (guarded.work / "seen").exists())
    shown = [text for text in visible_process_data(guarded.guard.pid or 0) if SECRET.encode() in text]
    (guarded.work / "go").touch()
    assert (await run).code == 0
    assert (guarded.work / "seen").read_text() == f"{SECRET}\n"
    assert shown == []


def visible_process_data(guard: int) -> list[bytes]:
    """Returns the command line of every process, and the environment of the guard and of bubblewrap."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes())
            if process.name == str(guard) or b"bwrap" in found[-1].partition(b"\0")[0]:
                found.append((process / "environ").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("env", [{"A": "x\0--bind\0/\0/host"}, {"A\0": "x"}, {"": "x"}, {"A=B": "x"}])
async def test_an_environment_value_cannot_become_an_option_of_bubblewrap(
    guarded: GuardedPrograms, env: dict[str, str]
):
    end = await guarded.run("ls", "/host", level="sandbox", env=env)
    assert end.kind == "refused"
    assert "environment" in end.error


async def test_environment_values_arrive_unchanged(guarded: GuardedPrograms):
    env = {"PATH": "/usr/bin:/bin", "A": "--bind", "B": "", "--help": "x", "C": "two\nlines", "D": "\udcff"}
    source = "import os; print(*(ascii(f'{name}={os.environ[name]}') for name in sorted(os.environ)))"
    assert (await guarded.run(PYTHON, "-c", source, level="sandbox", env=env)).code == 0
    for name, value in env.items():
        assert ascii(f"{name}={value}") in guarded.output()


# ── the kernel ───────────────────────────────────────────────────────────────────────────────────────────────


CALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
for name, numbers, *arguments in (
    ("unshare", (272, 97), 0x1000_0000),
    ("clone", (56, 220), 0x1000_0011, 0, 0, 0, 0),
    ("clone3", (435, 435), 0, 0),
    ("keyctl", (250, 219), 0, -4, 1),
    ("bpf", (321, 280), 0, 0, 0),
    ("mount", (165, 40), 0, 0, 0, 0, 0),
    ("vsock", (41, 198), 40, 1, 0),
    ("typing", (16, 29), 0, 0x5412, 0),
    ("x32", (0x4000_0000 + 39, 0x4000_0000 + 39)),
    ("unix", (41, 198), 1, 1, 0),
    ("internet", (41, 198), 2, 1, 0),
):
    done = libc.syscall(numbers[0 if x86 else 1], *arguments)
    if name == "clone" and done == 0:
        os._exit(0)
    print(name, "done" if done >= 0 else __import__("errno").errorcode[ctypes.get_errno()])
"""
REFUSED = {
    "unshare": "EPERM", "clone": "EPERM", "clone3": "ENOSYS", "keyctl": "EPERM", "bpf": "EPERM", "mount": "EPERM",
    "vsock": "EAFNOSUPPORT", "typing": "EPERM", "x32": "ENOSYS", "unix": "done", "internet": "done",
}  # fmt: skip


async def test_a_sandbox_refuses_system_calls_that_no_job_needs(guarded: GuardedPrograms):
    assert (await guarded.run(PYTHON, "-c", CALLS, level="sandbox")).code == 0
    assert dict(line.split() for line in guarded.output().splitlines()) == REFUSED


async def test_a_sandboxed_program_can_start_threads_and_children(guarded: GuardedPrograms):
    source = (
        "import subprocess, threading\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "subprocess.run(['sh', '-c', 'echo child; (echo grandchild)'], check=True)"
    )
    assert (await guarded.run(PYTHON, "-u", "-c", source, level="sandbox")).code == 0
    assert guarded.output().split() == ["thread", "child", "grandchild"]


async def test_a_program_that_uses_the_32_bit_system_calls_is_killed(guarded: GuardedPrograms):
    """`int 0x80` uses the 32-bit table of system calls, in which the numbers mean other calls."""
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has two tables of system calls")
    code = bytes.fromhex("b814000000 cd80 c3".replace(" ", ""))  # mov eax, getpid; int 0x80; ret
    source = (
        "import ctypes, mmap\n"
        f"code = mmap.mmap(-1, 4096, prot=7); code.write({code!r})\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()"
    )
    assert (await guarded.run(PYTHON, "-c", source, level="none")).code == 0
    end = await guarded.run(PYTHON, "-c", source, level="sandbox")
    assert (end.kind, end.signal) == ("signalled", signal.SIGSYS)


async def test_a_sandbox_does_not_show_the_users_of_the_machine(guarded: GuardedPrograms):
    assert (await guarded.run("sh", "-c", "id -un; cat /etc/passwd /etc/group", level="sandbox")).code == 0
    assert guarded.output().splitlines()[0] == "job"
    assert "daemon" not in guarded.output()


# ── what an earlier program left ─────────────────────────────────────────────────────────────────────────────

TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


@ISOLATED_LEVELS
async def test_the_next_owner_cannot_read_a_kept_workspace(guarded: GuardedPrograms, level: str):
    other = guarded.workspace("other")
    assert (await guarded.run("sh", "-c", "echo private > note; id -u > id", level=level)).code == 0
    tries = f"id -u > id; cat {guarded.work}/note; echo x > {guarded.work}/note; ls {guarded.work}"
    await guarded.run("sh", "-c", tries, level=level, directory=str(other), workspace=str(other))
    assert "private" not in guarded.output()
    assert (guarded.work / "note").read_text() == "private\n"
    assert (other / "id").read_text() != (guarded.work / "id").read_text()


@ISOLATED_LEVELS
async def test_no_other_program_sees_temporary_files(guarded: GuardedPrograms, level: str):
    name = f"left-{guarded.root.name}"
    leaves = "; ".join(f"[ ! -d {place} ] || echo private > {place}/{name}" for place in TEMPORARY)
    assert (await guarded.run("sh", "-c", f"set -e; {leaves}; [ -e /tmp/{name} ]", level=level)).code == 0
    assert [place for place in TEMPORARY if Path(place, name).exists()] == []  # noqa: ASYNC240
    looks = f"cat {' '.join(f'{place}/{name}' for place in TEMPORARY)}"
    assert (await guarded.run("sh", "-c", looks, level=level)).code != 0
    assert "private" not in guarded.output()


@ISOLATED_LEVELS
async def test_a_program_cannot_write_to_a_world_writable_folder(guarded: GuardedPrograms, level: str):
    drop = guarded.workspace("drop")
    drop.chmod(0o1777)
    assert (await guarded.run("sh", "-c", f"echo x > {drop}/left", level=level)).code != 0
    assert os.listdir(drop) == []
    assert (await guarded.run("sh", "-c", "echo x > mine && echo x > /dev/null", level=level)).code == 0


@ISOLATED_LEVELS
async def test_memory_used_as_files_is_limited(guarded: GuardedPrograms, level: str):
    """Such files belong to no process, so no other limit counts them."""
    script = (
        "fallocate -l 200M /dev/shm/some && ! fallocate -l 100M /dev/shm/more && ! touch /dev/more && echo > /dev/null"
    )
    assert (await guarded.run("sh", "-c", script, level=level)).code == 0, guarded.output()


@ISOLATED_LEVELS
async def test_message_queues_and_shared_memory_end_with_their_program(guarded: GuardedPrograms, level: str):
    assert (await guarded.run("ipcmk", "--queue", "--shmem", "4096", level=level)).code == 0
    assert "id" in guarded.output()
    before = len(guarded.output())
    assert (await guarded.run("sh", "-c", "ipcs -qm | grep -c 0x", level=level)).code != 0
    assert guarded.output()[before:] == "0\n"


async def test_the_user_level_refuses_the_same_system_calls(guarded: GuardedPrograms):
    assert (await guarded.run(PYTHON, "-c", CALLS, level="user")).code == 0
    assert dict(line.split() for line in guarded.output().splitlines()) == REFUSED


async def test_isolation_mounts_nothing_on_the_machine(guarded: GuardedPrograms):
    before = Path("/proc/self/mountinfo").read_text()  # noqa: ASYNC240
    assert (await guarded.run("sh", "-c", "grep -c tmpfs /proc/self/mountinfo", level="user")).code == 0
    assert Path("/proc/self/mountinfo").read_text() == before  # noqa: ASYNC240
