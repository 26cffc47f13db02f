"""What a program that is kept apart can see and reach: not the guard, not other workspaces, not the store's file."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.hostile.corpus import CONNECTS
from tests.runners.guard.yard import PYTHON, Yard, look_until

pytestmark = pytest.mark.usefixtures("root", "sandbox")

APART = pytest.mark.parametrize("level", ["user", "sandbox"])


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@APART
async def test_the_environment_of_the_guard_and_of_the_worker_cannot_be_read(yard: Yard, level: str):
    assert (await yard.run("true")).code == 0
    assert (await yard.run("cat", f"/proc/{yard.guard.pid}/environ", level=level)).code != 0
    end = await yard.run("sh", "-c", "cat /proc/$PPID/environ", level=level)
    assert end.code != 0 or level == "sandbox"  # there it is the sandbox's own first process
    assert "PYTHONPATH" not in yard.output()


async def test_a_sandbox_shows_its_own_processes_only(yard: Yard):
    assert (await yard.run("sh", "-c", "echo /proc/[0-9]*", level="sandbox")).code == 0
    assert 1 <= len(yard.output().split()) <= 4


@APART
async def test_other_workspaces_are_closed(yard: Yard, level: str):
    other = yard.workspace("other")
    holds = "echo private > note; echo $$ > ready; sleep 300"
    there = yard.program("sh", "-c", holds, level=level, directory=str(other), workspace=str(other))
    held = asyncio.ensure_future(yard.guard.run(there))
    await asyncio.to_thread(look_until, (other / "ready").exists)
    assert (await yard.run("cat", f"{other}/note", level=level)).code != 0
    assert (await yard.run("ls", str(other), level=level)).code != 0
    await yard.run("sh", "-c", f"echo x > {other}/note", level=level)
    assert "private" not in yard.output()
    assert (other / "note").read_text() == "private\n"
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


@APART
async def test_the_file_of_the_store_is_closed(yard: Yard, level: str):
    store = yard.root / "store.db"
    store.write_text("everything")
    store.chmod(0o600)
    assert (await yard.run("cat", str(store), level=level)).code != 0
    assert (await yard.run("ln", str(store), "mine", level=level)).code != 0
    await yard.run("sh", "-c", f"echo x > {store}; rm -f {store}", level=level)  # in a sandbox: one of its own
    assert store.read_text() == "everything"
    assert "everything" not in yard.output()


async def test_a_sandbox_does_not_see_files_that_everybody_may_read(yard: Yard):
    assert (await yard.run("cat", "/etc/os-release", level="user")).code == 0
    assert (await yard.run("cat", "/etc/os-release", level="sandbox")).code != 0


async def test_a_sandbox_has_no_network(yard: Yard, port: str):
    assert (await yard.run(PYTHON, "-c", CONNECTS, port)).code == 0
    assert (await yard.run(PYTHON, "-c", CONNECTS, port, level="sandbox")).code != 0
    assert (await yard.run(PYTHON, "-c", CONNECTS, port, level="sandbox", network=True)).code == 0  # that of git


@APART
async def test_nobody_gains_rights(yard: Yard, level: str):
    await yard.run("sh", "-c", "grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status; id -u; id -G", level=level)
    lines = dict(line.split(":\t") for line in yard.output().splitlines() if ":" in line)
    assert lines["NoNewPrivs"] == "1"
    assert int(lines["CapEff"], 16) == 0
    *_, uid, groups = yard.output().splitlines()
    assert uid == groups != "0"


async def test_a_sandbox_writes_to_its_workspace_and_its_own_tmp_only(yard: Yard):
    name = f"onthedot-{yard.root.name}"
    assert (await yard.run("sh", "-c", f"echo x > mine && echo x > /tmp/{name}", level="sandbox")).code == 0
    assert (yard.work / "mine").exists()
    assert not Path("/tmp", name).exists()  # noqa: ASYNC240
    for place in ("/", "/usr", "/etc", "/proc/sys/kernel"):
        assert (await yard.run("sh", "-c", f"echo x > {place}/{name}", level="sandbox")).code != 0


async def test_a_workspace_that_its_user_cannot_reach_is_told(yard: Yard):
    yard.root.chmod(0o700)
    end = await yard.run("true", level="user")
    assert end.kind == "refused"
    assert f"do: chmod o+x {yard.root}" in end.error


async def test_a_file_with_two_names_is_not_given_away(yard: Yard):
    precious = yard.root / "precious"
    precious.write_text("of root")
    (yard.work / "linked").hardlink_to(precious)
    (yard.work / "symbolic").symlink_to(precious)
    (yard.work / "plain").write_text("")
    assert (await yard.run("true", level="user")).code == 0
    assert precious.stat().st_uid == 0
    assert (yard.work / "plain").stat().st_uid != 0
