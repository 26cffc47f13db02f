"""Views of the client: live logs that resume after a broken stream, and why a run waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import httpx2
import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.client import connection as transport
from onthedot.client import views
from onthedot.client.connection import ServerConnection
from onthedot.model.errors import StoreUnavailable
from onthedot.model.host_port import Listen
from onthedot.model.run import RunState
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from tests.server.kit import served
from tests.server.worker import Worker

LOG = 'event: log\nid: 1.r.{0}\ndata: {{"attempt":1,"at":null,"stream":null,"step":null,"text":"{0}"}}\n\n'
END = 'event: end\nid: end\ndata: {"run_id":7,"state":"succeeded","reason":"","error":null}\n\n'


@pytest.fixture(autouse=True)
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_DELAY", 0.0)


class Broken(httpx2.AsyncByteStream):
    """A stream that ends after some text, with an error if `cut`."""

    def __init__(self, text: str, *, cut: bool) -> None:
        self._text = text
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._text), 7):  # pieces that end at any place
            yield self._text[start : start + 7].encode()
        if self._cut:
            raise httpx2.ReadError("cut")


class Line(httpx2.AsyncBaseTransport):
    def __init__(self, *answers: Broken) -> None:
        self._answers = list(answers)
        self.asked: list[str | None] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.headers.get("last-event-id"))
        return httpx2.Response(200, stream=self._answers.pop(0) if self._answers else Broken("", cut=False))


@pytest.mark.parametrize("cut", [True, False])
async def test_a_broken_stream_is_resumed_where_it_stopped(cut: bool):
    half = LOG.format(3)[:-9]  # an incomplete event is ignored
    line = Line(
        Broken(LOG.format(1) + LOG.format(2) + half, cut=cut), Broken(": ping\n\n" + LOG.format(3) + END, cut=cut)
    )
    server = ServerConnection("http://server", transport=line)
    told = [event async for event in views.follow_logs(server, 7)]
    assert [event.data.get("text", event.kind) for event in told] == ["1", "2", "3", "end"]
    assert line.asked == [None, "1.r.2"]


@pytest.mark.parametrize("cut", [True, False])
async def test_an_empty_stream_is_given_up(cut: bool):
    line = Line(*(Broken("", cut=cut) for _ in range(100)))
    with pytest.raises(StoreUnavailable, match="http://server"):
        async for _ in views.follow_logs(ServerConnection("http://server", transport=line), 7):
            pass
    assert len(line.asked) == 5


@pytest.mark.slow
async def test_a_running_job_is_followed_to_its_end(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    sched = otd.Scheduler(url)
    go_on = asyncio.Event()

    @sched.job
    async def talks(ctx: otd.Context) -> None:
        ctx.log("one")
        await go_on.wait()
        ctx.log("two")

    serving = HttpServer(url, Settings(), Listen(port=0), knows=None)
    async with sched:
        await asyncio.to_thread(serving.start)
        try:
            async with otd.Client(serving.url) as client, asyncio.timeout(30):
                run = await client.submit("talks")
                text = ""
                async for event in views.follow_logs(client.server, run.id):
                    text += event.data.get("text", "")
                    if "one" in text:
                        go_on.set()
                assert text == "one\ntwo\n"
                assert await run.state() == RunState.SUCCEEDED
        finally:
            await asyncio.to_thread(serving.stop)


async def test_the_standing_of_a_run_equals_that_of_the_store(tmp_path: Path):
    async with served() as one:
        verbs = one.there.verbs()
        await verbs.put(otd.Job(name="build", task=otd.Command(script="true")))
        key = one.keys.add(Role.VIEWER)["Authorization"].removeprefix("Bearer ")
        server = ServerConnection("https://server", key, transport=httpx2.ASGITransport(app=one.app))
        run = await verbs.submit("build", delay="1h", expires="2h")
        stands, waits_for = await views.standing(server, run.id)
        known = await one.there.store.queries.why_waiting(run.id)
        assert stands is not None
        assert known is not None
        assert asdict(stands) == asdict(known)
        assert any("its instant" in what for what in waits_for)
        now = await verbs.submit("build")
        worker = Worker(one.there, tmp_path)
        await worker.end(await worker.take_one())
        assert await views.standing(server, now.id) == (None, [])
