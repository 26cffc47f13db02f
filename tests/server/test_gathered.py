"""Submits that come at once: one write for all, and each its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.audit import read
from onthedot.access.permissions import Role
from onthedot.run import NewRun
from onthedot.task import Call
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
    """How many runs were in each write."""
    submit, found = server.there.store.submit, []

    async def noted(runs: Sequence[NewRun]) -> list[int]:
        found.append(len(runs))
        await asyncio.sleep(0.01)  # meanwhile the others come
        return await submit(runs)

    monkeypatch.setattr(server.there.store, "submit", noted)
    return found


async def sent(server: Served, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
    answer = await server.client.post("/api/v1/runs", json=body, headers=headers)
    return answer.status_code, answer.json()


async def test_many_at_once_are_few_writes_and_every_one_is_stored_and_on_record(server: Served, writes: list[int]):
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


async def test_each_is_answered_for_itself(server: Served, writes: list[int]):
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


async def test_a_job_is_read_after_it_was_asked_for(server: Served, monkeypatch: pytest.MonkeyPatch):
    """A submit that comes while another one's job is being read does not go by that reading."""
    headers, get_job = server.keys.add(Role.ADMIN), server.there.store.get_job
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slow(name: str, *, namespace: str = "default") -> Any:
        found = await get_job(name, namespace=namespace)
        if name == "late":
            reading.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(server.there.store, "get_job", slow)
    before = asyncio.create_task(sent(server, headers, {"job": "late"}))
    await reading.wait()
    await server.there.store.put_job(otd.Job(name="late", task=Call(handler="late")))
    after = asyncio.create_task(sent(server, headers, {"job": "late"}))
    await asyncio.sleep(0.01)
    go_on.set()
    assert (await before)[0] == 404
    assert (await after)[0] == 201
