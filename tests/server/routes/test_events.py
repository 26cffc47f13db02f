"""The stream of events: each follower gets the events that it can see, and the missed ones after a break."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from onthedot.access.permissions import LOCAL, Role
from onthedot.model.errors import StoreUnavailable
from onthedot.server.routes import events
from onthedot.server.routes.events import FeedEvent, FollowerQueue
from tests.server.event_reader import Event, reading
from tests.server.kit import Served
from tests.server.worker import Worker

EVENTS = "/api/v1/events"


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POLL_EVERY", 0.02)
    monkeypatch.setattr(events, "LEAST_PAUSE", 0.001)


async def ended(server: Served, worker: Worker) -> int:
    run_id = (await server.there.verbs().submit("mail")).id
    await worker.end(await worker.take_one())
    return run_id


async def test_starts_and_ends_of_runs_are_sent(server: Served, viewer: dict[str, str], worker: Worker):
    async with reading(server.app, EVENTS, viewer) as reader:
        await reader.ping()
        run_id = (await server.there.verbs().submit("mail")).id
        lease = await worker.take_one()
        started = await reader.next()
        assert (started.event, started.data["run_id"], started.id) == ("started", run_id, None)
        await worker.end(lease)
        end = await reader.next()
    assert (end.event, end.data["run_id"], end.data["state"]) == ("ended", run_id, "succeeded")
    run = await server.there.verbs().get_run(run_id)
    assert run is not None
    assert end.id == f"{run.ended_at}.{run_id}"


async def test_a_follower_that_returns_gets_the_missed_events(server: Served, viewer: dict[str, str], worker: Worker):
    ids = [await ended(server, worker) for _ in range(5)]
    run = await server.there.verbs().get_run(ids[1])
    assert run is not None
    headers = {**viewer, "Last-Event-ID": f"{run.ended_at}.{run.id}"}
    async with reading(server.app, EVENTS, headers) as reader:
        missed = [(await reader.next()).data["run_id"] for _ in range(3)]
        await reader.ping()
        live = await ended(server, worker)
        assert (await reader.next("ended")).data["run_id"] == live
    assert missed == ids[2:]


async def test_a_new_follower_gets_no_past_events(server: Served, viewer: dict[str, str], worker: Worker):
    await ended(server, worker)
    async with reading(server.app, EVENTS, viewer) as reader:
        await reader.ping()
        run_id = await ended(server, worker)
        assert (await reader.next("ended")).data["run_id"] == run_id


async def test_events_of_others_are_not_sent(
    server: Served, viewer: dict[str, str], stranger: dict[str, str], worker: Worker
):
    first = await ended(server, worker)
    run = await server.there.verbs().get_run(first)
    assert run is not None
    since = {"Last-Event-ID": f"{(run.ended_at or 0) - 1}.0"}
    async with (
        reading(server.app, EVENTS, {**viewer, **since}) as reader,
        reading(server.app, EVENTS, {**stranger, **since}) as foreign,
    ):
        await foreign.ping()
        run_id = await ended(server, worker)
        while (await reader.next("ended")).data["run_id"] != run_id:
            continue
        assert foreign.events.empty()


async def test_many_followers_share_one_query(
    server: Served, viewer: dict[str, str], worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    query_count, find_runs = 0, server.there.store.queries.find_runs

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal query_count
        query_count += 1
        return await find_runs(*args, **options)

    monkeypatch.setattr(events, "POLL_EVERY", 0.5)
    monkeypatch.setattr(events, "LEAST_PAUSE", 0.2)
    monkeypatch.setattr(server.there.store.queries, "find_runs", counted)
    told, began = 0, time.monotonic()
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Semaphore(0)

        async def one() -> None:
            nonlocal told
            async with reading(server.app, EVENTS, viewer) as reader:
                await reader.ping()
                ready.release()
                await reader.next("ended")
                told += 1

        for _ in range(50):
            group.create_task(one())
        for _ in range(50):
            await ready.acquire()
        await ended(server, worker)
    most = 5 + (time.monotonic() - began) / events.LEAST_PAUSE  # one query after the other, on any machine
    assert (told, query_count < most) == (50, True)
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "onthedot events"]


async def test_a_slow_follower_is_told_how_many_events_it_missed(
    server: Served, viewer: dict[str, str], worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(FollowerQueue.__init__, "__kwdefaults__", {"most": 3})
    async with reading(server.app, EVENTS, viewer) as slow, reading(server.app, EVENTS, viewer) as reader:
        await slow.ping()
        await reader.ping()
        slow.may_read.clear()
        ids = []
        for _ in range(10):
            ids.append(await ended(server, worker))
            assert (await reader.next("ended")).data["run_id"] == ids[-1]
        slow.may_read.set()
        told: list[Event] = []
        while not told or told[-1].event != "left_out":
            told.append(await slow.next())
        assert len(told) < 10
        assert told[-1].data["count"] >= 10 - len(told)
        ids.append(await ended(server, worker))
        assert (await slow.next("ended")).data["run_id"] == ids[-1]  # it continues afterwards


async def test_a_full_queue_counts_lost_events_and_keeps_the_order():
    box = FollowerQueue(LOCAL, most=2)
    box.put([FeedEvent(number, "default", "", b"%d" % number) for number in range(1, 6)])
    taken = [await box.take() for _ in range(3)]
    assert [one.sent for one in taken if one][:2] == [b"1", b"2"]
    assert b'"count":3' in (taken[2].sent if taken[2] else b"")
    box.put([FeedEvent(6, "default", "", b"6")])
    again = await box.take()
    assert again is not None
    assert again.sent == b"6"


async def test_no_event_is_lost_while_the_store_is_unavailable(
    server: Served, viewer: dict[str, str], worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    find_runs, failed = server.there.store.queries.find_runs, 0

    async def away(*args: Any, **options: Any) -> Any:
        nonlocal failed
        if failed < 3:
            failed += 1
            raise StoreUnavailable("away")
        return await find_runs(*args, **options)

    async with reading(server.app, EVENTS, viewer) as reader:
        await reader.ping()
        monkeypatch.setattr(server.there.store.queries, "find_runs", away)
        run_id = await ended(server, worker)
        assert (await reader.next("ended")).data["run_id"] == run_id
    assert failed == 3


@pytest.mark.parametrize("last", ["x", "1", "1.", "-1.2", "1.r.2", "9" * 40 + ".1"])
async def test_an_invalid_event_id_is_refused(server: Served, viewer: dict[str, str], last: str):
    answer = await server.client.get(EVENTS, headers={**viewer, "Last-Event-ID": last})
    assert answer.status_code == 422


async def test_following_events_needs_a_permission(server: Served):
    assert (await server.client.get(EVENTS, headers=server.keys.add(Role.WORKER))).status_code == 403


async def test_the_number_of_followers_is_limited(server: Served, viewer: dict[str, str]):
    server.app.state.followers.most = 1
    async with reading(server.app, EVENTS, viewer):
        assert (await server.client.get(EVENTS, headers=viewer)).status_code == 429
