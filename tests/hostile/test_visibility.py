"""An isolated program can neither see nor reach the guard, other workspaces or the store's file."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.hostile.corpus import CONNECTS
from tests.runners.guard.guarded_programs import PYTHON, GuardedPrograms, look_until

pytestmark = pytest.mark.usefixtures("root", "sandbox")

ISOLATED_LEVELS = pytest.mark.parametrize("level", ["user", "sandbox"])


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@ISOLATED_LEVELS
async def test_a_program_cannot_read_the_environment_of_guard_and_worker(guarded: GuardedPrograms, level: str):
    assert (await guarded.run("true")).code == 0
    assert (await guarded.run("cat", f"/proc/{guarded.guard.pid}/environ", level=level)).code != 0
    end = await guarded.run("sh", "-c", "cat /proc/$PPID/environ", level=level)
    assert end.code != 0 or level == "sandbox"  # in a sandbox the parent is the sandbox's own first process
    assert "PYTHONPATH" not in guarded.output()


async def test_a_sandbox_shows_only_its_own_processes(guarded: GuardedPrograms):
    assert (await guarded.run("sh", "-c", "echo /proc/[0-9]*", level="sandbox")).code == 0
    assert 1 <= len(guarded.output().split()) <= 4


@ISOLATED_LEVELS
async def test_a_program_cannot_read_or_write_another_workspace(guarded: GuardedPrograms, level: str):
    other = guarded.workspace("other")
    holds = "echo private > note; echo $$ > ready; sleep 300"
    there = guarded.program("sh", "-c", holds, level=level, directory=str(other), workspace=str(other))
    held = asyncio.ensure_future(guarded.guard.run(there))
    await asyncio.to_thread(look_until, (other / "ready").exists)
    assert (await guarded.run("cat", f"{other}/note", level=level)).code != 0
    assert (await guarded.run("ls", str(other), level=level)).code != 0
    await guarded.run("sh", "-c", f"echo x > {other}/note", level=level)
    assert "private" not in guarded.output()
    assert (other / "note").read_text() == "private\n"
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


@ISOLATED_LEVELS
async def test_a_program_cannot_read_or_write_the_file_of_the_store(guarded: GuardedPrograms, level: str):
    store = guarded.root / "store.db"
    store.write_text("everything")
    store.chmod(0o600)
    assert (await guarded.run("cat", str(store), level=level)).code != 0
    assert (await guarded.run("ln", str(store), "mine", level=level)).code != 0
    # In a sandbox this creates a private file.
    await guarded.run("sh", "-c", f"echo x > {store}; rm -f {store}", level=level)
    assert store.read_text() == "everything"
    assert "everything" not in guarded.output()


async def test_a_sandbox_does_not_show_world_readable_files(guarded: GuardedPrograms):
    assert (await guarded.run("cat", "/etc/os-release", level="user")).code == 0
    assert (await guarded.run("cat", "/etc/os-release", level="sandbox")).code != 0


async def test_a_sandbox_has_no_network(guarded: GuardedPrograms, port: str):
    assert (await guarded.run(PYTHON, "-c", CONNECTS, port)).code == 0
    assert (await guarded.run(PYTHON, "-c", CONNECTS, port, level="sandbox")).code != 0
    # As git has it when it checks out a source.
    assert (await guarded.run(PYTHON, "-c", CONNECTS, port, level="sandbox", network=True)).code == 0


@ISOLATED_LEVELS
async def test_a_program_cannot_gain_rights(guarded: GuardedPrograms, level: str):
    await guarded.run("sh", "-c", "grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status; id -u; id -G", level=level)
    lines = dict(line.split(":\t") for line in guarded.output().splitlines() if ":" in line)
    assert lines["NoNewPrivs"] == "1"
    assert int(lines["CapEff"], 16) == 0
    *_, uid, groups = guarded.output().splitlines()
    assert uid == groups != "0"


async def test_a_sandbox_writes_only_to_its_workspace_and_its_own_tmp(guarded: GuardedPrograms):
    name = f"onthedot-{guarded.root.name}"
    assert (await guarded.run("sh", "-c", f"echo x > mine && echo x > /tmp/{name}", level="sandbox")).code == 0
    assert (guarded.work / "mine").exists()
    assert not Path("/tmp", name).exists()  # noqa: ASYNC240
    for place in ("/", "/usr", "/etc", "/proc/sys/kernel"):
        assert (await guarded.run("sh", "-c", f"echo x > {place}/{name}", level="sandbox")).code != 0


async def test_a_workspace_that_its_user_cannot_reach_is_refused_with_a_reason(guarded: GuardedPrograms):
    guarded.root.chmod(0o700)
    end = await guarded.run("true", level="user")
    assert end.kind == "refused"
    assert f"do: chmod o+x {guarded.root}" in end.error


async def test_a_hard_link_to_a_file_outside_keeps_its_owner(guarded: GuardedPrograms):
    precious = guarded.root / "precious"
    precious.write_text("of root")
    (guarded.work / "linked").hardlink_to(precious)
    (guarded.work / "symbolic").symlink_to(precious)
    (guarded.work / "plain").write_text("")
    assert (await guarded.run("true", level="user")).code == 0
    assert precious.stat().st_uid == 0
    assert (guarded.work / "plain").stat().st_uid != 0
