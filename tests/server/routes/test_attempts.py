"""Attempts of all runs over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.model.run import RunState
from onthedot.server.models import AttemptsOut
from tests.server.kit import Served
from tests.server.worker import Worker

ATTEMPTS = "/api/v1/attempts"


async def test_attempts_are_found_by_who_tried(server: Served, viewer: dict[str, str], worker: Worker, tmp_path: Path):
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


async def test_attempts_of_others_are_not_there(server: Served, stranger: dict[str, str], worker: Worker):
    await server.there.verbs().submit("mail")
    await worker.end(await worker.take_one())
    assert (await server.client.get(ATTEMPTS, headers=stranger)).json() == {"items": [], "next": None}


@pytest.mark.parametrize("query", ["limit=0", "after=x", "since=soon", "worker=%00"])
async def test_questions_that_cannot_be_understood(server: Served, viewer: dict[str, str], query: str):
    assert (await server.client.get(f"{ATTEMPTS}?{query}", headers=viewer)).status_code == 422


async def test_nobody_asks_without_a_key(server: Served):
    assert (await server.client.get(ATTEMPTS)).status_code == 401
