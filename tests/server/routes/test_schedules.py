"""The routes about schedules: an expression that is not stored is described, checked and previewed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from onthedot.access.permissions import Role
from onthedot.server.compute import in_thread
from tests.server.kit import Served, served


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        yield server


async def ask(there: Served, what: str, **body: Any) -> Any:
    return await there.client.post(f"/api/v1/schedules/{what}", json=body, headers=there.keys.add(Role.VIEWER))


async def test_an_expression_is_described_in_words(there: Served):
    told = (await ask(there, "describe", expression="30 2 * * *", tz="Europe/Berlin")).json()
    assert told["reading"] == "at 02:30 every day, Europe/Berlin"
    assert told["fields"]["hour"] == "2"
    every = (await ask(there, "describe", expression="1h30m")).json()
    assert (every["expression"], every["fields"], every["tz"]) == ("every 1h30m", None, "UTC")


async def test_four_fields_need_the_option_seconds(there: Served):
    refused = await ask(there, "describe", expression="*/5 * * *")
    assert refused.status_code == 422
    assert "write '*/5 * * * *' (every 5 minutes)" in refused.text
    assert "'second minute hour day' (every 5 seconds)" in refused.text
    told = (await ask(there, "describe", expression="*/5 * * *", seconds=True)).json()
    assert (told["reading"], told["fields"]["second"]) == ("every 5 seconds, UTC", "*/5")


@pytest.mark.parametrize(
    "schedule",
    [
        "at 2026-01-01T00:00Z" + " " * 50_000 + "x",
        {"every": "1h" + " " * 50_000 + "x"},
        "61," * 17_000,
        {"cron": "x," * 495},
    ],
    ids=["at", "every", "terms", "cron"],
)
async def test_hostile_text_gets_a_short_error(there: Served, schedule: Any):
    body = {"name": "a", "noop": True, "schedule": schedule}
    refused = await there.client.post("/api/v1/jobs", json=body, headers=there.keys.add(Role.EDITOR))
    assert refused.status_code == 422
    assert len(refused.text) < 1_500


async def test_lint_reports_odd_expressions(there: Served):
    odd = (await ask(there, "lint", expression="*/7 * * * *")).json()
    assert [one["kind"] for one in odd["odd"]] == ["uneven"]
    assert odd["reading"]
    assert (await ask(there, "lint", expression="0 9 * * *")).json()["odd"] == []


async def test_a_preview_follows_a_clock_change(there: Served):
    told = (
        await ask(
            there, "preview", expression="30 2 * * *", tz="Europe/Berlin", start="2026-03-28T12:00+01:00", count=2
        )
    ).json()
    assert [one["local"] for one in told["instants"]] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert told["instants"][0]["at"] == "2026-03-29T01:00:00.000000Z"


async def test_the_name_of_the_job_decides_the_value_of_h(there: Served):
    asked = {"expression": "H H * * *", "start": "2026-01-01T00:00Z", "count": 1}
    one, two, same = [
        (await ask(there, "preview", **asked, job=job)).json()["instants"] for job in ("a", "b", "default/a")
    ]
    assert one != two
    assert one == same


async def test_a_past_schedule_has_no_instants(there: Served):
    told = (await ask(there, "preview", expression="at 2020-01-01T00:00Z")).json()
    assert told["instants"] == []


@pytest.mark.parametrize("what", ["describe", "lint", "preview"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"expression": ""},
        {"expression": "61 * * * *"},
        {"expression": "0 0 30 2 *"},
        {"expression": "every 0s"},
        {"expression": "* * * * *", "tz": "Mars/Olympus"},
        {"expression": "* * * * *", "tz": "../etc/passwd"},
        {"expression": "every 1h", "gap": "skip"},
        {"expression": "* * * * *", "gap": "jump"},
        {"expression": "*\n* * * *"},
        {"expression": "x" * 3000},
        {"expression": 3},
        {"expression": "* * * * *", "misspelt": 1},
    ],
)
async def test_an_invalid_schedule_is_refused(there: Served, what: str, body: dict[str, Any]):
    answer = await ask(there, what, **body)
    assert answer.status_code == 422
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "body", [{"count": 0}, {"count": 1001}, {"start": "x"}, {"start": "9999-12-31T23:59:59+00:00"}]
)
async def test_count_and_start_of_a_preview_are_checked(there: Served, body: dict[str, Any]):
    answer = await ask(there, "preview", expression="* * * * *", **body)
    assert answer.status_code == (200 if body.get("start", "").startswith("9999") else 422)


async def test_a_preview_ends_after_a_hundred_years(there: Served):
    """Rare instants are searched day by day. The search ends although a thousand of them were requested."""
    rare = {"expression": "0 0 29 2 */7", "count": 1000, "start": "1900-01-01T00:00Z", "tz": "Europe/Berlin"}
    instants = (await ask(there, "preview", **rare)).json()["instants"]
    assert 0 < len(instants) < 30
    assert max(one["at"] for one in instants) < "2000-04"


async def test_instants_are_computed_outside_of_the_event_loops_thread(there: Served):
    seen: list[int] = []

    def work() -> None:
        seen.append(threading.get_ident())

    await asyncio.gather(*(in_thread(work) for _ in range(20)))
    assert len(seen) == 20
    assert threading.get_ident() not in seen
