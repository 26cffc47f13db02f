"""The FastAPI example: its routes submit and return reports, and running reports finish when the application stops."""

from __future__ import annotations

import httpx2
import pytest

from onthedot.model.events import AttemptEnded, AttemptStarted
from tests.examples.loading import load
from tests.watching import Watch


@pytest.fixture
def example(tmp_path, monkeypatch):
    return load("fastapi_app", tmp_path, monkeypatch)


def client_of(example) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=example.app), base_url="http://here")


async def test_a_report_is_submitted_once_and_returned(example):
    async with example.lifespan(example.app), client_of(example) as client:
        asked = await client.post("/reports/eu")
        assert (asked.status_code, asked.json()) == (202, {"run": 1, "new": True})
        assert (await client.post("/reports/eu")).json() == {"run": 1, "new": False}
        assert (await client.get("/reports/1")).json() == {"report": "all is well in eu"}
        assert (await client.get("/reports/99")).status_code == 404


async def test_a_running_report_finishes_when_the_application_stops(example):
    watch = Watch(example.sched)
    async with example.lifespan(example.app), client_of(example) as client:
        await client.post("/reports/eu")
        await watch.until_count(AttemptStarted, 1)
    [ended] = watch.of(AttemptEnded)
    assert ended.finish.verdict.state == "succeeded"
