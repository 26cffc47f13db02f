"""The routes of runs, attempts and skipped slots: submit, list, wait, cancel and retry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.access import audit
from onthedot.access.permissions import Role
from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.run import Gate, GateAsk, OnBusy, RunState
from onthedot.model.task import Call
from onthedot.observe.formats import iso
from onthedot.server.models import AttemptOut, AttemptsOut, RunsOut
from onthedot.server.routes.runs import CancelOut, LeftOutList, ResultOut, Submitted
from onthedot.stores.queries import RunCursor, SkipCursor, SkipFilter, SkipPage, encode_cursor
from onthedot.stores.values import Node, ReserveRequest
from tests.server.kit import Served
from tests.server.worker import Worker

RUNS = "/api/v1/runs"


async def submitted(server: Served, who: dict[str, str], **said: Any) -> int:
    answer = await server.client.post(RUNS, json={"job": "mail", **said}, headers=who)
    assert answer.status_code in (200, 201), answer.text
    return Submitted.model_validate(answer.json()).run_id


# ── submits ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_is_stored_before_the_answer(server: Served, operator: dict[str, str]):
    said = {"job": "mail", "args": {"to": "ann"}, "delay": "10m", "expires": "1h"}
    answer = await server.client.post(RUNS, json=said, headers=operator)
    assert (answer.status_code, answer.json()["created"]) == (201, True)
    run = await server.there.verbs().get_run(answer.json()["run_id"])
    assert run is not None
    assert (run.job, run.args, run.state) == ("mail", '{"to":"ann"}', RunState.SCHEDULED)
    assert 590 < (run.due_at - run.created_at) / SECOND < 610


async def test_a_key_in_the_body_gives_one_run_for_all_callers(server: Served, operator: dict[str, str]):
    other = server.keys.add(Role.OPERATOR)
    first = await server.client.post(RUNS, json={"job": "mail", "key": "7"}, headers=operator)
    again = await server.client.post(RUNS, json={"job": "mail", "key": "7"}, headers=other)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {"run_id": first.json()["run_id"], "created": False}
    clash = await server.client.post(RUNS, json={"job": "mail", "key": "7", "args": {"a": 1}}, headers=operator)
    assert clash.status_code == 409


@pytest.mark.parametrize("path", [RUNS, "/api/v1/jobs/mail/trigger"])
async def test_an_idempotency_key_gives_one_run_for_each_caller(server: Served, operator: dict[str, str], path: str):
    other = server.keys.add(Role.OPERATOR)
    body = {"job": "mail"} if path == RUNS else {}
    key = {"Idempotency-Key": "7"}
    first, again, theirs = [
        await server.client.post(path, json=body, headers={**who, **key}) for who in (operator, operator, other)
    ]
    assert [answer.status_code for answer in (first, again, theirs)] == [201, 200, 201]
    assert first.json()["run_id"] == again.json()["run_id"] != theirs.json()["run_id"]
    changed = {**body, "args": {"to": "bob"}}
    assert (await server.client.post(path, json=changed, headers={**operator, **key})).status_code == 409


async def test_the_key_of_another_caller_cannot_be_forged(server: Served, operator: dict[str, str]):
    await server.client.post(RUNS, json={"job": "mail"}, headers={**operator, "Idempotency-Key": "7"})
    [run] = await server.there.verbs().list_runs()
    forged = "idempotency:" + "0" * 64
    answer = await server.client.post(RUNS, json={"job": "mail", "key": forged}, headers=operator)
    assert answer.status_code == 422
    both = {**operator, "Idempotency-Key": "7"}
    assert (await server.client.post(RUNS, json={"job": "mail", "key": "x"}, headers=both)).status_code == 422
    assert [one.id for one in await server.there.verbs().list_runs()] == [run.id]


BAD: list[dict[str, Any]] = [
    {},
    {"job": 3},
    {"job": "mail\0"},
    {"job": "mail", "key": "\0"},
    {"job": "mail", "key": "x" * 201},
    {"job": "mail", "delay": "soon"},
    {"job": "mail", "delay": "-1s"},
    {"job": "mail", "expires": "200 years"},
    {"job": "mail", "args": [1]},
    {"job": "mail", "args": {"a": "x" * 70_000}},
    {"job": "greet", "args": {"other": 1}},
    {"job": "greet", "args": {"name": 3}},
    {"job": "mail", "task": {"command": "id"}},
    {"job": "mail", "definition": {"argv": ["id"]}},
]


@pytest.mark.parametrize("said", BAD)
async def test_an_invalid_submit_is_refused_and_stores_nothing(
    server: Served, operator: dict[str, str], said: dict[str, Any]
):
    answer = await server.client.post(RUNS, json=said, headers=operator)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert await server.there.verbs().list_runs() == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"job":"mail","args":{"a":NaN}}',
        b'{"job":"mail","args":{"a":"\\ud800"}}',
        b'{"job":"mail","args":{"a":' + b"[" * 70 + b"]" * 70 + b"}}",
        b'{"job":"mail","args":{"a":' + b"[" * 50_000,
        b'{"job":"mail"}{"job":"mail"}',
        b'\xef\xbb\xbf{"job":"mail"}',
    ],
)
async def test_invalid_json_is_refused(server: Served, operator: dict[str, str], body: bytes):
    headers = {**operator, "Content-Type": "application/json"}
    answer = await server.client.post(RUNS, content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    assert await server.there.verbs().list_runs() == []


@pytest.mark.parametrize("kind", ["text/plain", "application/yaml", ""])
async def test_bodies_of_other_types_are_refused(server: Served, operator: dict[str, str], kind: str):
    headers = {**operator, "Content-Type": kind}
    answer = await server.client.post(RUNS, content=b'{"job":"mail"}', headers=headers)
    assert answer.status_code == 415


async def test_a_job_of_others_is_answered_as_missing(server: Served, stranger: dict[str, str]):
    answer = await server.client.post(RUNS, json={"job": "mail"}, headers=stranger)
    assert answer.status_code == 404
    assert (await server.client.post("/api/v1/jobs/mail/trigger", headers=stranger)).status_code == 404
    assert await server.there.verbs().list_runs() == []


async def test_names_of_others_are_not_suggested(server: Served):
    own = server.keys.add(Role.OPERATOR, owner="bob", only_own=True)
    answer = await server.client.post(RUNS, json={"job": "mai"}, headers=own)
    assert answer.status_code == 404
    assert "mail" not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", RUNS), ("POST", "/api/v1/jobs/mail/trigger"), ("POST", f"{RUNS}/1/cancel"), ("POST", f"{RUNS}/1/retry")],
)
async def test_a_viewer_cannot_submit_cancel_or_retry(server: Served, viewer: dict[str, str], method: str, path: str):
    answer = await server.client.request(method, path, json={}, headers=viewer)
    assert answer.status_code == 403
    assert "runs:control" in answer.json()["detail"]


# ── triggers ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_trigger_takes_declared_parameters(server: Served, operator: dict[str, str]):
    answer = await server.client.post("/api/v1/jobs/greet/trigger", json={"args": {"name": "bob"}}, headers=operator)
    assert answer.status_code == 201
    run = await server.there.verbs().get_run(answer.json()["run_id"])
    assert run is not None
    assert (run.trigger.partition(":")[0], run.args) == ("manual", '{"name":"bob"}')
    assert (await server.client.post("/api/v1/jobs/greet/trigger", headers=operator)).status_code == 201


@pytest.mark.parametrize("said", [{"args": {"x": 1}}, {"argv": ["id"]}, {"task": {}}, {"args": "x"}, []])
async def test_a_trigger_refuses_other_fields(server: Served, operator: dict[str, str], said: Any):
    answer = await server.client.post("/api/v1/jobs/greet/trigger", json=said, headers=operator)
    assert answer.status_code == 422
    assert await server.there.verbs().list_runs() == []


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_runs_are_listed_page_by_page(server: Served, operator: dict[str, str], viewer: dict[str, str]):
    ids = [await submitted(server, operator, delay=f"{minutes}m") for minutes in range(1, 6)]
    seen: list[int] = []
    path = f"{RUNS}?limit=2"
    while True:
        answer = await server.client.get(path, headers=viewer)
        page = RunsOut.model_validate(answer.json())
        seen += [run.run_id for run in page.items]
        if page.next is None:
            break
        path = f"{RUNS}?limit=2&after={page.next}"
    assert seen == ids


async def test_runs_are_filtered(server: Served, operator: dict[str, str], viewer: dict[str, str], worker: Worker):
    done = await submitted(server, operator)
    await worker.end(await worker.take_one())
    waits = await submitted(server, operator, delay="1h")
    other = await submitted(server, operator, job="greet", delay="2h")

    async def found(query: str) -> list[int]:
        answer = await server.client.get(f"{RUNS}?{query}", headers=viewer)
        assert answer.status_code == 200, answer.text
        return [run["run_id"] for run in answer.json()["items"]]

    assert await found("") == [waits, other, done]
    assert await found("state=succeeded") == [done]
    assert await found("state=succeeded&state=scheduled&job=mail") == [waits, done]
    assert await found("worker=worker-1") == [done]
    assert await found("owner=ann&job=greet") == [other]
    assert await found("owner=bob") == []
    assert await found("queue=mail") == []
    assert await found("namespace=other") == []
    assert await found("label=gpu") == []
    assert await found("since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z") == []


@pytest.mark.parametrize(
    "query",
    [
        "state=odd",
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=changed",
        "since=yesterday",
        "until=2026-01-01",
        "job=%00",
    ],
)
async def test_invalid_queries_are_refused(server: Served, viewer: dict[str, str], query: str):
    answer = await server.client.get(f"{RUNS}?{query}", headers=viewer)
    assert answer.status_code == 422
    assert answer.json()["errors"] or answer.json()["detail"]


async def test_runs_of_others_are_answered_as_missing(
    server: Served, operator: dict[str, str], stranger: dict[str, str], worker: Worker
):
    run_id = await submitted(server, operator)
    ask = server.client
    assert (await ask.get(RUNS, headers=stranger)).json() == {"items": [], "next": None}
    assert (await ask.get(f"{RUNS}?owner=ann&namespace=default", headers=stranger)).json()["items"] == []
    for path in ("", "/result", "/result?wait=1s", "/attempts"):
        foreign = await ask.get(f"{RUNS}/{run_id}{path}", headers=stranger)
        missing = await ask.get(f"{RUNS}/{run_id + 1}{path}", headers=stranger)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.json()["detail"].replace(str(run_id), "N") == missing.json()["detail"].replace(
            str(run_id + 1), "N"
        )
    for verb in ("cancel", "retry"):
        assert (await ask.post(f"{RUNS}/{run_id}/{verb}", json={}, headers=stranger)).status_code == 404
    run = await server.there.verbs().get_run(run_id)
    assert run is not None
    assert run.state is RunState.SCHEDULED


@pytest.mark.parametrize("run_id", ["0", "-1", "x", str(2**60), "9" * 30])
@pytest.mark.parametrize("path", ["", "/result", "/attempts", "/logs", "/artifacts"])
async def test_an_invalid_run_id_is_refused(server: Served, viewer: dict[str, str], run_id: str, path: str):
    assert (await server.client.get(f"{RUNS}/{run_id}{path}", headers=viewer)).status_code == 422


async def test_a_run_and_its_attempts_are_returned(
    server: Served, operator: dict[str, str], viewer: dict[str, str], worker: Worker
):
    run_id = await submitted(server, operator, args={"to": "😀"})
    lease = await worker.take_one()
    await worker.end(lease, RunState.DEAD, error="half a character: \ud800")
    answer = await server.client.get(f"{RUNS}/{run_id}", headers=viewer)
    run = answer.json()
    assert (run["state"], run["attempts"], run["args"]) == ("dead", 1, {"to": "😀"})
    [attempt] = (await server.client.get(f"{RUNS}/{run_id}/attempts", headers=viewer)).json()
    assert AttemptOut.model_validate(attempt).node == "worker-1"
    assert lease.lease_id not in answer.text + str(attempt)


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_request_can_wait_for_the_result(
    server: Served, operator: dict[str, str], viewer: dict[str, str], worker: Worker
):
    run_id = await submitted(server, operator)
    early = await server.client.get(f"{RUNS}/{run_id}/result", headers=viewer)
    assert (early.status_code, early.json()["state"]) == (202, "scheduled")
    short = await server.client.get(f"{RUNS}/{run_id}/result?wait=10ms", headers=viewer)
    assert short.status_code == 202
    waiting = asyncio.create_task(server.client.get(f"{RUNS}/{run_id}/result?wait=30s", headers=viewer))
    await worker.end(await worker.take_one(), result='{"pages":3}')
    answer = await waiting
    assert answer.status_code == 200
    assert ResultOut.model_validate(answer.json()).result == {"pages": 3}


async def test_the_result_of_a_failed_run_has_its_error(
    server: Served, operator: dict[str, str], viewer: dict[str, str], worker: Worker
):
    run_id = await submitted(server, operator)
    await worker.end(await worker.take_one(), RunState.DEAD, error="boom")
    answer = await server.client.get(f"{RUNS}/{run_id}/result", headers=viewer)
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["error"], answer.json()["result"]) == ("dead", "boom", None)


@pytest.mark.parametrize("wait", ["61s", "0s", "-1s", "soon", "1y", ""])
async def test_an_invalid_wait_is_refused(server: Served, viewer: dict[str, str], operator: dict[str, str], wait: str):
    run_id = await submitted(server, operator)
    answer = await server.client.get(f"{RUNS}/{run_id}/result", params={"wait": wait}, headers=viewer)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "wait"


# ── cancel and retry ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancel_returns_what_it_did(server: Served, operator: dict[str, str], worker: Worker):
    waits, runs = await submitted(server, operator, delay="1h"), await submitted(server, operator)
    lease = await worker.take_one()

    async def cancel(run_id: int) -> tuple[str, str | None]:
        answer = await server.client.post(f"{RUNS}/{run_id}/cancel", json={"why": "a mistake"}, headers=operator)
        told = CancelOut.model_validate(answer.json())
        return told.answer, told.state

    assert await cancel(waits) == ("cancelled", "cancelled")
    assert await cancel(runs) == ("asked", "running")
    await worker.end(lease)
    assert await cancel(runs) == ("ended", "succeeded")
    run = await server.there.verbs().get_run(waits)
    assert run is not None
    assert run.reason == "a mistake"
    assert (await server.client.post(f"{RUNS}/{waits}/cancel", headers=operator)).status_code == 200
    assert (await server.client.post(f"{RUNS}/{waits}/cancel", json={"x": 1}, headers=operator)).status_code == 422


async def test_a_retry_creates_a_run_that_begins_at_a_step(server: Served, operator: dict[str, str], worker: Worker):
    steps = otd.Steps(steps=(otd.Step(name="one", argv=("true",)), otd.Step(name="two", argv=("false",))))
    await server.there.verbs().put(otd.Job(name="build", task=steps))
    run_id = await submitted(server, operator, job="build")
    path = f"{RUNS}/{run_id}/retry"
    assert (await server.client.post(path, json={}, headers=operator)).status_code == 409  # it has not ended
    await worker.end(await worker.take_one(), RunState.DEAD, error="exit code 1")
    unknown = await server.client.post(path, json={"from_step": "on"}, headers=operator)
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "from_step")
    key = {"Idempotency-Key": "again"}
    first = await server.client.post(path, json={"from_step": "one"}, headers={**operator, **key})
    again = await server.client.post(path, json={"from_step": "one"}, headers={**operator, **key})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["run_id"] == again.json()["run_id"]
    new = await server.there.verbs().get_run(first.json()["run_id"])
    assert new is not None
    assert new.origin == run_id


async def test_a_run_of_a_handler_cannot_be_retried(server: Served, operator: dict[str, str], worker: Worker):
    await server.there.verbs().put(otd.Job(name="plain", task=Call(handler="plain")))
    run_id = await submitted(server, operator, job="plain")
    await worker.end(await worker.take_one(), RunState.DEAD)
    answer = await server.client.post(f"{RUNS}/{run_id}/retry", json={}, headers=operator)
    assert answer.status_code == 422
    assert "submit 'plain' instead" in answer.json()["detail"]


async def test_every_change_is_audited(server: Served, operator: dict[str, str]):
    run_id = await submitted(server, operator, args={"secret": "hush"})
    await server.client.post("/api/v1/jobs/mail/trigger", headers=operator)
    await server.client.post(f"{RUNS}/{run_id}/cancel", headers=operator)
    told = await audit.read(server.there.store)
    assert [entry.verb for entry in told] == ["runs.submit", "runs.trigger", "runs.cancel"]
    assert [entry.object.partition("/")[0] for entry in told] == ["job", "job", "run"]
    assert "hush" not in str(told)


async def test_a_retry_does_not_run_a_new_job_of_another_owner_with_the_same_name(server: Served, worker: Worker):
    ann = server.keys.add(Role.OPERATOR, owner="ann", only_own=True)
    run_id = await submitted(server, ann, job="greet")
    await worker.end(await worker.take_one(), RunState.DEAD, error="exit code 1")
    await server.there.verbs().remove("greet")
    await server.there.verbs().put(otd.Job(name="greet", task=otd.Command(argv=("cat", "secret")), owner="bob"))
    answer = await server.client.post(f"{RUNS}/{run_id}/retry", json={}, headers=ann)
    assert (answer.status_code, answer.json()["error"]) == (404, "UnknownJob")
    assert [run.id for run in await server.there.verbs().list_runs("greet")] == [run_id]


ATTEMPTS = "/api/v1/attempts"


async def test_attempts_are_filtered_by_worker(server: Served, viewer: dict[str, str], worker: Worker, tmp_path: Path):
    other = Worker(server.there, tmp_path, "worker-2")
    run_id = (await server.there.verbs().submit("mail")).id
    await worker.end(await worker.take_one(), RunState.SCHEDULED, error="boom")
    await other.end(await other.take_one())
    second = (await server.there.verbs().submit("mail")).id
    await worker.end(await worker.take_one())

    async def found(query: str) -> list[tuple[int, int, str]]:
        page = AttemptsOut.model_validate((await server.client.get(f"{ATTEMPTS}?{query}", headers=viewer)).json())
        return [(one.run_id, one.attempt, one.node) for one in page.items]

    newest_first = [(second, 1, "worker-1"), (run_id, 2, "worker-2"), (run_id, 1, "worker-1")]
    assert await found("") == newest_first
    assert await found("worker=worker-1") == [newest_first[0], newest_first[2]]
    assert await found("worker=nobody") == []
    first = (await server.client.get(f"{ATTEMPTS}?limit=2", headers=viewer)).json()
    assert await found(f"limit=2&after={first['next']}") == newest_first[2:]


async def test_attempts_of_others_are_not_listed(server: Served, stranger: dict[str, str], worker: Worker):
    await server.there.verbs().submit("mail")
    await worker.end(await worker.take_one())
    assert (await server.client.get(ATTEMPTS, headers=stranger)).json() == {"items": [], "next": None}


@pytest.mark.parametrize("query", ["limit=0", "after=x", "since=soon", "worker=%00"])
async def test_invalid_queries_of_attempts_are_refused(server: Served, viewer: dict[str, str], query: str):
    assert (await server.client.get(f"{ATTEMPTS}?{query}", headers=viewer)).status_code == 422


async def test_attempts_need_a_key(server: Served):
    assert (await server.client.get(ATTEMPTS)).status_code == 401


OWNERS = {"mine": ("default", "bob"), "own": ("default", "bob"), "theirs": ("default", "ann"), "far": ("team", "ann")}


async def waiting_at(server: Served, *holders: str) -> tuple[int, list[int]]:
    """Create a run of bob's that waits at a gate. Return it and the runs that hold the gate."""
    store = server.there.store
    await store.register(Node(id="worker-1", incarnation="i"), ttl=600 * SECOND)
    runs: list[int] = []
    for number, name in enumerate([*holders, "mine"], start=1):
        namespace, owner = OWNERS[name]
        limit = otd.Limit(len(holders), name="printer")
        job = otd.Job(name=name, namespace=namespace, owner=owner, task=Call(handler="print"), concurrency=limit)
        await server.there.verbs(namespace).put(job)
        runs.append((await server.there.verbs(namespace).submit(name)).id)
        ask = ReserveRequest("i", LeaseIds(f"l{number}", 1), 1, tasks=frozenset({"call:print"}), number=number)
        [lease] = (await store.reserve(ask)).held
        gates = GateAsk((Gate("limit:printer", len(holders)),), OnBusy("wait"))
        await store.arm([lease], gates={lease.lease_id: gates})
    return runs[-1], runs[:-1]


async def told(server: Served, run_id: int, **who: Any) -> tuple[list[int], str]:
    headers = server.keys.add(Role.VIEWER, **who)
    answer = await server.client.get(f"/api/v1/runs/{run_id}/standing", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["standing"]["holders"], answer.json()["waits_for"][0]


GATE = "the gate limit:printer, which is held by"
BOB: dict[str, Any] = {"owner": "bob", "only_own": True}


async def test_holders_of_a_gate_are_named_to_a_caller_that_sees_all(server: Served):
    run, [own, theirs, far] = await waiting_at(server, "own", "theirs", "far")
    assert await told(server, run) == ([own, theirs, far], f"{GATE} run {own}, {theirs}, {far}")


async def test_holders_of_others_are_counted_and_not_named(server: Served):
    run, [own, theirs, _] = await waiting_at(server, "own", "theirs", "far")
    assert await told(server, run, **BOB) == ([own], f"{GATE} run {own} and 2 other runs")
    here = await told(server, run, namespaces=("default",))
    assert here == ([own, theirs], f"{GATE} run {own}, {theirs} and another run")


async def test_a_single_holder_of_others_is_not_named(server: Served):
    run, [_] = await waiting_at(server, "far")
    assert await told(server, run, namespaces=("default",)) == ([], f"{GATE} another run")


SKIPS = "/api/v1/skips"


async def skipped(server: Served, name: str, owner: str = "ann", namespace: str = "default") -> None:
    """Create a job and skip one of its slots."""
    verbs = server.there.verbs(namespace)
    task, schedules = Call(handler=name), (otd.gap("1h", id="hourly"),)
    await verbs.put(otd.Job(name=name, task=task, owner=owner, namespace=namespace, schedules=schedules))
    await verbs.pause(name)
    await verbs.skip_next(name)


async def jobs_shown(server: Served, who: dict[str, str], **query: Any) -> list[str]:
    answer = await server.client.get(SKIPS, params=query, headers=who)
    assert answer.status_code == 200, answer.text
    return [f"{one.namespace}/{one.job}" for one in LeftOutList.model_validate(answer.json()).items]


async def test_a_skipped_slot_has_its_reason(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    [one] = (await server.client.get(SKIPS, headers=viewer)).json()["items"]
    assert (one["job"], one["namespace"], one["schedule"]) == ("poll", "default", "hourly")
    assert (one["count"], one["reason"], one["first"] == one["last"]) == (1, "cancelled", True)
    [record] = await server.there.verbs().list_skips()
    assert (one["first"], one["recorded_at"]) == (iso(record.first), iso(record.recorded_at))


async def test_skips_are_filtered_by_job_and_namespace(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    await skipped(server, "sweep")
    await skipped(server, "far", namespace="team")
    assert await jobs_shown(server, viewer) == ["default/sweep", "default/poll"]
    assert await jobs_shown(server, viewer, limit=1) == ["default/sweep"]
    assert await jobs_shown(server, viewer, job="poll") == ["default/poll"]
    assert await jobs_shown(server, viewer, job="nobody") == []
    assert await jobs_shown(server, viewer, namespace="team") == ["team/far"]


async def test_skips_are_listed_page_by_page_newest_first(server: Served, viewer: dict[str, str]):
    for name in ("poll", "sweep", "tick"):
        await skipped(server, name)
    found: list[str] = []
    query: dict[str, str] | None = {"limit": "2"}
    while query is not None:
        page = (await server.client.get(SKIPS, params=query, headers=viewer)).json()
        found += [one["job"] for one in page["items"]]
        query = None if page["next"] is None else {"limit": "2", "after": page["next"]}
    assert found == ["tick", "sweep", "poll"]
    for wrong in ("x", "999999998", encode_cursor(RunCursor(True, 1, 1))):
        assert (await server.client.get(SKIPS, params={"after": wrong}, headers=viewer)).status_code == 422


async def test_new_skips_do_not_move_the_next_page(server: Served, viewer: dict[str, str]):
    for name in ("poll", "sweep", "tick"):
        await skipped(server, name)
    page = (await server.client.get(SKIPS, params={"limit": "2"}, headers=viewer)).json()
    await skipped(server, "late")
    assert [one["job"] for one in page["items"]] == ["tick", "sweep"]
    assert await jobs_shown(server, viewer, limit=2, after=page["next"]) == ["default/poll"]


async def test_a_page_of_skips_needs_one_query(server: Served, monkeypatch: pytest.MonkeyPatch):
    """This also holds for a caller that sees its own jobs only: no job is read."""
    for number in range(20):
        await skipped(server, f"theirs{number}", owner="ann")
    await skipped(server, "poll", owner="bob")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    asked: list[int] = []
    find_skips = server.there.store.queries.find_skips

    async def counted(wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        asked.append(limit)
        return await find_skips(wanted, after=after, limit=limit)

    monkeypatch.setattr(server.there.store.queries, "find_skips", counted)
    monkeypatch.setattr(server.there.store.queries, "get_job", None)
    assert await jobs_shown(server, bob, limit=5) == ["default/poll"]
    assert asked == [5]


async def test_skips_of_others_are_not_listed(server: Served):
    await skipped(server, "poll")
    await skipped(server, "theirs", owner="bob")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert await jobs_shown(server, bob) == await jobs_shown(server, bob, job="theirs") == ["default/theirs"]
    assert await jobs_shown(server, bob, job="poll") == []
    elsewhere = server.keys.add(Role.ADMIN, namespaces=("other",))
    assert (await server.client.get(SKIPS, headers=elsewhere)).status_code == 404


async def test_a_new_job_with_a_used_name_does_not_show_old_skips(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    await server.there.verbs().remove("poll")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert await jobs_shown(server, bob) == []
    await server.there.verbs().put(otd.Job(name="poll", task=Call(handler="poll"), owner="bob"))
    assert await jobs_shown(server, bob) == []
    assert await jobs_shown(server, viewer) == ["default/poll"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "job=%00", "namespace=a%20b"])
async def test_invalid_queries_of_skips_are_refused(server: Served, viewer: dict[str, str], query: str):
    assert (await server.client.get(f"{SKIPS}?{query}", headers=viewer)).status_code == 422
