"""Concurrent submits: they share few writes, each gets its own answer, and each is in the audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.audit import read
from onthedot.access.permissions import Role
from onthedot.model.run import NewRun
from onthedot.model.task import Call
from onthedot.operations import known_jobs
from tests.server.kit import Served, served


@pytest.fixture(params=["memory:", "sqlite"])
async def server(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncGenerator[Served]:
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'store.db'}"
    async with served(url) as one:
        for name, owner in (("mail", "ann"), ("post", "bob")):
            await one.there.verbs().put(otd.Job(name=name, task=Call(handler=name), owner=owner))
        yield one


@pytest.fixture
def writes(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of runs in each write."""
    submit, found = server.there.store.submit, []

    async def noted(runs: Sequence[NewRun], **more: Any) -> list[int]:
        found.append(len(runs))
        await asyncio.sleep(0.01)  # other requests arrive meanwhile
        return await submit(runs, **more)

    monkeypatch.setattr(server.there.store, "submit", noted)
    return found


async def sent(server: Served, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
    answer = await server.client.post("/api/v1/runs", json=body, headers=headers)
    return answer.status_code, answer.json()


async def test_concurrent_submits_share_few_writes_and_all_are_stored_and_audited(server: Served, writes: list[int]):
    headers = server.keys.add(Role.OPERATOR)
    bodies = [{"job": "mail", "args": {"n": number}} for number in range(40)]
    answers = await asyncio.gather(*(sent(server, headers, body) for body in bodies))
    assert [status for status, _ in answers] == [201] * 40
    ids = [told["run_id"] for _, told in answers]
    stored = {run.id: run.args for run in await server.there.verbs().list_runs(limit=100)}
    assert [stored[run_id] for run_id in ids] == [f'{{"n":{number}}}' for number in range(40)]
    assert sum(writes) == 40
    assert len(writes) < 20
    assert sorted(entry.after["run_id"] for entry in await read(server.there.store)) == sorted(ids)


async def test_each_concurrent_submit_gets_its_own_answer(server: Served, writes: list[int]):
    ann = server.keys.add(Role.OPERATOR, owner="ann", only_own=True)
    await server.there.verbs().submit("mail", key="taken")
    asked: list[tuple[dict[str, Any], int]] = [
        ({"job": "mail"}, 201),
        ({"job": "mail", "key": "taken", "args": {"other": 1}}, 409),
        ({"job": "mail", "key": "taken"}, 200),
        ({"job": "post"}, 404),
        ({"job": "mail", "key": "new"}, 201),
        ({"job": "mail", "key": "new"}, 200),
        ({"job": "none"}, 404),
        ({"job": "mail", "delay": "soon"}, 422),
        ({"job": "mail"}, 201),
    ]
    answers = await asyncio.gather(*(sent(server, ann, body) for body, _ in asked))
    assert [status for status, _ in answers] == [status for _, status in asked]
    assert answers[4][1]["run_id"] == answers[5][1]["run_id"]
    assert len(await server.there.verbs().list_runs(limit=100)) == 4


async def put(server: Served, **fields: Any) -> None:
    given = {"name": "mail", "task": Call(handler="mail"), "owner": "ann", **fields}
    await server.there.verbs().put(otd.Job(**given))


async def test_a_job_is_missing_for_its_former_owner(server: Served, writes: list[int]):
    """The server has cached the job as it was. The store rejects a write that is based on that."""
    ann, bob = (server.keys.add(Role.OPERATOR, owner=owner, only_own=True) for owner in ("ann", "bob"))
    assert (await sent(server, ann, {"job": "mail"}))[0] == 201
    assert (await sent(server, bob, {"job": "mail"}))[0] == 404
    await put(server, owner="bob")
    assert (await sent(server, ann, {"job": "mail"}))[0] == 404
    assert (await sent(server, bob, {"job": "mail"}))[0] == 201
    assert len(await server.there.verbs().list_runs()) == 2


async def test_arguments_are_checked_against_the_current_definition(server: Served):
    headers = server.keys.add(Role.ADMIN)
    asked = {"job": "mail", "args": {"region": "eu"}}
    assert (await sent(server, headers, asked))[0] == 201
    task = otd.Command(argv=("true",))
    await put(server, task=task, params=(otd.Param(name="where", required=True),))
    assert (await sent(server, headers, asked))[0] == 422
    assert (await sent(server, headers, {"job": "mail", "args": {"where": "eu"}}))[0] == 201
    await put(server, task=task, params=(otd.Param(name="region"),))
    assert (await sent(server, headers, asked))[0] == 201
    assert len(await server.there.verbs().list_runs()) == 3


async def test_a_removed_job_is_unknown_until_it_is_created_again(server: Served):
    headers = server.keys.add(Role.ADMIN)
    assert (await sent(server, headers, {"job": "mail"}))[0] == 201
    await server.there.verbs().remove("mail")
    assert (await sent(server, headers, {"job": "mail"}))[0] == 404
    await put(server)
    assert (await sent(server, headers, {"job": "mail"}))[0] == 201


async def test_concurrent_submits_succeed_although_one_job_was_edited(server: Served, writes: list[int]):
    """Half of the submits are based on the old definition. Each still gets its run."""
    headers = server.keys.add(Role.ADMIN)
    for job in ("mail", "post"):
        assert (await sent(server, headers, {"job": job}))[0] == 201
    await put(server, owner="carl")
    asked = [{"job": job, "args": {"n": n}} for n in range(10) for job in ("mail", "post")]
    answers = await asyncio.gather(*(sent(server, headers, body) for body in asked))
    assert [status for status, _ in answers] == [201] * 20
    assert len({told["run_id"] for _, told in answers}) == 20
    entries = await read(server.there.store)
    assert sorted(entry.after["run_id"] for entry in entries[2:]) == sorted(told["run_id"] for _, told in answers)


async def test_the_cache_of_jobs_is_bounded(server: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_jobs, "MOST_KNOWN", 1)
    headers = server.keys.add(Role.ADMIN)
    for job in ("mail", "post", "mail", "post", "post"):
        assert (await sent(server, headers, {"job": job}))[0] == 201
    assert len(server.there.known._known) == 1
