"""The whole document of the API, asked for what it promises: by schemathesis, with every check that it has, over a real
socket, with a real key.

In `make test` it has two minutes for each store and draws from one seed; in `make soak` all the time that it
takes, and other values each time.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import engine
from schemathesis.engine import Status, events

from onthedot.access import keys
from onthedot.access.grants import Grant
from onthedot.access.keyring import Keyring
from onthedot.access.permissions import Role
from onthedot.open_verbs import opened
from onthedot.server.bulk import NDJSON
from onthedot.server.describing import describe_api
from onthedot.server.serving import Listen, Serving
from onthedot.settings import Settings
from tests.server.things import fill

SOAK = bool(os.environ.get("ONTHEDOT_SOAK"))
SECONDS = 120
SETTINGS = Settings(api_rate=1_000_000, api_burst=1_000_000)  # one key asks as fast as it can
MOST_SHOWN = 20

# It knows no lines of JSON. What it draws for them is any text, because a document cannot say what lines are.
schemathesis.serializer(NDJSON)(lambda _, value: value if isinstance(value, bytes) else _line(value))


def _line(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="surrogatepass")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'api.db'}"


@pytest.fixture
def key(url: str, tmp_path: Path) -> keys.Issued:
    """A key for everything, on a store with something of everything."""

    async def make() -> keys.Issued:
        async with opened(url) as there:
            await fill(there, tmp_path)
            return await keys.issue(there.store, "schemathesis", Grant(role=Role.ADMIN))

    return asyncio.run(make())


@pytest.fixture
def serving(url: str, key: keys.Issued) -> Iterator[Serving]:
    del key  # it is there before the server is
    server = Serving(url, SETTINGS, Listen(port=0), knows=lambda there: Keyring(there.store, there.clock))
    server.start()
    yield server
    server.stop()


def config(serving: Serving, key: keys.Issued) -> schemathesis.Config:
    """All checks are on, as they are by themselves."""
    asked: dict[str, Any] = {
        "base-url": serving.url,
        "headers": {"Authorization": f"Bearer {key.text}"},
        "request-timeout": 30,
        "continue-on-failure": True,
        "checks": {
            "positive_data_acceptance": {
                # Beside what it allows itself: 422, because no schema can say what a cron expression, an instant or a
                # cursor is; and 412, because a tag that fits its schema is not that of the job.
                "expected-statuses": ["2xx", "401", "403", "404", "409", "412", "422", "429"],
            }
        },
        # What is followed does not end by itself: it is read for so long, and what came is checked.
        "operations": [{"include-operation-id": ["follow_logs", "follow_events"], "request-timeout": 1}],
    }
    if not SOAK:
        asked |= {"seed": 1, "max-time": SECONDS}
    return schemathesis.Config.from_dict(asked)


@pytest.mark.slow
@pytest.mark.timeout(0 if SOAK else SECONDS + 60)
def test_the_api_does_what_its_document_says(serving: Serving, key: keys.Issued):
    document: dict[str, Any] = describe_api()
    schema = schemathesis.openapi.from_dict(document, config=config(serving, key))

    @schema.hook
    def filter_case(_: Any, case: Any) -> bool:
        """Everything may be done but one thing: to revoke the key that asks."""
        return case.method != "DELETE" or key.key.id not in str(case.path_parameters)

    asked: set[str] = set()
    wrong: dict[tuple[str, str], str] = {}
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            asked |= {node.value.operation.label for node in event.recorder.cases.values()}
            wrong |= {(label, title): told for label, title, told in failures(event)}
        elif isinstance(event, events.NonFatalError):
            wrong[event.label, type(event.value).__name__] = str(event.value)
    shown = "\n\n".join(f"{label}: {told}" for (label, _), told in list(wrong.items())[:MOST_SHOWN])
    assert not wrong, f"seed {schema.config.seed}, {len(wrong)} kinds of failures:\n\n{shown}"
    there = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert asked == there, "every operation is asked"


def failures(event: events.ScenarioFinished) -> Iterator[tuple[str, str, str]]:
    """Of each check that has failed: where, what, and how to see it again."""
    for case_id, nodes in event.recorder.checks.items():
        case = event.recorder.cases[case_id].value
        for node in nodes:
            if node.status is Status.FAILURE and node.failure_info is not None:
                failure = node.failure_info.failure
                told = f"{failure.title}\n{failure.message}\n{case.as_curl_command()[:2000]}"
                yield event.recorder.label, failure.title, told
