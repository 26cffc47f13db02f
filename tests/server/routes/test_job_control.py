"""The routes that control a job: pause, resume, skip-next, move-next and backfill."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Noop
from tests.server.kit import Served, served

DAILY = otd.Job(name="daily", task=Noop(), owner="ann", schedules=(otd.cron("0 9 * * *", id="d"),))
CHANGES = ["pause", "resume", "skip-next", "move-next", "backfill"]
BODIES: dict[str, dict[str, Any]] = {"move-next": {"to": "now"}, "backfill": {"start": "2026-01-01T00:00Z"}}


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        await server.there.verbs().put(DAILY)
        yield server


async def ask(there: Served, change: str, headers: dict[str, str], job: str = "daily", **body: Any) -> Any:
    return await there.client.post(f"/api/v1/jobs/{job}/{change}", json=body, headers=headers)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_viewer_is_refused_and_a_stranger_finds_no_job(there: Served, change: str):
    body = BODIES.get(change, {})
    refused = await ask(there, change, there.keys.add(Role.VIEWER), **body)
    assert refused.status_code == 403
    assert "jobs:control" in refused.json()["detail"]
    for whose in ({"namespaces": ("other",)}, {"owner": "bob", "only_own": True}):
        assert (await ask(there, change, there.keys.add(Role.ADMIN, **whose), **body)).status_code == 404
    assert (await ask(there, change, there.keys.add(Role.OPERATOR), job="none", **body)).status_code == 404
    record = await there.there.verbs().get_job("daily")
    assert record is not None
    assert record.state == "active"
    assert await there.there.verbs().list_runs() == []


@pytest.mark.parametrize("change", CHANGES)
async def test_an_unknown_field_is_refused(there: Served, change: str):
    operator = there.keys.add(Role.OPERATOR)
    answer = await ask(there, change, operator, **BODIES.get(change, {}), misspelt=1)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "misspelt"


@pytest.mark.parametrize("change", ["pause", "resume", "skip-next"])
async def test_a_missing_body_counts_as_an_empty_one(there: Served, change: str):
    answer = await there.client.post(f"/api/v1/jobs/daily/{change}", headers=there.keys.add(Role.OPERATOR))
    assert answer.status_code == 200, answer.text


async def test_a_pause_has_a_reason_and_an_end(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    told = (await ask(there, "pause", operator, reason="moving", until="+2h")).json()
    assert (told["job"]["state"], told["job"]["pause_reason"]) == ("paused", "moving")
    end = datetime.fromisoformat(told["job"]["paused_until"])
    assert abs((end - datetime.now(end.tzinfo)).total_seconds() - 7200) < 60
    exact = (await ask(there, "pause", operator, until="2099-01-01T00:00:00+01:00")).json()
    assert exact["job"]["paused_until"] == "2098-12-31T23:00:00.000000Z"


@pytest.mark.parametrize("until", ["yesterday", "2001-01-01T00:00Z", "2099-01-01T00:00", "", "+", "a\x00", "+1h" * 99])
async def test_an_invalid_end_of_a_pause_is_refused(there: Served, until: str):
    answer = await ask(there, "pause", there.keys.add(Role.OPERATOR), until=until)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "until"


async def test_a_resume_can_be_previewed(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    not_paused = (await ask(there, "resume", operator)).json()
    assert (not_paused["was_paused"], not_paused["slots"], not_paused["released"]) == (False, [], 0)
    await there.there.verbs().submit("daily")
    await ask(there, "pause", operator)
    preview = (await ask(there, "resume", operator, missed="all", dry_run=True)).json()
    record = await there.there.verbs().get_job("daily")
    assert record is not None
    assert record.state == "paused"
    done = (await ask(there, "resume", operator, missed="all")).json()
    assert preview["released"] == done["released"] == 1
    assert (done["was_paused"], done["job"]["state"], done["dry_run"]) == (True, "active", False)
    assert (await ask(there, "resume", operator, missed="some")).status_code == 422


async def test_the_next_slot_is_moved_or_skipped(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    [first, second] = (await there.client.get("/api/v1/jobs/daily/next?count=2", headers=operator)).json()["items"]
    moved = (await ask(there, "move-next", operator, to="+2h")).json()
    assert (moved["slot_at"], moved["reason"], moved["schedule"]) == (first["slot_at"], "moved", "d")
    run = await there.there.verbs().get_run(moved["run_id"])
    assert run is not None
    assert run.due.hour == 11
    named = (await ask(there, "skip-next", operator, slot=second["slot_at"])).json()
    assert (named["slot_at"], named["reason"], named["run_id"]) == (second["slot_at"], "cancelled", None)
    again = await ask(there, "move-next", operator, to="+1h", slot=second["slot_at"])
    assert again.status_code == 409


async def test_invalid_slots_are_refused(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    assert (await ask(there, "skip-next", operator, slot="2099-01-01T10:00Z")).status_code == 404
    assert (await ask(there, "skip-next", operator, slot="2001-01-01T09:00Z")).status_code == 409
    assert (await ask(there, "skip-next", operator, slot="soon")).status_code == 422
    assert (await ask(there, "skip-next", operator, slot="2099-01-01T09:00")).status_code == 422
    assert (await ask(there, "move-next", operator, to="soon")).status_code == 422
    assert (await ask(there, "move-next", operator)).status_code == 422
    assert await there.there.verbs().list_runs() == []


async def test_a_backfill_can_be_previewed_and_repeated(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    asked = {"start": "2026-01-01T00:00Z", "end": "2026-01-08T00:00Z"}
    preview = (await ask(there, "backfill", operator, **asked, dry_run=True)).json()
    assert (preview["slots"], preview["created"], preview["run_ids"]) == (7, 7, [])
    assert await there.there.verbs().list_runs() == []
    done = (await ask(there, "backfill", operator, **asked)).json()
    assert (done["created"], len(done["run_ids"])) == (7, 7)
    assert (done["first"], done["last"]) == ("2026-01-01T09:00:00.000000Z", "2026-01-07T09:00:00.000000Z")
    again = (await ask(there, "backfill", operator, **asked)).json()
    assert (again["created"], again["existing"], again["run_ids"]) == (0, 7, done["run_ids"])


async def test_a_relative_start_of_a_backfill_is_refused(there: Served):
    answer = await ask(there, "backfill", there.keys.add(Role.OPERATOR), start="-2h", end="2026-01-08T00:00Z")
    assert answer.status_code == 422
    assert "start: expected a point in time like '2026-01-01T09:00+01:00'" in answer.text
    assert "got '-2h'" in answer.text


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"end": "2026-01-01T00:00Z"}, "start"),
        ({"start": "2026-01-08T00:00Z", "end": "2026-01-01T00:00Z"}, "end"),
        ({"start": "2026-01-01T00:00Z", "end": "2026-01-08T00:00Z", "limit": 3}, "limit"),
        ({"start": "2026-01-01T00:00Z", "limit": 10_001}, "limit"),
        ({"start": "2026-01-01T00:00Z", "limit": 0}, "limit"),
        ({"start": "2026-01-01T00:00Z", "schedule": "x"}, "schedule"),
        ({"start": "x"}, "start"),
        ({"start": "0001-01-01T00:00Z", "end": "2026-01-01T00:00Z"}, "start"),
        ({"start": 3}, "start"),
    ],
)
async def test_an_invalid_range_is_refused(there: Served, asked: dict[str, Any], field: str):
    answer = await ask(there, "backfill", there.keys.add(Role.OPERATOR), **asked)
    assert answer.status_code == 422
    assert field in [wrong["field"] for wrong in answer.json()["errors"]]
    assert await there.there.verbs().list_runs() == []
