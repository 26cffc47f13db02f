"""Compatible routes and field names: those of the requirement documents work on our jobs and runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.job import Call
from onthedot.server.compat.models import in_our_words
from tests.server.kit import Served, served

FILE = """
jobs:
  - name: BuildAndTest
    schedule: "0 0 * * *"  # Every day at midnight
    run_once: false         # Run multiple times
    steps:
      - name: Set up Go
        run: go mod

      - name: Build
        run: go build -v ./...

      - name: Test
        run: go test -v ./...

  - name: NightlyCleanup
    schedule: "0 2 * * *"  # Every day at 2 AM
    run_once: true          # Run only once
    steps:
      - name: Cleanup
        run: ./cleanup_script.sh
"""


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        yield server


async def submit(there: Served, headers: dict[str, str], **body: Any) -> Any:
    return await there.client.post("/jobs", json=body, headers=headers)


# ── the first document ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_periodic_job_is_submitted_read_and_cancelled(there: Served):
    user = there.keys.add(Role.EDITOR, owner="u003")
    made = await submit(there, user, name="report", user_id="u003", frequency="0 9 * * *", payload={"region": "eu"})
    assert made.status_code == 201, made.text
    told = made.json()
    assert told["next_run_time"].endswith("T09:00:00.000000Z")
    assert {name: told[name] for name in ("user_id", "name", "frequency", "payload", "status")} == {
        "user_id": "u003",
        "name": "report",
        "frequency": "0 9 * * *",
        "payload": {"region": "eu"},
        "status": "pending",
    }
    where = made.headers["location"]
    assert where == f"/jobs/{told['job_id']}"
    assert (await there.client.get(where, headers=user)).json() == told
    gone = await there.client.delete(where, headers=user)
    assert gone.json() == {"job_id": told["job_id"], "cancelled": 0}
    assert (await there.client.get(where, headers=user)).status_code == 404
    assert (await there.client.delete(where, headers=user)).status_code == 404


async def test_a_job_without_a_frequency_runs_once_and_gets_a_name(there: Served):
    made = (await submit(there, there.keys.add(Role.EDITOR), noop=True)).json()
    assert made["name"].startswith("job-")
    assert made["frequency"] is None, "the request had no frequency"
    [run] = await there.there.verbs().list_runs(made["name"])
    assert run.state == "scheduled"


def test_field_names_of_the_documents_are_translated():
    assert in_our_words({"name": "a", "frequency": "1h30m", "is_recurring": True, "run": "make"}) == {
        "name": "a",
        "schedule": "1h30m",
        "is_recurring": True,
        "run": "make",
    }
    with pytest.raises(otd.DefinitionError, match=r"user_id: expected this or 'owner'"):
        in_our_words({"name": "a", "user_id": "u", "owner": "u"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a b", "noop": True},
        {"frequency": "sometimes", "noop": True},
        {"payload": 3, "name": "a"},
        {"user_id": 3, "name": "a"},
        {"user_id": "u", "owner": "u", "name": "a"},
        {"name": "a", "noop": True, "prio": 1},
        {"name": "a", "payload": {"x": 1}, "noop": True},
    ],
)
async def test_an_invalid_job_is_refused_and_nothing_is_stored(there: Served, wrong: dict[str, Any]):
    answer = await submit(there, there.keys.add(Role.ADMIN), **wrong)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"]
    assert await there.there.verbs().list_jobs() == []


async def test_a_user_submits_only_permitted_jobs_and_only_for_itself(there: Served):
    user = there.keys.add(Role.EDITOR, owner="u003")
    assert (await submit(there, user, name="a", user_id="u004", noop=True)).status_code == 403
    assert (await submit(there, user, name="a", run="rm -rf /")).status_code == 403
    assert (await submit(there, there.keys.add(Role.OPERATOR), name="a", noop=True)).status_code == 403
    assert (await submit(there, user, name="a", noop=True)).json()["user_id"] == "u003"
    assert (await submit(there, user, name="a", noop=True)).status_code == 409
    boss = there.keys.add(Role.ADMIN)
    assert (await submit(there, boss, name="b", user_id="u004", noop=True)).json()["user_id"] == "u004"


async def test_jobs_are_listed_by_user_and_status(there: Served):
    boss = there.keys.add(Role.ADMIN)
    for number, user in enumerate(["u003", "u004", "u003"]):
        await submit(there, boss, name=f"j{number}", user_id=user, frequency="0 9 * * *", noop=True)
    await there.there.verbs().put(otd.Job(name="over", task=otd.Sleep(duration=timedelta(0)), owner="u003"))
    run = await there.there.verbs().submit("over")
    await there.there.verbs().cancel(run.id)

    async def names(**params: str) -> list[str]:
        answer = await there.client.get("/jobs", params=params, headers=boss)
        return [job["name"] for job in answer.json()["items"]]

    assert await names(status="pending", user_id="u003") == ["j0", "j2"]
    assert await names(user_id="u003") == ["j0", "j2", "over"]
    assert await names(status="failed") == ["over"]
    assert await names(status="running") == []
    assert (await there.client.get("/jobs?status=asleep", headers=boss)).status_code == 422
    mine = there.keys.add(Role.VIEWER, owner="u004", only_own=True)
    assert [job["name"] for job in (await there.client.get("/jobs", headers=mine)).json()["items"]] == ["j1"]


@pytest.mark.parametrize(
    "route",
    [
        "/jobs/{}",
        "/api/v1/retrieve_history_execution/{}",
        "/api/v1/last_execution_logs/{}",
        "/api/v1/job_status/{}",
    ],
)
async def test_a_job_of_others_is_answered_as_missing(there: Served, route: str):
    boss = there.keys.add(Role.ADMIN)
    made = (await submit(there, boss, name="a", user_id="u003", noop=True)).json()
    where = route.format(made["job_id"])
    assert (await there.client.get(where, headers=boss)).status_code == 200
    for whose in ({"namespaces": ("other",)}, {"owner": "u004", "only_own": True}):
        stranger = there.keys.add(Role.ADMIN, **whose)
        assert (await there.client.get(where, headers=stranger)).status_code == 404
        assert (await there.client.delete(f"/jobs/{made['job_id']}", headers=stranger)).status_code == 404
    for wrong, status in (("999", 404), ("0", 422), ("x", 422), ("9" * 30, 422)):
        assert (await there.client.get(route.format(wrong), headers=boss)).status_code == status
    assert (await there.client.get(where)).status_code == 401


# ── the second document ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["text/yaml", "application/yaml; charset=utf-8", "application/x-yaml"])
async def test_the_example_file_of_the_document_can_be_submitted(there: Served, kind: str):
    coder = there.keys.add(Role.EDITOR, may_code=True, owner="u909")
    headers = {**coder, "Content-Type": kind}
    made = await there.client.post("/api/v1/submit_job", content=FILE, headers=headers)
    assert made.status_code == 201, made.text
    told = made.json()
    assert [(one["name"], one["change"]) for one in told["jobs"]] == [
        ("BuildAndTest", "created"),
        ("NightlyCleanup", "created"),
    ]
    assert told["job_id"] == told["jobs"][0]["job_id"]
    status = (await there.client.get(f"/api/v1/job_status/{told['job_id']}", headers=coder)).json()
    assert (status["user_id"], status["status"], status["is_recurring"]) == ("u909", "pending", True)
    assert (status["schedule"], status["last_status"]) == ("0 0 * * *", None)
    assert status["next_execution_time"].endswith("T00:00:00.000000Z")
    once = (await there.client.get(f"/api/v1/job_status/{told['jobs'][1]['job_id']}", headers=coder)).json()
    assert once["is_recurring"] is False
    again = (await there.client.post("/api/v1/submit_job", content=FILE, headers=headers)).json()
    assert again["job_id"] == told["job_id"]
    assert [one["change"] for one in again["jobs"]] == ["unchanged", "unchanged"]


async def test_a_submitted_file_may_have_four_fields(there: Served):
    coder = there.keys.add(Role.EDITOR, may_code=True)
    text = "jobs: [{name: a, schedule: '30 0 2 *', noop: true}]"
    made = await there.client.post(
        "/api/v1/submit_job", content=text, headers={**coder, "Content-Type": "application/yaml"}
    )
    assert made.status_code == 201, made.text
    status = (await there.client.get(f"/api/v1/job_status/{made.json()['job_id']}", headers=coder)).json()
    assert status["schedule"] == "30 0 2 *"
    assert status["next_execution_time"].endswith("T02:00:30.000000Z")
    told = (await there.client.get("/api/v1/jobs/a", headers=coder)).json()
    sent = {"name": "a", "noop": True, "schedule": {"cron": "30 0 2 *", "seconds": True}}
    again = await there.client.put("/api/v1/jobs/a", json=sent, headers=coder)
    assert again.status_code == 200, again.text
    assert again.json()["revision"] == told["revision"], "the definition is the same"
    refused = await there.client.put("/api/v1/jobs/a", json={**sent, "schedule": "30 0 2 *"}, headers=coder)
    assert refused.status_code == 422
    patch = {"timeout": "1m"}
    patched = await there.client.patch(
        "/api/v1/jobs/a", json=patch, headers={**coder, "Content-Type": "application/merge-patch+json"}
    )
    assert patched.status_code == 200, patched.text


async def test_a_file_is_stored_as_a_whole_or_not_at_all(there: Served):
    coder, plain = there.keys.add(Role.EDITOR, may_code=True), there.keys.add(Role.EDITOR)
    await there.there.verbs().put(otd.Job(name="theirs", task=otd.Sleep(duration=timedelta(0)), owner="ann"))
    own = there.keys.add(Role.EDITOR, may_code=True, owner="bob", only_own=True)
    ask = there.client

    async def status(text: str | bytes, headers: dict[str, str], kind: str = "text/yaml") -> int:
        headers = {**headers, "Content-Type": kind}
        return (await ask.post("/api/v1/submit_job", content=text, headers=headers)).status_code

    harmless = "jobs: [{name: one, noop: true}, "
    assert await status(FILE, plain) == 403
    assert await status(harmless + "{name: two, run: ls}]", plain) == 403
    assert await status(harmless + "{name: theirs, noop: true}]", own) == 404
    assert await status(harmless + "{name: two, noop: true, owner: ann}]", coder) == 403
    here = there.keys.add(Role.EDITOR, namespaces=("default",))
    assert await status(harmless + "{name: two, noop: true, namespace: other}]", here) == 404
    assert await status(harmless + "{name: two}]", coder) == 422
    assert await status("jobs: []", coder) == 422
    assert await status("", coder) == 422
    assert await status(b"\xff\xfe", coder) == 422
    assert await status("jobs: [", coder) == 422
    assert await status(FILE, coder, "application/json") == 415
    assert await status(FILE, coder, "multipart/form-data") == 415
    assert await status(FILE, coder, "text/plain") == 415  # any web page can send this type without a preflight
    assert (await ask.post("/api/v1/submit_job", content=FILE.encode(), headers=coder)).status_code == 415
    assert [record.job.name for record in await there.there.verbs().list_jobs()] == ["theirs"]


async def test_every_problem_of_a_file_is_reported_with_its_position(there: Served):
    wrong = "jobs:\n  - name: a b\n    noop: true\n  - name: c\n    schedule: sometimes\n    noop: true\n"
    headers = {**there.keys.add(Role.EDITOR), "Content-Type": "text/yaml"}
    answer = await there.client.post("/api/v1/submit_job", content=wrong, headers=headers)
    assert answer.status_code == 422
    assert "body:2:" in answer.json()["detail"]
    assert "body:5:" in answer.json()["detail"]
    assert await there.there.verbs().list_jobs() == []


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_runs_have_a_history_and_logs(tmp_path: Path):
    """A node and a server share one file. One job succeeds, one fails, and one runs until the test ends it."""
    url = f"sqlite:///{tmp_path / 'documents.db'}"
    sched = otd.Scheduler(url, settings=otd.Settings(node_id="w001"))
    begun, end = asyncio.Event(), asyncio.Event()

    @sched.job(owner="u003")
    async def good(ctx: otd.Context) -> str:
        ctx.log("all is well")
        return "done"

    @sched.job(owner="u003")
    async def bad() -> None:
        raise ValueError("no data")

    @sched.job(owner="u004")
    async def long() -> None:
        begun.set()
        await end.wait()

    async with sched, served(url) as there:
        boss = there.keys.add(Role.ADMIN)
        ids = {record.job.name: record.id for record in await sched.list_jobs()}
        running = await sched.submit("long")
        await begun.wait()
        done, failed = await sched.submit("good"), await sched.submit("bad")
        await done.result(timeout="10s")
        with pytest.raises(otd.RunFailed):
            await failed.result(timeout="10s")

        async def get(path: str) -> Any:
            answer = await there.client.get(path, headers=boss)
            assert answer.status_code == 200, answer.text
            return answer.json()

        statuses = {name: (await get(f"/api/v1/job_status/{number}"))["status"] for name, number in ids.items()}
        assert statuses == {"good": "completed", "bad": "failed", "long": "running"}
        [past] = (await get(f"/api/v1/retrieve_history_execution/{ids['bad']}"))["items"]
        assert (past["status"], past["error"], past["execution_id"]) == ("failed", "ValueError: no data", failed.id)
        assert past["logs_path"] == f"/api/v1/runs/{failed.id}/logs"
        logs = await get(f"/api/v1/last_execution_logs/{ids['good']}")
        assert (logs["status"], logs["execution_id"], logs["cut"]) == ("completed", done.id, False)
        assert "all is well" in logs["logs"]
        [one] = (await get("/job/executions?worker_id=w001"))["items"]
        assert (one["execution_id"], one["job_id"], one["user_id"]) == (running.id, ids["long"], "u004")
        assert (await get("/job/executions?worker_id=w002"))["items"] == []
        pending = await get("/jobs?status=completed&user_id=u003")
        assert [job["job_id"] for job in pending["items"]] == [ids["good"]]
        mine = there.keys.add(Role.VIEWER, owner="u003", only_own=True)
        foreign = await there.client.get("/job/executions?worker_id=w001", headers=mine)
        assert foreign.json()["items"] == []
        once = (await submit(there, boss, name="once", user_id="u003", call="good")).json()
        [only] = await sched.list_runs("once")
        assert await sched.result(only.id, timeout="10s") == "done"
        assert (await get(f"/jobs/{once['job_id']}"))["status"] == "completed"
        assert (await get(f"/api/v1/job_status/{once['job_id']}"))["next_execution_time"] is None
        end.set()
        await running.result(timeout="10s")


async def test_a_job_that_never_ran_has_no_logs(there: Served):
    await there.there.verbs().put(otd.Job(name="a", task=Call(handler="a")))
    [record] = await there.there.verbs().list_jobs()
    told = (
        await there.client.get(f"/api/v1/last_execution_logs/{record.id}", headers=there.keys.add(Role.VIEWER))
    ).json()
    assert (told["execution_id"], told["logs"], told["status"]) == (None, "", "pending")
