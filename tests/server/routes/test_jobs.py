"""The routes of jobs: list, read, create, replace, patch and delete, and their next instants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.access import audit
from onthedot.access.permissions import Permission, Role
from onthedot.define.yaml_text import yaml_text
from onthedot.model.job import JobRecord
from onthedot.model.task import Call, Command, Noop
from onthedot.server.models import definition_of, patched
from onthedot.server.routes.jobs import UpcomingOut
from onthedot.stores.queries import JobCursor, RunCursor, encode_cursor
from tests.server.kit import Served, served

JOBS = [
    otd.Job(name="a", task=Noop(), owner="ann", labels=frozenset({"gpu"})),
    otd.Job(name="b", task=Noop(), owner="bob", queue="mail"),
    otd.Job(name="c", task=Noop(), owner="ann", schedules=(otd.cron("0 9 * * *"),)),
    otd.Job(name="a", task=Noop(), owner="ann", namespace="other"),
    otd.Job(name="aa", task=Noop(), owner="bob", namespace="other"),
]


@pytest.fixture
async def filled() -> AsyncGenerator[Served]:
    async with served() as server:
        for job in JOBS:
            await server.there.verbs(job.namespace).put(job)
        yield server


async def listed(filled: Served, headers: dict[str, str], **params: Any) -> list[str]:
    answer = await filled.client.get("/api/v1/jobs", params=params, headers=headers)
    assert answer.status_code == 200, answer.text
    return [f"{job['namespace']}/{job['name']}" for job in answer.json()["items"]]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, ["default/a", "default/b", "default/c", "other/a", "other/aa"]),
        ({"namespace": "other"}, ["other/a", "other/aa"]),
        ({"owner": "bob"}, ["default/b", "other/aa"]),
        ({"state": "paused"}, []),
        ({"state": "active", "owner": "ann", "namespace": "default"}, ["default/a", "default/c"]),
        ({"label": "gpu"}, ["default/a"]),
        ({"queue": "mail"}, ["default/b"]),
        ({"name": "a"}, ["default/a", "other/a", "other/aa"]),
        ({"namespace": "none"}, []),
    ],
)
async def test_jobs_are_filtered(filled: Served, params: dict[str, str], found: list[str]):
    assert await listed(filled, filled.keys.add(Role.VIEWER), **params) == found


@pytest.mark.parametrize(
    ("whose", "params", "found"),
    [
        ({"namespaces": ("other",)}, {}, ["other/a", "other/aa"]),
        ({"namespaces": ("other",)}, {"namespace": "default"}, []),
        ({"owner": "bob", "only_own": True}, {}, ["default/b", "other/aa"]),
        ({"owner": "bob", "only_own": True}, {"owner": "ann"}, []),
        ({"owner": "bob", "only_own": True, "namespaces": ("other",)}, {}, ["other/aa"]),
    ],
)
async def test_a_list_has_the_jobs_that_the_caller_can_see(
    filled: Served, whose: dict[str, Any], params: dict[str, str], found: list[str]
):
    assert await listed(filled, filled.keys.add(Role.ADMIN, **whose), **params) == found


async def test_jobs_are_listed_page_by_page(filled: Served):
    viewer = filled.keys.add(Role.VIEWER)
    seen, after = [], None
    for _ in range(10):
        params = {"limit": 2} | ({"after": after} if after else {})
        page = (await filled.client.get("/api/v1/jobs", params=params, headers=viewer)).json()
        assert len(page["items"]) <= 2
        seen += [f"{job['namespace']}/{job['name']}" for job in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == ["default/a", "default/b", "default/c", "other/a", "other/aa"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "query.limit"),
        ({"limit": 1001}, "query.limit"),
        ({"limit": "many"}, "query.limit"),
        ({"state": "asleep"}, "query.state"),
        ({"owner": "a\x00b"}, "query.owner"),
        ({"after": "nonsense"}, "after"),
        ({"after": "é"}, "after"),
        ({"after": encode_cursor(JobCursor("a\0", "b"))}, "after"),
        ({"after": encode_cursor(RunCursor(True, 1, 1))}, "after"),
    ],
)
async def test_invalid_queries_are_refused(filled: Served, params: dict[str, Any], field: str):
    answer = await filled.client.get("/api/v1/jobs", params=params, headers=filled.keys.add(Role.VIEWER))
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["errors"]] == [field]


async def test_only_visible_names_are_suggested(filled: Served):
    ann, bob = filled.keys.add(Role.VIEWER), filled.keys.add(Role.VIEWER, owner="bob", only_own=True)
    ask = filled.client
    assert "did you mean 'aa'" in (await ask.get("/api/v1/jobs/aaa?namespace=other", headers=ann)).json()["detail"]
    foreign = (await ask.get("/api/v1/jobs/a?namespace=other", headers=bob)).json()["detail"]
    assert "'a'" not in foreign.replace("no job 'a' is stored", "")
    assert "default" not in (await ask.get("/api/v1/jobs/zzzz", headers=bob)).json()["detail"]


@pytest.mark.parametrize("name", ["%00", "a%20b", "x" * 101, "-a", "%F0%9F%98%80"])
async def test_an_invalid_name_is_refused(filled: Served, name: str):
    answer = await filled.client.get(f"/api/v1/jobs/{name}", headers=filled.keys.add(Role.VIEWER))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "path.job"


async def test_a_job_has_a_tag_that_changes_with_its_definition(filled: Served):
    viewer = filled.keys.add(Role.VIEWER)
    first = (await filled.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"]
    assert first == (await filled.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"]
    await filled.there.verbs().put(otd.Job(name="a", task=Noop(), owner="ann", timeout=timedelta(seconds=1)))
    assert (await filled.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"] != first


async def test_all_revisions_of_a_job_are_listed(filled: Served):
    viewer = filled.keys.add(Role.VIEWER)
    for seconds in (1, 2, 3):
        await filled.there.verbs().put(otd.Job(name="a", task=Noop(), owner="ann", timeout=timedelta(seconds=seconds)))
    ask = filled.client
    page = (await ask.get("/api/v1/jobs/a/revisions?limit=3", headers=viewer)).json()
    assert [(one["revision"], one["definition"]["timeout"]) for one in page["items"]] == [
        (4, "3s"),
        (3, "2s"),
        (2, "1s"),
    ]
    rest = (await ask.get(f"/api/v1/jobs/a/revisions?limit=3&after={page['next']}", headers=viewer)).json()
    assert [one["revision"] for one in rest["items"]] == [1]
    assert rest["next"] is None
    stranger = filled.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert (await ask.get("/api/v1/jobs/a/revisions", headers=stranger)).status_code == 404
    for wrong in ("after=x", "after=0", "limit=0", "after=" + "9" * 40):
        assert (await ask.get(f"/api/v1/jobs/a/revisions?{wrong}", headers=viewer)).status_code == 422


# ── next ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_instants_leave_out_skipped_slots(filled: Served):
    operator = filled.keys.add(Role.OPERATOR)
    ask = filled.client
    before = (await ask.get("/api/v1/jobs/c/next?count=3", headers=operator)).json()["items"]
    skipped = (await ask.post("/api/v1/jobs/c/skip-next", json={}, headers=operator)).json()
    assert skipped["slot_at"] == before[0]["slot_at"]
    after = (await ask.get("/api/v1/jobs/c/next?count=2", headers=operator)).json()["items"]
    assert after == before[1:]
    assert all(one["slot_at"].endswith("T09:00:00.000000Z") for one in before)


async def test_the_next_instants_of_many_schedules_are_in_order(filled: Served):
    rules = (otd.every("90s"), otd.every("60s"), otd.gap("10m"), otd.at("2099-01-01T00:00Z"))
    await filled.there.verbs().put(otd.Job(name="many", task=Noop(), schedules=rules))
    answer = await filled.client.get("/api/v1/jobs/many/next?count=1000", headers=filled.keys.add(Role.VIEWER))
    slots = [one["slot_at"] for one in answer.json()["items"]]
    assert len(slots) == 1000
    assert slots == sorted(slots)


async def test_a_job_without_a_schedule_has_no_next_instants(filled: Served):
    answer = await filled.client.get("/api/v1/jobs/a/next", headers=filled.keys.add(Role.VIEWER))
    assert answer.json() == {"job": "a", "namespace": "default", "state": "active", "items": []}


@pytest.mark.parametrize("count", ["0", "1001", "x", "-1"])
async def test_an_invalid_count_of_instants_is_refused(filled: Served, count: str):
    answer = await filled.client.get(f"/api/v1/jobs/c/next?count={count}", headers=filled.keys.add(Role.VIEWER))
    assert answer.status_code == 422


NAP = otd.Job(name="nap", task=Call(handler="nap"), owner="ann")
SHELL = otd.Job(name="shell", task=Command(script="true"), owner="ann")
EDITED = replace(NAP, timeout=timedelta(seconds=9))


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        yield server


async def stored(there: Served, name: str = "nap", namespace: str = "default") -> JobRecord | None:
    return await there.there.verbs(namespace).get_job(name)


def body(job: otd.Job, **more: Any) -> dict[str, Any]:
    said = {**definition_of(job), **more}
    return {name: value for name, value in said.items() if value is not None and (name != "owner" or "owner" in more)}


# ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_is_created_once(there: Served):
    editor = there.keys.add(Role.EDITOR, owner="ann")
    made = await there.client.post("/api/v1/jobs", json=body(NAP), headers=editor)
    assert made.status_code == 201, made.text
    assert made.json()["owner"] == "ann"
    again = await there.client.get(made.headers["location"], headers=editor)
    assert again.headers["etag"] == made.headers["etag"]
    assert again.json() == made.json()
    for job in (NAP, EDITED):
        refused = await there.client.post("/api/v1/jobs", json=body(job), headers=editor)
        assert refused.status_code == 409
        assert "PUT /api/v1/jobs/nap" in refused.json()["detail"]
    record = await stored(there)
    assert record is not None
    assert record.job == NAP


async def test_concurrent_creations_of_a_job_give_one_job(there: Served):
    keys = [there.keys.add(Role.EDITOR, owner=f"o{number}") for number in range(8)]
    answers = await asyncio.gather(
        *(there.client.post("/api/v1/jobs", json=body(NAP), headers=headers) for headers in keys)
    )
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 7]


async def test_a_definition_sent_back_unchanged_makes_no_revision(there: Served):
    editor = there.keys.add(Role.EDITOR)
    rules = (otd.cron("0 9 * * *"), otd.every("1h"))
    job = otd.Job(name="full", task=Call(handler="f"), schedules=rules, args={"a": [1, None]})
    made = (await there.client.post("/api/v1/jobs", json=body(job), headers=editor)).json()
    same = await there.client.put("/api/v1/jobs/full", json=made["definition"], headers=editor)
    assert same.status_code == 200
    assert same.json()["revision"] == 1


async def test_an_invalid_definition_is_refused_and_nothing_is_stored(there: Served):
    editor = there.keys.add(Role.EDITOR)
    for wrong in (body(NAP, name="a b"), body(NAP, max_recoveries=-1), body(NAP, nmae="x"), {}, {"name": "nap"}):
        answer = await there.client.post("/api/v1/jobs", json=wrong, headers=editor)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"]
    others: tuple[object, ...] = ([], "nap", 3, None)
    for other in others:
        answer = await there.client.post("/api/v1/jobs", json=other, headers=editor)
        assert answer.status_code == 422
    assert await there.there.verbs().list_jobs() == []


async def test_every_problem_of_a_definition_has_its_path(there: Served):
    wrong = {"name": "x", "schedules": ["@daily", {"cron": "61 * * * *"}], "call": "x", "timeout": "soon", "quue": "q"}
    answer = await there.client.post("/api/v1/jobs", json=wrong, headers=there.keys.add(Role.EDITOR))
    assert answer.status_code == 422
    told = {one["field"]: one["problem"] for one in answer.json()["errors"]}
    assert set(told) == {"schedules[1].cron", "timeout", "quue"}
    assert "did you mean 'queue'" in told["quue"]


async def test_a_cycle_of_dependencies_is_refused(there: Served):
    editor = there.keys.add(Role.EDITOR)
    first = otd.Job(name="a", task=Noop(), after=otd.After("b"))
    second = otd.Job(name="b", task=Noop(), after=otd.After("a"))
    assert (await there.client.post("/api/v1/jobs", json=body(first), headers=editor)).status_code == 201
    refused = await there.client.post("/api/v1/jobs", json=body(second), headers=editor)
    assert refused.status_code == 422
    assert "arrow" in refused.json()["detail"]


# ── replace and patch ────────────────────────────────────────────────────────────────────────────────────────────


async def test_put_creates_and_replaces(there: Served):
    editor = there.keys.add(Role.EDITOR, owner="ann")
    made = await there.client.put("/api/v1/jobs/nap", json=body(NAP), headers=editor)
    assert made.status_code == 201
    assert made.headers["location"].startswith("/api/v1/jobs/nap")
    other = there.keys.add(Role.EDITOR, owner="bob")
    edited = await there.client.put("/api/v1/jobs/nap", json=body(EDITED), headers=other)
    assert edited.status_code == 200
    assert (edited.json()["revision"], edited.json()["owner"]) == (2, "ann")


@pytest.mark.parametrize("field", ["name", "namespace"])
async def test_the_name_and_namespace_of_a_job_cannot_change(there: Served, field: str):
    admin = there.keys.add(Role.ADMIN)
    await there.there.verbs().put(NAP)
    for ask in (there.client.put, there.client.patch):
        answer = await ask("/api/v1/jobs/nap", json={**body(NAP), field: "elsewhere"}, headers=admin)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == field


async def test_a_patch_changes_only_its_fields(there: Served):
    editor = there.keys.add(Role.EDITOR)
    await there.there.verbs().put(replace(NAP, max_recoveries=5, args={"a": 1, "b": 2}))
    patch = {"max_recoveries": None, "queue": "mail", "args": {"a": None, "c": 3}}
    for kind in ("application/json", "application/merge-patch+json"):
        headers = {**editor, "Content-Type": kind}
        answer = await there.client.patch("/api/v1/jobs/nap", json=patch, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["revision"] == 2
    record = await stored(there)
    assert record is not None
    assert record.job == replace(NAP, queue="mail", args={"b": 2, "c": 3})
    assert (await there.client.patch("/api/v1/jobs/none", json={}, headers=editor)).status_code == 404
    wrong = await there.client.patch("/api/v1/jobs/nap", json={"queue": "a b"}, headers=editor)
    assert wrong.status_code == 422


def test_a_merge_patch_follows_rfc_7396():
    """The cases are the examples of the RFC."""
    table = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for target, patch, made in table:
        assert patched(target, patch) == made


# ── concurrent changes ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_change_with_a_stale_tag_is_refused(there: Served):
    editor = there.keys.add(Role.EDITOR)
    ask, where = there.client, "/api/v1/jobs/nap"
    old = (await ask.put(where, json=body(NAP), headers=editor)).headers["etag"]
    new = (await ask.put(where, json=body(EDITED), headers={**editor, "If-Match": old})).headers["etag"]
    stale, fresh = {**editor, "If-Match": old}, {**editor, "If-Match": f'"1-1", {new}'}
    for answer in (
        await ask.put(where, json=body(NAP), headers=stale),
        await ask.patch(where, json={"queue": "mail"}, headers=stale),
        await ask.delete(where, headers=stale),
        await ask.delete(where, headers={**editor, "If-Match": f"W/{new}"}),
        await ask.put(where, json=body(NAP), headers={**editor, "If-None-Match": "*"}),
        await ask.put("/api/v1/jobs/none", json=body(NAP, name="none"), headers={**editor, "If-Match": "*"}),
    ):
        assert answer.status_code == 412, answer.text
        assert "read it again" in answer.json()["detail"]
    record = await stored(there)
    assert record is not None
    assert record.job.timeout == EDITED.timeout
    assert (await ask.patch(where, json={"queue": "mail"}, headers=fresh)).status_code == 200
    assert (await ask.delete(where, headers={**editor, "If-Match": "*"})).status_code == 200


async def test_the_tag_of_a_deleted_job_does_not_fit_a_new_one(there: Served):
    editor = there.keys.add(Role.EDITOR)
    ask, where = there.client, "/api/v1/jobs/nap"
    old = (await ask.put(where, json=body(NAP), headers=editor)).headers["etag"]
    await ask.delete(where, headers=editor)
    await ask.put(where, json=body(NAP), headers=editor)
    assert (await ask.delete(where, headers={**editor, "If-Match": old})).status_code == 412


@pytest.mark.parametrize("header", ["", "3", '"a', '"a" "b"', "*, *", '"a",'])
async def test_an_invalid_tag_is_refused(there: Served, header: str):
    await there.there.verbs().put(NAP)
    headers = {**there.keys.add(Role.EDITOR), "If-Match": header}
    answer = await there.client.delete("/api/v1/jobs/nap", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "header.If-Match"
    assert await stored(there) is not None


async def test_of_concurrent_edits_with_one_tag_one_succeeds(there: Served):
    editor = there.keys.add(Role.EDITOR)
    tag = (await there.client.put("/api/v1/jobs/nap", json=body(NAP), headers=editor)).headers["etag"]
    headers = {**editor, "If-Match": tag}
    answers = await asyncio.gather(
        *(there.client.patch("/api/v1/jobs/nap", json={"queue": f"q{n}"}, headers=headers) for n in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200, *[412] * 7]


async def test_patches_of_different_options_are_all_kept(there: Served):
    editor = there.keys.add(Role.EDITOR)
    await there.there.verbs().put(NAP)
    answers = await asyncio.gather(
        *(there.client.patch("/api/v1/jobs/nap", json={"args": {f"a{n}": n}}, headers=editor) for n in range(5))
    )
    assert {answer.status_code for answer in answers} == {200}
    record = await stored(there)
    assert record is not None
    assert record.job.args == {f"a{n}": n for n in range(5)}


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_programs_need_a_permission_to_create_change_or_delete(there: Served):
    plain, coder = there.keys.add(Role.EDITOR), there.keys.add(Role.EDITOR, may_code=True)
    await there.there.verbs().put(SHELL)
    await there.there.verbs().put(NAP)
    ask = there.client
    now_a_program = {**body(SHELL), "name": "nap"}
    now_harmless = {**body(NAP), "name": "shell"}
    refused = [
        await ask.post("/api/v1/jobs", json={**body(SHELL), "name": "new"}, headers=plain),
        await ask.put("/api/v1/jobs/new", json={**body(SHELL), "name": "new"}, headers=plain),
        await ask.put("/api/v1/jobs/nap", json=now_a_program, headers=plain),
        await ask.put("/api/v1/jobs/shell", json=now_harmless, headers=plain),
        await ask.patch("/api/v1/jobs/shell", json={"queue": "mail"}, headers=plain),
        await ask.delete("/api/v1/jobs/shell", headers=plain),
    ]
    for answer in refused:
        assert answer.status_code == 403, answer.text
        assert "jobs:code" in answer.json()["detail"]
    assert [record.revision for record in await there.there.verbs().list_jobs()] == [1, 1]
    assert (await ask.patch("/api/v1/jobs/shell", json={"queue": "mail"}, headers=coder)).status_code == 200
    assert (await ask.put("/api/v1/jobs/shell", json=now_harmless, headers=coder)).status_code == 200
    assert (await ask.delete("/api/v1/jobs/shell", headers=plain)).status_code == 200


async def test_a_program_stored_between_check_and_write_is_not_overwritten(
    there: Served, monkeypatch: pytest.MonkeyPatch
):
    """The job becomes a program after the check. A caller that may not write programs is refused."""
    plain = there.keys.add(Role.EDITOR)
    await there.there.verbs().put(NAP)
    store, verbs = there.there.store, there.there.verbs()
    real = store.queries.get_job
    came: list[str] = []

    async def get_job(name: str, *, namespace: str = "default") -> Any:
        record = await real(name, namespace=namespace)
        if not came:
            came.append(name)
            await verbs.put(replace(SHELL, name="nap"))
        return record

    for change in ("put", "delete"):
        came.clear()
        await verbs.put(NAP)
        monkeypatch.setattr(store.queries, "get_job", get_job)
        where = "/api/v1/jobs/nap"
        if change == "put":
            answer = await there.client.put(where, json=body(EDITED), headers=plain)
        else:
            answer = await there.client.delete(where, headers=plain)
        monkeypatch.setattr(store.queries, "get_job", real)
        assert answer.status_code == 403, answer.text
        record = await stored(there)
        assert record is not None
        assert record.job.task == SHELL.task


async def test_scopes_limit_which_jobs_may_be_written(there: Served):
    narrow = there.keys.add(Role.ADMIN, scopes=frozenset({Permission.JOBS_WRITE}))
    assert (await there.client.post("/api/v1/jobs", json=body(SHELL), headers=narrow)).status_code == 403
    assert (await there.client.post("/api/v1/jobs", json=body(NAP), headers=narrow)).status_code == 201


async def test_only_an_administrator_sets_the_owner_of_a_job(there: Served):
    editor, admin = there.keys.add(Role.EDITOR, owner="bob"), there.keys.add(Role.ADMIN, owner="root")
    ask = there.client
    refused = await ask.post("/api/v1/jobs", json=body(NAP, owner="ann"), headers=editor)
    assert refused.status_code == 403
    assert (await ask.post("/api/v1/jobs", json=body(NAP, owner="bob"), headers=editor)).json()["owner"] == "bob"
    assert (await ask.patch("/api/v1/jobs/nap", json={"owner": "ann"}, headers=editor)).status_code == 403
    assert (await ask.patch("/api/v1/jobs/nap", json={"queue": "mail"}, headers=admin)).json()["owner"] == "bob"
    assert (await ask.patch("/api/v1/jobs/nap", json={"owner": "ann"}, headers=admin)).json()["owner"] == "ann"
    assert (await ask.put("/api/v1/jobs/nap", json=body(EDITED), headers=editor)).json()["owner"] == "ann"
    made = await ask.post("/api/v1/jobs", json=body(NAP, name="mine"), headers=admin)
    assert made.json()["owner"] == "root"


async def test_a_job_of_others_is_answered_as_missing_and_not_overwritten(there: Served):
    await there.there.verbs().put(NAP)
    elsewhere = there.keys.add(Role.EDITOR, namespaces=("other",))
    own = there.keys.add(Role.EDITOR, owner="bob", only_own=True)
    ask, where = there.client, "/api/v1/jobs/nap"
    for headers in (elsewhere, own):
        assert (await ask.put(where, json=body(EDITED), headers=headers)).status_code == 404
        assert (await ask.patch(where, json={"queue": "mail"}, headers=headers)).status_code == 404
        assert (await ask.delete(where, headers=headers)).status_code == 404
    assert (await ask.post("/api/v1/jobs", json=body(NAP, name="new"), headers=elsewhere)).status_code == 404
    into = body(NAP, name="new", namespace="default")
    assert (await ask.post("/api/v1/jobs?namespace=other", json=into, headers=elsewhere)).status_code == 404
    assert (await ask.post("/api/v1/jobs", json=body(NAP), headers=own)).status_code == 409
    record = await stored(there)
    assert record is not None
    assert (record.revision, record.job) == (1, NAP)
    made = await ask.post("/api/v1/jobs?namespace=other", json=body(NAP), headers=elsewhere)
    assert (made.status_code, made.json()["namespace"]) == (201, "other")


# ── delete ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_deleting_a_job_cancels_its_waiting_runs(there: Served):
    editor = there.keys.add(Role.EDITOR)
    await there.there.verbs().put(NAP)
    await there.there.verbs().submit("nap", delay="1h")
    answer = await there.client.delete("/api/v1/jobs/nap", headers=editor)
    assert answer.json() == {"cancelled": 1}
    assert (await there.client.delete("/api/v1/jobs/nap", headers=editor)).status_code == 404


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────────

PAUSED = {"reason": "the database moves", "until": "2096-01-01T09:00Z"}


async def pause_of(there: Served) -> tuple[str, str, str | None]:
    told = (await there.client.get("/api/v1/jobs/nap", headers=there.keys.add(Role.VIEWER))).json()
    assert "paused" not in told["definition"]
    return told["state"], told["pause_reason"], told["paused_until"]


async def verbs_in_audit(there: Served) -> list[str]:
    return [one.verb for one in await audit.read(there.there.store)]


@pytest.mark.parametrize("route", ["put", "sources", "post", "patch", "file"])
async def test_a_definition_can_pause_its_job_by_every_route(there: Served, route: str):
    editor = there.keys.add(Role.EDITOR, owner="ann")
    said = body(NAP, paused=PAUSED)
    ask = there.client
    match route:
        case "put":
            told = await ask.put("/api/v1/jobs/nap", json=said, headers=editor)
        case "post":
            told = await ask.post("/api/v1/jobs", json=said, headers=editor)
        case "sources":
            told = await ask.put("/api/v1/sources/jobs.yaml", json={"jobs": [said]}, headers=editor)
        case "patch":
            await ask.post("/api/v1/jobs", json=body(NAP), headers=editor)
            told = await ask.patch("/api/v1/jobs/nap", json={"paused": PAUSED}, headers=editor)
        case _:
            text = yaml_text({"jobs": [said]})
            kind = {"content-type": "application/yaml"}
            told = await ask.post("/api/v1/submit_job", content=text, headers={**editor, **kind})
    assert told.status_code < 300, told.text
    assert await pause_of(there) == ("paused", "the database moves", "2096-01-01T09:00:00.000000Z")
    assert await verbs_in_audit(there) == ["jobs.create", "jobs.pause"]
    resumed = await ask.put("/api/v1/jobs/nap", json=body(NAP, paused=False), headers=editor)
    assert (resumed.status_code, resumed.json()["state"]) == (200, "active"), resumed.text
    assert await verbs_in_audit(there) == ["jobs.create", "jobs.pause", "jobs.resume"]


async def test_a_definition_with_a_pause_needs_the_permission_to_pause(there: Served):
    writer = there.keys.add(Role.EDITOR, owner="ann", scopes=(Permission.JOBS_WRITE, Permission.JOBS_READ))
    for path, said in (
        ("/api/v1/jobs/nap", body(NAP, paused=True)),
        ("/api/v1/sources/jobs.yaml", {"jobs": [body(NAP, paused=False)]}),
    ):
        refused = await there.client.put(path, json=said, headers=writer)
        assert refused.status_code == 403
        assert "may not pause or resume 'nap': expected jobs:control" in refused.json()["detail"]
    assert await stored(there) is None
    assert (await there.client.put("/api/v1/jobs/nap", json=body(NAP), headers=writer)).status_code == 201


UPCOMING = "/api/v1/upcoming"


@pytest.fixture
async def jobs(server: Served) -> None:
    """Store jobs of two owners in two namespaces. One is paused, and one starts every second."""
    for name, owner, namespace, every in (
        ("tick", "ann", "default", "1s"),
        ("daily", "bob", "default", "1d"),
        ("weekly", "ann", "team", "7d"),
        ("held", "bob", "default", "1d"),
    ):
        schedules = (otd.every(every),)
        task = Call(handler=name)
        verbs = server.there.verbs(namespace)
        await verbs.put(otd.Job(name=name, task=task, owner=owner, namespace=namespace, schedules=schedules))
    await server.there.verbs().pause("held")
    await server.there.verbs().submit("daily", delay="30s")


async def told(server: Served, who: dict[str, str], **query: Any) -> UpcomingOut:
    answer = await server.client.get(UPCOMING, params=query, headers=who)
    assert answer.status_code == 200, answer.text
    return UpcomingOut.model_validate(answer.json())


async def test_upcoming_runs_are_in_order_and_a_frequent_job_appears_once(
    server: Served, viewer: dict[str, str], jobs: None
):
    found = await told(server, viewer, limit=4)
    assert [one.job for one in found.items[:2]] == ["tick", "daily"]
    assert (found.items[0].every_s, found.items[0].run_id) == (1.0, None)
    assert (found.items[1].run_id is not None, found.items[1].schedule) == (True, None)
    assert [one.due_at for one in found.items] == sorted(one.due_at for one in found.items)
    assert (found.paused, found.read_until, len(found.items)) == (1, None, 4)


async def test_upcoming_runs_are_limited_to_visible_jobs(server: Served, viewer: dict[str, str], jobs: None):
    assert {one.job for one in (await told(server, viewer, namespace="team")).items} == {"weekly"}
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    of_bob = await told(server, bob)
    assert ({one.job for one in of_bob.items}, of_bob.paused) == ({"daily"}, 1)
    elsewhere = server.keys.add(Role.ADMIN, namespaces=("other",))
    nothing = await told(server, elsewhere)
    assert (nothing.items, nothing.paused) == ([], 0)
    team = server.keys.add(Role.VIEWER, namespaces=("team",))
    assert {one.job for one in (await told(server, team)).items} == {"weekly"}
    assert (await told(server, team, namespace="default")).items == []


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"until": "soon"}, {"until": "tomorrow"}])
async def test_invalid_queries_of_upcoming_runs_are_refused(
    server: Served, viewer: dict[str, str], query: dict[str, Any]
):
    answer = await server.client.get(UPCOMING, params=query, headers=viewer)
    assert answer.status_code in (400, 422), answer.text
