"""Nobody who asks for much computing holds the others: they are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Noop
from onthedot.server.routes import jobs
from tests.server.kit import Served, served

RARE = tuple(otd.cron("0 0 29 2 *", id=f"leap{number}") for number in range(40))
"""Days that come every fourth year: there is much to compute between two of them."""
JOBS = 20
OTHERS = 5
"""So many are answered while one waits, at least. Of who is held, none is."""


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(rate=100_000.0, burst=100_000) as server:
        for number in range(JOBS):
            await server.there.verbs().put(otd.Job(name=f"leap{number}", task=Noop(), schedules=RARE))
        yield server


async def answered_meanwhile(there: Served, asking: Any) -> tuple[httpx2.Response, int]:
    """The answer to one, and how many others were answered until then."""
    asked = asyncio.create_task(asking)
    others = 0
    while not asked.done():
        assert (await there.client.get("/api/v1/health")).status_code == 200
        others += 1
        await asyncio.sleep(0)  # without a socket, nothing else gives the loop a turn
    return await asked, others


async def test_next_instants_of_many_jobs(there: Served):
    viewer = there.keys.add(Role.VIEWER)
    asking = there.client.get("/api/v1/jobs?details=true", headers=viewer)
    answer, others = await answered_meanwhile(there, asking)
    items = answer.json()["items"]
    assert [len(one["next"]) for one in items] == [len(RARE)] * JOBS
    assert {one["at"][5:10] for one in items[0]["next"]} == {"02-29"}
    assert others >= OTHERS


DEEDS: list[tuple[str, dict[str, Any], int]] = [
    ("backfill", {"start": "1930-01-01T00:00Z", "dry_run": True}, 200),
    ("backfill", {"start": "1930-01-01T00:00Z"}, 200),
    ("skip-next", {"slot": "2090-01-01T09:30Z"}, 404),
    ("move-next", {"slot": "2090-01-01T09:30Z", "to": "+1h"}, 404),
]


@pytest.mark.parametrize(("deed", "said", "status"), DEEDS, ids=["dry", "backfill", "skip", "move"])
async def test_slots_of_a_hundred_years(there: Served, deed: str, said: dict[str, Any], status: int):
    operator = there.keys.add(Role.OPERATOR)
    asking = there.client.post(f"/api/v1/jobs/leap0/{deed}", json=said, headers=operator)
    answer, others = await answered_meanwhile(there, asking)
    assert answer.status_code == status, answer.text
    assert others >= OTHERS


async def test_a_page_with_details_is_a_short_one(there: Served, monkeypatch: pytest.MonkeyPatch):
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
