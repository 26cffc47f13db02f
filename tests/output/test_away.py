"""An S3 server that is killed, restarted or frozen: jobs finish as usual, and no output is lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.events import Event, Events, OutputNotKept
from onthedot.node.output_upkeep import LOOK_EVERY, OutputKeeper
from onthedot.output.locations import output_location, spool_folder
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.spool import Spool
from onthedot.settings import Settings
from tests.servers.s3 import S3Server

NAME = Name(7, 1, "a-1")


@pytest.fixture(autouse=True)
def keys(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_output_is_uploaded_when_the_server_is_back(s3_server: S3Server, tmp_path: Path):
    spool, heard = Spool(tmp_path / "spool"), list[Event]()
    outputs = OutputStore(output_location(s3_server.url("logs"), None))
    keeper = OutputKeeper(None, spool, outputs, Events([heard.append]), lambda: 0)  # type: ignore[arg-type]

    async def tick() -> int:
        return await keeper.tick(-1)

    spool.log_of(NAME).write_text("said")
    spool.hand_in(NAME)
    s3_server.kill()
    assert asyncio.run(tick()) < LOOK_EVERY
    assert isinstance(heard[0], OutputNotKept)
    assert s3_server.secret not in heard[0].error
    assert len(spool.waiting(9)) == 1
    s3_server.start()
    assert asyncio.run(tick()) == LOOK_EVERY
    assert spool.waiting(9) == []
    assert asyncio.run(outputs.index(NAME)) is not None


@pytest.mark.slow
async def test_a_node_stops_in_time_although_the_server_is_frozen(s3_server: S3Server, tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    settings = Settings(output=s3_server.url("logs"), spool=str(tmp_path / "spool"))
    sched = otd.Scheduler(url, settings=settings)

    @sched.job
    async def work() -> str:
        return "done"

    spool = Spool(spool_folder(settings.spool, url))
    spool.log_of(NAME).write_text("said")
    spool.hand_in(NAME)
    s3_server.pause()
    async with sched:
        assert await (await sched.submit("work")).result(timeout="20s") == "done"
        begun = time.monotonic()
    assert time.monotonic() - begun < 20
    assert len(spool.waiting(9)) == 1
