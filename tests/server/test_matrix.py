"""The permission matrix: every route, called by every kind of caller, allows exactly what the tables say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onthedot.access import audit
from onthedot.access.permissions import ROLES, Permission, Role
from onthedot.model.job import JobRecord
from onthedot.server.permissions import EVERYBODY, ROUTE_PERMISSIONS
from onthedot.stores.queries import RunFilter
from tests.server.event_reader import reading
from tests.server.kit import Served, served
from tests.server.sample_data import fill
from tests.server.sample_requests import SAMPLES, Sample

CALLERS: dict[str, dict[str, Any] | None] = {
    "anonymous": None,
    "another namespace": {"role": Role.ADMIN, "namespaces": ("elsewhere",)},
    "another owner": {"role": Role.ADMIN, "owner": "bob", "only_own": True},
    **{str(role): {"role": role, "owner": "ann"} for role in Role},
}


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    text: str


@asynccontextmanager
async def prepared(folder: Path) -> AsyncGenerator[tuple[Served, dict[str, int | str]]]:
    """A server with all objects that the samples name, and their ids."""
    async with served() as server:
        yield server, await fill(server.there, folder)


async def ask(server: Served, line: str, who: str, known: dict[str, int | str]) -> Answer:
    """Send the sample request of this route as this caller."""
    method, _, path = line.partition(" ")
    sample = filled(SAMPLES[line], known)
    path = sample.path or path
    given = CALLERS[who]
    headers = {} if given is None else server.keys.add(**given)
    if sample.stream:
        async with reading(server.app, path, headers) as reader:
            return Answer(reader.status, "")
    if isinstance(sample.body, str):
        headers = {**headers, "Content-Type": sample.content_type}
        answer = await server.client.request(method, path, headers=headers, content=sample.body)
    elif sample.body is None:
        answer = await server.client.request(method, path, headers=headers)
    else:
        answer = await server.client.request(method, path, headers=headers, json=sample.body)
    return Answer(answer.status_code, answer.text)


def filled(sample: Sample, known: dict[str, int | str]) -> Sample:
    """The sample with the ids of real objects."""
    body = sample.body
    if isinstance(body, dict) and "run_ids" in body:
        body = {"run_ids": [known[text.strip("{}")] for text in body["run_ids"]]}
    return sample._replace(path=sample.path.format(**known), body=body)


async def stored(server: Served) -> tuple[object, ...]:
    """Everything that a request could change. A refused one must leave it as it is."""
    store = server.there.store
    jobs: list[JobRecord] = await store.queries.list_jobs()
    runs = await store.queries.find_runs(RunFilter(), limit=1000)
    documents = [await store.documents.list_documents(kind) for kind in ("key", "user", "session")]
    queues = await store.queries.list_queues(now=0)
    nodes = [(node.id, node.draining) for node in await store.queries.list_nodes()]
    return (
        jobs,
        runs.items,
        documents,
        queues,
        nodes,
        await store.queries.get_layout(),
        await audit.read(store, limit=1000),
    )


def expected(line: str, who: str) -> str:
    """The expected status of a refusal (401, 403 or 404), or "answered"."""
    permission, sample = ROUTE_PERMISSIONS[line], SAMPLES[line]
    if line == "GET /":  # without a key, it explains how to sign in
        return "401" if who in ("anonymous", "worker") else "answered"
    if permission is EVERYBODY:
        return "answered"
    if who == "anonymous":
        return "401"
    role = Role(who) if who in set(Role) else Role.ADMIN
    if permission not in ROLES[role]:
        return "403"
    if sample.managed and Permission.KEYS_MANAGE not in ROLES[role]:
        return "404"
    if who.startswith("another") and sample.gives:
        return "403"
    if who == "another namespace" and sample.placed:
        return "404"
    return "404" if who.startswith("another") and sample.about else "answered"


def test_every_route_has_a_sample():
    assert set(SAMPLES) == set(ROUTE_PERMISSIONS)


def changes(line: str, who: str) -> bool:
    """Whether the request changes the store."""
    return SAMPLES[line].changes and not line.startswith("GET ") and expected(line, who) == "answered"


@pytest.mark.parametrize("line", list(ROUTE_PERMISSIONS))
async def test_a_route_answers_permitted_callers_and_refuses_others(line: str, tmp_path: Path):
    """Requests that must change nothing share one server, and the test checks that they change nothing."""
    async with prepared(tmp_path) as (server, known):
        for who in CALLERS:
            if not changes(line, who):
                await judge(server, known, line, who)
    for who in CALLERS:
        if changes(line, who):
            folder = tmp_path / who
            folder.mkdir()
            async with prepared(folder) as (server, known):
                await judge(server, known, line, who)


async def judge(server: Served, known: dict[str, int | str], line: str, who: str) -> None:
    wanted = expected(line, who)
    before = await stored(server)
    answer = await ask(server, line, who, known)
    after = await stored(server)
    if wanted != "answered":
        assert str(answer.status) == wanted, (who, answer.text)
        assert after == before, who
        return
    assert 200 <= answer.status < 300, (who, answer.text)
    recorded = len(after[-1]) > len(before[-1])  # type: ignore[arg-type]
    assert recorded == changes(line, who), (who, "exactly the changes must be in the audit")
    if not changes(line, who):
        assert after == before, who
    if (
        who.startswith("another")
        and (line == "GET /" or ROUTE_PERMISSIONS[line] is not EVERYBODY)
        and not SAMPLES[line].shared
    ):
        for theirs in ("nap", "asleep", "mail", "greet", "ann", "would not", "worker-1"):
            assert f'"{theirs}' not in answer.text.replace(">", '"'), (
                who,
                "an answer must not name objects that the caller cannot see",
            )
