"""A worker that runs as root with default settings: it runs jobs of every level and leaves nothing of them behind."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.addresses import Address
from onthedot.model.job import Job
from onthedot.model.task import Command, Level, Source, Step, Steps
from onthedot.runners.guard.users import STATE_VARIABLE, take_user
from onthedot.runners.program import source as source_module
from onthedot.runners.program.workspace import spool_of, sweep
from onthedot.settings import Settings
from tests.runners.guard.guarded_programs import look_until
from tests.runners.program.test_steps import listening

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("root", "sandbox")]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replaces the system's state folder. It does not exist yet."""
    above = Path(tempfile.mkdtemp(prefix="onthedot-root-"))
    above.chmod(0o711)
    monkeypatch.setenv(STATE_VARIABLE, str(above / "onthedot"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    before = os.umask(0o077)
    yield above / "onthedot"
    os.umask(before)
    shutil.rmtree(above)


@pytest.mark.parametrize("level", ["user", "sandbox"])
async def test_a_root_worker_runs_jobs_without_settings_and_takes_their_workspaces_back(state: Path, level: Level):
    sched = otd.Scheduler("memory:")
    script = "cat note 2>/dev/null || echo $(id -u) > note; touch x; chmod 6777 x || chmod 777 x; exit 3"
    sched.add(Job(name="it", task=Command(script=script), isolation=level))
    async with sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed, match="exit code 3"):
            await run.result(timeout="30s")
        [work] = state.glob("spool/*/work")  # noqa: ASYNC240
        uid = (work / "note").read_text()
        found = {path: path.stat() for path in (work, *work.iterdir())}
        assert {about.st_uid for about in found.values()} == {0}
        assert stat.S_IMODE(found[work].st_mode) == 0o700
        assert not found[work / "x"].st_mode & 0o6000
        again = await sched.retry_run(run)
        with pytest.raises(otd.RunFailed, match="exit code 3"):
            await again.result(timeout="30s")
        assert uid in "".join(record.text for record in await sched.logs(again))


def _work_when_ready(state: Path) -> Path:
    look_until(lambda: any(state.glob("spool/*/work/ready")))
    return next(state.glob("spool/*/work/ready")).parent


def _list_as_another_user(work: Path) -> subprocess.CompletedProcess[bytes]:
    command = ["/bin/ls", str(work)]
    return subprocess.run(command, user=65534, group=65534, extra_groups=(), capture_output=True, check=False)


@pytest.mark.parametrize("level", ["user", "sandbox"])
async def test_a_job_cannot_open_its_workspace_for_other_users(state: Path, level: Level):
    """Otherwise other users could start a set-user-id file in it, and become the job's user."""
    sched = otd.Scheduler("memory:")
    make = "cp /bin/true su; chmod 6755 su || :; stat -c %a su > is; chmod 777 .; touch ready"
    script = f"{make}; until [ -e go ]; do :; done"
    sched.add(Job(name="it", task=Command(script=f"{script}; exit 3"), isolation=level))
    async with sched:
        run = await sched.submit("it")
        work = await asyncio.to_thread(_work_when_ready, state)
        seen = await asyncio.to_thread(_list_as_another_user, work)
        mode, is_mode = stat.S_IMODE(work.stat().st_mode), (work / "is").read_text()
        (work / "go").touch()
        with pytest.raises(otd.RunFailed, match="exit code 3"):
            await run.result(timeout="30s")
    assert (mode, int(is_mode, 8) & 0o6000) == (0o777, 0)
    assert (seen.returncode, seen.stdout, b"Permission denied" in seen.stderr) == (2, b"", True)


@pytest.mark.parametrize("level", ["user", "sandbox"])
@pytest.mark.parametrize(("scheme", "greeting"), [("https", b"\x16\x03"), ("ssh", b"SSH-2.0-")])
async def test_git_of_an_isolated_job_reaches_its_source(
    state: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, greeting: bytes, level: Level
):
    async def resolve(host: str, port: int) -> list[Address]:
        return [ip_address("127.0.0.1")]

    monkeypatch.setattr(source_module, "resolve", resolve)
    server, port, first = await listening()
    task = Steps(
        steps=(Step(name="see", script="true"),), source=Source(git=f"{scheme}://git@shop.example.invalid:{port}/x")
    )
    sched = otd.Scheduler("memory:", settings=Settings(http_allow=("127.0.0.0/8",)))
    sched.add(Job(name="it", task=task, isolation=level))
    async with server, sched:
        run = await sched.submit("it")
        with pytest.raises(otd.RunFailed, match="step 'source': exit code 128"):
            await run.result(timeout="30s")
        assert (await asyncio.wait_for(first, 20)).startswith(greeting)


def test_a_sweep_takes_back_the_workspace_of_a_killed_worker(state: Path):
    work = state / "spool" / "1-ff" / "work"
    work.mkdir(parents=True)
    state.chmod(0o711)
    user = take_user(str(work))
    user.own(str(work))
    left = subprocess.Popen(["sleep", "300"], user=user.uid, group=user.uid, extra_groups=())
    try:
        assert sweep(state / "spool", now=0, keep=0, in_use=[]) == 0
        assert work.stat().st_uid == user.uid  # a program of another guard still runs in it
        user.give_back()
        assert sweep(state / "spool", now=0, keep=0, in_use=[]) == 0
        assert work.stat().st_uid == 0
        assert left.wait(20) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


def test_root_uses_the_spool_folder_of_the_system(state: Path, monkeypatch: pytest.MonkeyPatch):
    assert spool_of(Settings()) == state / "spool"
    assert spool_of(Settings(spool="/srv/spool")) == Path("/srv/spool")
    monkeypatch.delenv(STATE_VARIABLE)
    assert spool_of(Settings()) == Path("/var/lib/onthedot/spool")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert spool_of(Settings()) == Path.home() / ".local/state/onthedot/spool"
