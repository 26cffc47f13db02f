"""What programs leave behind is kept, and read back from anywhere: with the real guard, in a directory and in S3."""

from __future__ import annotations

import asyncio
import base64
import shutil
import time
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.clock import NEVER
from onthedot.output.keeping import Name, Outputs
from onthedot.output.owning import find_owner
from onthedot.output.spool import Spool
from onthedot.stores.opening import open_store
from onthedot.task import Command, Step, Steps
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.slow

SECRET = "hunter2-and-a-half"
TASK = Steps(
    steps=(
        Step(name="build", script="mkdir out; echo built > out/it.txt; echo builds; echo trouble >&2"),
        Step(name="test", script='echo "token $TOKEN"; printf %s "$TOKEN" | base64', env={"TOKEN": "${{ secrets.T }}"}),
    ),
    artifacts=("out/*.txt",),
)


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "directory":
        return str(tmp_path / "kept")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.url(server.fresh_prefix())


def node(tmp_path: Path, place: str, name: str) -> otd.Scheduler:
    settings = otd.Settings(output=place, spool=str(tmp_path / name), programs=True)
    return otd.Scheduler(f"sqlite:///{tmp_path / 'it.db'}", settings=settings)


def look_until_kept(folder: Path) -> None:
    """Wait until nothing is left in the spool."""
    spool, give_up_at = Spool(folder), time.monotonic() + 60
    while spool.waiting(1) or spool.left(1, before=NEVER):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


async def test_output_is_read_back_where_nothing_of_the_run_is_left(tmp_path, place, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", SECRET)
    first = node(tmp_path, place, "first")
    first.add(otd.Job(name="it", task=TASK))
    async with first:
        run = await first.submit("it")
        await run.result(timeout="30s")
        await asyncio.to_thread(
            look_until_kept, tmp_path / "first"
        )  # a node that stops waits for a moment only, and the server may be slow
    shutil.rmtree(tmp_path / "first")
    async with node(tmp_path, place, "second") as second:
        [log] = await second.logs(run.id)
        [attempt] = await second.history(run.id)
    store = await open_store(f"sqlite:///{tmp_path / 'it.db'}", read_only=True)
    owner = await find_owner(store)
    await store.close()
    assert [line for line in log.text.splitlines() if not line.startswith("onthedot:")] == [
        "builds", "trouble", "token ***", "***",
    ]  # fmt: skip
    outputs = Outputs(owner.place(place, None))
    name = Name(run.id, attempt.attempt, attempt.lease_id)
    index = await outputs.index(name)
    assert index is not None
    [artifact] = index.artifacts
    assert (artifact.name, await outputs.read(name, artifact)) == ("out/it.txt", b"built\n")


async def test_no_kept_byte_has_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("OTD_SECRET_T", SECRET)
    sched = node(tmp_path, str(tmp_path / "kept"), "spool")
    quoted = 'python3 -c \'import os, urllib.parse; print(urllib.parse.quote(os.environ["TOKEN"], safe=""))\''
    script = f'echo "$TOKEN"; printf %s "$TOKEN" | base64; {quoted}; printf %s "$TOKEN" | od -An -c | head -1'
    sched.add(otd.Job(name="it", task=Command(script=script, env={"TOKEN": "${{ secrets.T }}"})))
    async with sched:
        run = await sched.submit("it")
        await run.result(timeout="30s")
    forms = [SECRET.encode(), base64.b64encode(SECRET.encode())]
    files = await asyncio.to_thread(lambda: [path for path in tmp_path.rglob("*") if path.is_file()])
    assert files
    for path in files:
        content = path.read_bytes()
        assert not any(form in content for form in forms), path
