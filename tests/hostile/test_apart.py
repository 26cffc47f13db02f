"""A program that is kept apart reaches nothing of its worker or of another owner: not by its environment, not by user
ids, and not by what an earlier program has left."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.runners.guard.yard import PYTHON, Yard, look_until

pytestmark = pytest.mark.usefixtures("root", "sandbox")

APART = pytest.mark.parametrize("level", ["user", "sandbox"])
SECRET = "sesame-4711"


# ── the environment ──────────────────────────────────────────────────────────────────────────────────────────


async def test_the_environment_of_a_job_is_not_that_of_the_sandbox_itself(yard: Yard):
    """The loader of bubblewrap, outside of the sandbox, would write to this folder."""
    drop = yard.workspace("drop")
    drop.chmod(0o777)
    env = {"PATH": "/usr/bin:/bin", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{drop}/trace"}
    assert (await yard.run("true", level="sandbox", env=env)).code == 0
    assert os.listdir(drop) == []


async def test_the_values_of_the_environment_are_in_no_process_list(yard: Yard):
    waits = "echo $TOKEN > seen; while [ ! -e go ]; do sleep 0.05; done"
    env = {"PATH": "/usr/bin:/bin", "TOKEN": SECRET}
    run = asyncio.ensure_future(yard.run("sh", "-c", waits, level="sandbox", env=env))
    await asyncio.to_thread(look_until, lambda: (yard.work / "seen").exists())
    shown = [text for text in everything_shown(yard.guard.pid or 0) if SECRET.encode() in text]
    (yard.work / "go").touch()
    assert (await run).code == 0
    assert (yard.work / "seen").read_text() == f"{SECRET}\n"
    assert shown == []


def everything_shown(guard: int) -> list[bytes]:
    """The command line of every process, and the environment of the guard and of bubblewrap."""
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
async def test_no_value_of_the_environment_becomes_an_option_of_the_sandbox(yard: Yard, env: dict[str, str]):
    end = await yard.run("ls", "/host", level="sandbox", env=env)
    assert end.kind == "refused"
    assert "environment" in end.error


async def test_every_value_arrives_as_it_was_given(yard: Yard):
    env = {"PATH": "/usr/bin:/bin", "A": "--bind", "B": "", "--help": "x", "C": "two\nlines", "D": "\udcff"}
    source = "import os; print(*(ascii(f'{name}={os.environ[name]}') for name in sorted(os.environ)))"
    assert (await yard.run(PYTHON, "-c", source, level="sandbox", env=env)).code == 0
    for name, value in env.items():
        assert ascii(f"{name}={value}") in yard.output()


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


async def test_system_calls_that_no_job_needs_are_refused_in_a_sandbox(yard: Yard):
    assert (await yard.run(PYTHON, "-c", CALLS, level="sandbox")).code == 0
    assert dict(line.split() for line in yard.output().splitlines()) == REFUSED


async def test_threads_and_children_are_made_as_before(yard: Yard):
    source = (
        "import subprocess, threading\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "subprocess.run(['sh', '-c', 'echo child; (echo grandchild)'], check=True)"
    )
    assert (await yard.run(PYTHON, "-u", "-c", source, level="sandbox")).code == 0
    assert yard.output().split() == ["thread", "child", "grandchild"]


async def test_a_program_of_another_table_of_calls_is_killed(yard: Yard):
    """int 0x80 asks in the table for 32 bit, where other numbers mean other calls."""
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has two tables")
    code = bytes.fromhex("b814000000 cd80 c3".replace(" ", ""))  # mov eax, getpid; int 0x80; ret
    source = (
        "import ctypes, mmap\n"
        f"code = mmap.mmap(-1, 4096, prot=7); code.write({code!r})\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()"
    )
    assert (await yard.run(PYTHON, "-c", source, level="none")).code == 0
    end = await yard.run(PYTHON, "-c", source, level="sandbox")
    assert (end.kind, end.signal) == ("signalled", signal.SIGSYS)


async def test_a_sandbox_shows_no_users_of_the_machine(yard: Yard):
    assert (await yard.run("sh", "-c", "id -un; cat /etc/passwd /etc/group", level="sandbox")).code == 0
    assert yard.output().splitlines()[0] == "job"
    assert "daemon" not in yard.output()


# ── what an earlier program has left ─────────────────────────────────────────────────────────────────────────

TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


@APART
async def test_a_kept_workspace_is_closed_for_the_next_owner(yard: Yard, level: str):
    other = yard.workspace("other")
    assert (await yard.run("sh", "-c", "echo private > note; id -u > id", level=level)).code == 0
    tries = f"id -u > id; cat {yard.work}/note; echo x > {yard.work}/note; ls {yard.work}"
    await yard.run("sh", "-c", tries, level=level, directory=str(other), workspace=str(other))
    assert "private" not in yard.output()
    assert (yard.work / "note").read_text() == "private\n"
    assert (other / "id").read_text() != (yard.work / "id").read_text()


@APART
async def test_temporary_files_are_seen_by_nobody_else(yard: Yard, level: str):
    name = f"left-{yard.root.name}"
    leaves = "; ".join(f"[ ! -d {place} ] || echo private > {place}/{name}" for place in TEMPORARY)
    assert (await yard.run("sh", "-c", f"set -e; {leaves}; [ -e /tmp/{name} ]", level=level)).code == 0
    assert [place for place in TEMPORARY if Path(place, name).exists()] == []  # noqa: ASYNC240
    looks = f"cat {' '.join(f'{place}/{name}' for place in TEMPORARY)}"
    assert (await yard.run("sh", "-c", looks, level=level)).code != 0
    assert "private" not in yard.output()


@APART
async def test_nothing_is_left_where_everybody_may_write(yard: Yard, level: str):
    drop = yard.workspace("drop")
    drop.chmod(0o1777)
    assert (await yard.run("sh", "-c", f"echo x > {drop}/left", level=level)).code != 0
    assert os.listdir(drop) == []
    assert (await yard.run("sh", "-c", "echo x > mine && echo x > /dev/null", level=level)).code == 0


@APART
async def test_memory_that_is_used_as_files_is_bounded(yard: Yard, level: str):
    """What lies in such a file is no process's memory: no other bound counts it."""
    script = (
        "fallocate -l 200M /dev/shm/some && ! fallocate -l 100M /dev/shm/more && ! touch /dev/more && echo > /dev/null"
    )
    assert (await yard.run("sh", "-c", script, level=level)).code == 0, yard.output()


@APART
async def test_queues_and_shared_memory_go_with_their_program(yard: Yard, level: str):
    assert (await yard.run("ipcmk", "--queue", "--shmem", "4096", level=level)).code == 0
    assert "id" in yard.output()
    before = len(yard.output())
    assert (await yard.run("sh", "-c", "ipcs -qm | grep -c 0x", level=level)).code != 0
    assert yard.output()[before:] == "0\n"


async def test_keys_in_the_kernel_and_other_calls_are_refused_to_a_user_of_its_own(yard: Yard):
    assert (await yard.run(PYTHON, "-c", CALLS, level="user")).code == 0
    assert dict(line.split() for line in yard.output().splitlines()) == REFUSED


async def test_nothing_of_this_is_mounted_on_the_machine(yard: Yard):
    before = Path("/proc/self/mountinfo").read_text()  # noqa: ASYNC240
    assert (await yard.run("sh", "-c", "grep -c tmpfs /proc/self/mountinfo", level="user")).code == 0
    assert Path("/proc/self/mountinfo").read_text() == before  # noqa: ASYNC240
