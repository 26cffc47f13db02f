"""HTTP calls through a whole node: which workers take them, what is stored with the run, and when they are retried."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job, Retry
from onthedot.model.task import Container, Http
from onthedot.settings import Settings
from onthedot.testing import Harness, run_virtual
from tests.runners.pages import Handler, serving

OPEN = Settings(http_allow=("127.0.0.1",), container_engine="unix:///nowhere.sock")


async def test_an_http_job_runs_and_its_log_is_stored():
    with serving({"/": lambda asked: asked.answer(200, b"done\n")}) as site:
        sched = otd.Scheduler("memory:", settings=OPEN)
        sched.add(Job(name="ping", task=Http(url=site.url())))
        async with sched:
            run = await sched.submit("ping")
            assert await run.result(timeout="20s") == {"status": 200}
            [log] = await sched.logs(run)
    assert "→ 200 (5 bytes" in log.text
    assert log.text.endswith("done\n")
    assert site.asked[0].headers["Onthedot-Run-Id"] == str(run.id)


@pytest.mark.slow
async def test_a_retry_waits_as_long_as_the_server_asks():
    request_times: list[float] = []

    def busy_once(asked: Handler) -> None:
        request_times.append(time.monotonic())
        first = len(asked.server.site.asked) == 1
        asked.answer(429, Retry_After="1") if first else asked.answer(200)

    with serving({"/": busy_once}) as site:
        sched = otd.Scheduler("memory:", settings=OPEN)
        sched.add(Job(name="ping", task=Http(url=site.url()), retry=Retry(2, delay="1ms")))
        async with sched:
            run = await sched.submit("ping")
            await run.result(timeout="20s")
            first, second = await sched.history(run.id)
    assert (
        request_times[1] - request_times[0] >= 0.99
    )  # the delay counts from the answer, which came after the first request
    assert second.due_at > first.ended_at
    assert (second.started_at or 0) >= second.due_at
    keys = {asked.headers["Idempotency-Key"] for asked in site.asked}
    fences = [int(asked.headers["Onthedot-Fence"]) for asked in site.asked]
    assert len(keys) == 1
    assert fences == sorted(set(fences))


async def test_internal_addresses_are_refused_by_default():
    with serving({}) as site:
        sched = otd.Scheduler("memory:")
        sched.add(Job(name="ping", task=Http(url=site.url())))
        async with sched:
            run = await sched.submit("ping")
            with pytest.raises(otd.RunFailed, match="is loopback"):
                await run.result(timeout="20s")
    assert site.asked == []


async def test_a_running_call_can_be_cancelled():
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def never(handler: Handler) -> None:
        loop.call_soon_threadsafe(asked.set)
        handler.server.site.over.wait()

    with serving({"/": never}) as site:
        sched = otd.Scheduler("memory:", settings=OPEN)
        sched.add(Job(name="ping", task=Http(url=site.url()), timeout=timedelta(seconds=30)))
        async with sched:
            run = await sched.submit("ping")
            await asyncio.wait_for(asked.wait(), 20)
            await sched.cancel(run)
            with pytest.raises(otd.RunFailed, match="cancelled"):
                await run.result(timeout="20s")


async def test_without_an_engine_a_worker_takes_no_containers():
    sched = otd.Scheduler("memory:", settings=OPEN)
    sched.add(Job(name="box", task=Container(image="alpine")))
    sched.add(Job(name="nap", task=otd.Sleep(duration=timedelta(0))))
    async with sched:
        box = await sched.submit("box")
        await (await sched.submit("nap")).result(timeout="20s")  # by now the worker has looked for work
        waiting = await sched.get_run(box)
    assert waiting is not None
    assert (waiting.state, waiting.attempts) == ("scheduled", 0)
    assert {"http", "container"} & sched.registry.task_names() == {"http"}


def test_http_calls_do_not_run_in_virtual_time():
    sched = otd.Scheduler("memory:", settings=OPEN)
    sched.add(Job(name="ping", task=Http(url="http://127.0.0.1:9/"), schedules=(otd.every("1h"),)))

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 12, 0, tzinfo=UTC))
        await harness.start(sched)
        await harness.advance("90m")
        runs = await harness.runs("ping")
        await harness.stop()
        return runs

    assert {run.state for run in run_virtual(scenario())} <= {"scheduled", "skipped"}


@pytest.mark.parametrize("text", ["10.0.0.1/8", "0x7f.1", "http://x"])
def test_an_invalid_allowed_address_is_refused_with_the_settings(text: str):
    with pytest.raises(DefinitionError, match="http_allow: expected"):
        Settings(http_allow=(text,))
