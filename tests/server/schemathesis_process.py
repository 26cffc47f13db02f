"""Runs schemathesis against an API: `python -m tests.server.schemathesis_process FOLDER`.

It is a process of its own, because schemathesis leaks memory: 16 MB per second outside of Python objects.
It reads its orders from `FOLDER/orders`, as JSON, and writes its findings into `FOLDER/found`.
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
    """The address of the API, a key, and how many drawn examples each operation gets, the same ones each time. With
    None, schemathesis tests as much as it can, with other values each time."""

    url: str
    key: str
    key_id: str
    examples: int | None


@dataclass
class Found:
    """The operations that were tested, and each failure with its operation and message."""

    seed: int | None = None
    asked: set[str] = field(default_factory=set)
    wrong: dict[tuple[str, str], str] = field(default_factory=dict)

    def as_json(self) -> str:
        told = [(label, words) for (label, _), words in self.wrong.items()]
        return json.dumps({"seed": self.seed, "asked": sorted(self.asked), "wrong": told})


TAKE_A_JOB = ["post_job", "put_job", "document_submit_job"]


def operations(document: dict[str, Any]) -> set[str]:
    """All operations of a document, with the names that schemathesis gives them."""
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def ask(orders: Orders) -> Found:
    """Test every operation."""
    document: dict[str, Any] = describe_api()
    schema = schemathesis.openapi.from_dict(document, config=_config(orders))

    @schema.hook
    def filter_case(_: Any, case: Any) -> bool:
        """Everything is allowed but revoking our own key."""
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
    """The configuration: all checks are on, which is the default."""
    asked: dict[str, Any] = {
        "base-url": orders.url,
        "headers": {"Authorization": f"Bearer {orders.key}"},
        "request-timeout": 30,
        "continue-on-failure": True,
        "checks": {
            "positive_data_acceptance": {
                # More than the default: 422, because no schema describes cron expressions, instants and cursors; and
                # 412, because a valid tag need not be that of the job.
                "expected-statuses": ["2xx", "401", "403", "404", "409", "412", "422", "429"],
            }
        },
        # Streams do not end: they are read for one second.
        "operations": [{"include-operation-id": ["follow_logs", "follow_events"], "request-timeout": 1}],
    }
    if orders.examples is not None:
        # The phase `coverage` takes minutes for the schema of a job, and `stateful` has no limit. Drawing a job takes
        # ten seconds of CPU, so operations that take one get the documented examples only.
        short = {"coverage": {"enabled": False}, "stateful": {"enabled": False}}
        asked |= {"seed": 1, "generation": {"max-examples": orders.examples}, "phases": short}
        asked["operations"].append({"include-operation-id": TAKE_A_JOB, "phases": {"fuzzing": {"enabled": False}}})
    return schemathesis.Config.from_dict(asked)


def _failures(event: events.ScenarioFinished) -> Iterator[tuple[str, str, str]]:
    """The operation, title and message of each failed check, with the request as a curl command."""
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


# Schemathesis cannot serialize lines of JSON. It draws any text, because a document cannot describe lines.
schemathesis.serializer(NDJSON)(lambda _, value: value if isinstance(value, bytes) else _line(value))


def write(folder: Path, orders: Orders) -> None:
    """Write the orders for the process."""
    (folder / "orders").write_text(json.dumps(asdict(orders)))


if __name__ == "__main__":
    here = Path(sys.argv[1])
    (here / "found").write_text(ask(Orders(**json.loads((here / "orders").read_text()))).as_json())
