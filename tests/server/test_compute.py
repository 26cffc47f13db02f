"""Expensive requests: the server answers other requests while it computes."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from time import process_time, thread_time
from typing import Any

import httpx2
import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Noop
from onthedot.server.routes import jobs
from tests.server.kit import Served, served

RARE = tuple(otd.cron("0 0 29 2 *", id=f"leap{number}") for number in range(40))
"""Days that come every fourth year: finding the next one is expensive."""
JOBS = 20
OTHERS = 5
"""Requests that must be answered during each computation."""


class Threads:
    """Makes each computation in a thread wait until `OTHERS` requests were answered.

    So the test does not depend on the speed of the machine. Computations on the event loop's thread do not wait here.
    """

    def __init__(self) -> None:
        self.answered = threading.Semaphore(0)
        self.waited = 0

    async def to_thread(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self._work(work, *args, **options))

    def _work(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return work(*args, **options)
        finally:
            for _ in range(OTHERS):
                assert self.answered.acquire(timeout=30), "no other request was answered during this computation"
            self.waited += 1


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Generator[Threads]:
    made = Threads()
    monkeypatch.setattr(asyncio, "to_thread", made.to_thread)
    gc.disable()  # its time would count as a turn of the event loop
    yield made
    gc.enable()


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(rate=100_000.0, burst=100_000) as server:
        for number in range(JOBS):
            await server.there.verbs().put(otd.Job(name=f"leap{number}", task=Noop(), schedules=RARE))
        yield server


async def answered_meanwhile(there: Served, asking: Any, threads: Threads) -> httpx2.Response:
    """Return the answer to one request. Checks that others were answered meanwhile, and that no single turn of the
    event loop took more than half of the CPU time."""
    asked = asyncio.create_task(asking)
    began, longest, turn = process_time(), 0.0, thread_time()
    while not asked.done():
        assert (await there.client.get("/api/v1/health")).status_code == 200
        threads.answered.release()
        await asyncio.sleep(0)  # without a socket, nothing else yields to the event loop
        longest, turn = max(longest, thread_time() - turn), thread_time()
    assert longest < (process_time() - began) / 2
    assert threads.waited
    answer: httpx2.Response = await asked
    return answer


async def test_the_next_instants_of_many_jobs_do_not_block_others(there: Served, threads: Threads):
    viewer = there.keys.add(Role.VIEWER)
    asking = there.client.get("/api/v1/jobs?details=true", headers=viewer)
    answer = await answered_meanwhile(there, asking, threads)
    items = answer.json()["items"]
    assert [len(one["next"]) for one in items] == [len(RARE)] * JOBS
    assert {one["at"][5:10] for one in items[0]["next"]} == {"02-29"}


CHANGES: list[tuple[str, dict[str, Any], int]] = [
    ("backfill", {"start": "1930-01-01T00:00Z", "dry_run": True}, 200),
    ("backfill", {"start": "1930-01-01T00:00Z"}, 200),
    ("skip-next", {"slot": "2090-01-01T09:30Z"}, 404),
    ("move-next", {"slot": "2090-01-01T09:30Z", "to": "+1h"}, 404),
]


@pytest.mark.parametrize(("change", "said", "status"), CHANGES, ids=["dry", "backfill", "skip", "move"])
async def test_searching_slots_of_a_hundred_years_does_not_block_others(
    there: Served, threads: Threads, change: str, said: dict[str, Any], status: int
):
    operator = there.keys.add(Role.OPERATOR)
    asking = there.client.post(f"/api/v1/jobs/leap0/{change}", json=said, headers=operator)
    answer = await answered_meanwhile(there, asking, threads)
    assert answer.status_code == status, answer.text


async def test_pages_with_details_are_shorter(there: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "MOST_SHOWN", 8)
    viewer = there.keys.add(Role.VIEWER)
    names: list[str] = []
    sizes: list[int] = []
    query: dict[str, Any] = {"details": True, "limit": 1000}
    while query.get("after", "") is not None:
        page = (await there.client.get("/api/v1/jobs", params=query, headers=viewer)).json()
        sizes.append(len(page["items"]))
        names += [one["name"] for one in page["items"]]
        query["after"] = page["next"]
    assert sizes == [8, 8, 4]
    assert names == sorted(names) == sorted(f"leap{number}" for number in range(JOBS))
