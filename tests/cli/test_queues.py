"""`onthedot queues` and `onthedot queue pause | resume | share`: they list and change queues."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import AskStore, Call


def cells(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [re.split(r" {2,}", line) for line in result.output.splitlines()]


def test_queues_are_listed_in_a_table(call: Call, cluster: Path):
    call("queue", "pause", "mail", "--db", cluster, "--reason", "lunch")
    call("queue", "share", "mail", "big=3", "--db", cluster)
    assert cells(call("queues", "--db", cluster)) == [
        ["QUEUE", "WAITING", "DUE", "RUNNING", "OLDEST", "SHARES", "PAUSED"],
        ["default", "3", "2", "0", "3.0 s ago", "-", "-"],
        ["mail", "2", "1", "1", "4.0 s ago", "big=3 others=1", "since 2026-03-28 12:00:00 +01:00: lunch"],
    ]


def test_the_list_can_be_json(call: Call, cluster: Path):
    default, mail = json.loads(call("queues", "--db", cluster, "--json").output)
    assert default["queue"] == "default"
    assert mail == {
        "queue": "mail",
        "paused": False,
        "paused_at": None,
        "reason": "",
        "weights": None,
        "waiting": 2,
        "due": 1,
        "running": 1,
        "oldest_due_at": "2026-03-28T10:59:56.000000Z",
    }


def test_a_queue_is_paused_and_resumed(call: Call, cluster: Path, ask_store: AskStore):
    result = call("queue", "pause", "mail", "--reason", "lunch", "--db", cluster)
    assert (result.exit_code, result.output) == (0, "queue mail is paused: lunch\n")
    paused = ask_store(lambda store: store.queries.list_queues())[1]
    assert (paused.name, paused.reason, paused.paused_at is not None) == ("mail", "lunch", True)
    result = call("queue", "resume", "mail", "--db", cluster, "--json")
    assert json.loads(result.output) == {
        "queue": "mail", "paused": False, "paused_at": None, "reason": "", "weights": None,
    }  # fmt: skip
    assert ask_store(lambda store: store.queries.list_queues())[1].paused_at is None
    assert call("queue", "resume", "mail", "--db", cluster).output == "queue mail goes on\n"


def test_a_queue_is_shared_and_unshared(call: Call, cluster: Path, ask_store: AskStore):
    result = call("queue", "share", "mail", "big=3", "a=b=2", "--db", cluster)
    assert result.output == "queue mail is shared: big=3 a=b=2 others=1\n"
    assert ask_store(lambda store: store.queries.list_queues())[1].weights == {"big": 3, "a=b": 2}
    assert json.loads(call("queue", "share", "mail", "--db", cluster, "--json").output)["weights"] == {}
    result = call("queue", "share", "mail", "--none", "--db", cluster)
    assert result.output == "queue mail is not shared: first come, first served\n"
    assert ask_store(lambda store: store.queries.list_queues())[1].weights is None


def test_a_queue_that_only_a_node_serves_can_be_paused(call: Call, database: Path):
    assert call("queue", "pause", "default", "--db", database).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause", "mial"], "NAME: expected a queue that a job or a node uses, got 'mial', did you mean 'mail'?"),
        (["share", "mail", "big"], "expected VALUE=WEIGHT like 'big_tenant=3', got 'big'"),
        (["share", "mail", "big=-1"], "expected VALUE=WEIGHT like 'big_tenant=3', got 'big=-1'"),
        (["share", "mail", "big=0"], "share 'big': expected a weight from 1 to 1000, got 0"),
        (["share", "mail", "big=1001"], "share 'big': expected a weight from 1 to 1000, got 1001"),
        (["share", "mail", "big=2", "--none"], "expected shares or --none, got both"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    call: Call, cluster: Path, ask_store: AskStore, arguments: list[str], message: str
):
    result = call("queue", *arguments, "--db", cluster)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert [queue.name for queue in ask_store(lambda store: store.queries.list_queues())] == ["default", "mail"]
