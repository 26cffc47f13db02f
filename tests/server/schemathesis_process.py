"""Runs schemathesis against an API: `python -m tests.server.schemathesis_process FOLDER`.

It is a process of its own, because schemathesis never frees its memory: 16 MB per second that are no Python objects.
It reads what to test from `FOLDER/orders`, as JSON, and writes what it found into `FOLDER/found`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import engine
from schemathesis.engine import Status, events

from onthedot.server.app import describe_api
from onthedot.server.submissions import NDJSON


@dataclass(frozen=True)
class Orders:
    """Where the API is, with what key, and how many drawn examples each operation gets: the same ones each time. None
    for all that schemathesis thinks of, with other values each time."""

    url: str
    key: str
    key_id: str
    examples: int | None


@dataclass
class Found:
    """What was asked, and what was wrong with the answers: where, and in which words."""

    seed: int | None = None
    asked: set[str] = field(default_factory=set)
    wrong: dict[tuple[str, str], str] = field(default_factory=dict)

    def as_json(self) -> str:
        told = [(label, words) for (label, _), words in self.wrong.items()]
        return json.dumps({"seed": self.seed, "asked": sorted(self.asked), "wrong": told})


TAKE_A_JOB = ["post_job", "put_job", "document_submit_job"]


def operations(document: dict[str, Any]) -> set[str]:
    """All of a document, as schemathesis calls them."""
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def ask(orders: Orders) -> Found:
    """Ask for everything once."""
    document: dict[str, Any] = describe_api()
    schema = schemathesis.openapi.from_dict(document, config=_config(orders))

    @schema.hook
    def filter_case(_: Any, case: Any) -> bool:
        """Everything may be done but one thing: to revoke the key that asks."""
        return case.method != "DELETE" or orders.key_id not in str(case.path_parameters)

    found = Found()
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            found.asked |= {node.value.operation.label for node in event.recorder.cases.values()}
            found.wrong |= {(label, title): told for label, title, told in _failures(event)}
        elif isinstance(event, events.NonFatalError):
            found.wrong[event.label, type(event.value).__name__] = str(event.value)
    found.seed = schema.config.seed
    return found


def _config(orders: Orders) -> schemathesis.Config:
    """All checks are on, as they are by themselves."""
    asked: dict[str, Any] = {
        "base-url": orders.url,
        "headers": {"Authorization": f"Bearer {orders.key}"},
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
    if orders.examples is not None:
        # The phase `coverage` takes minutes for the schema of a job, and `stateful` has no bound. To draw a job takes
        # ten seconds of CPU: what takes one is asked with the documented examples.
        short = {"coverage": {"enabled": False}, "stateful": {"enabled": False}}
        asked |= {"seed": 1, "generation": {"max-examples": orders.examples}, "phases": short}
        asked["operations"].append({"include-operation-id": TAKE_A_JOB, "phases": {"fuzzing": {"enabled": False}}})
    return schemathesis.Config.from_dict(asked)


def _failures(event: events.ScenarioFinished) -> Iterator[tuple[str, str, str]]:
    """Of each check that has failed: where, what, and how to see it again."""
    for case_id, nodes in event.recorder.checks.items():
        case = event.recorder.cases[case_id].value
        for node in nodes:
            if node.status is Status.FAILURE and node.failure_info is not None:
                failure = node.failure_info.failure
                told = f"{failure.title}\n{failure.message}\n{case.as_curl_command()[:2000]}"
                yield event.recorder.label, failure.title, told


def _line(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="surrogatepass")


# It knows no lines of JSON. What it draws for them is any text, because a document cannot say what lines are.
schemathesis.serializer(NDJSON)(lambda _, value: value if isinstance(value, bytes) else _line(value))


def write(folder: Path, orders: Orders) -> None:
    """What a process of its own is to ask."""
    (folder / "orders").write_text(json.dumps(asdict(orders)))


if __name__ == "__main__":
    here = Path(sys.argv[1])
    (here / "found").write_text(ask(Orders(**json.loads((here / "orders").read_text()))).as_json())
