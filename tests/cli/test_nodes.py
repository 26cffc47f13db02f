"""`onthedot nodes` and `onthedot node drain`: they list nodes, and start or end a drain."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import Result

from tests.cli.conftest import AskStore, Call, SetClock

TABLE = """
NODE   STATE   LEADS  RUNS  SINCE       LEASE      ROLES           QUEUES        LABELS
web-2  late    -      0/8   1 m 30 s ago  in 6.0 s   planner,worker  default,mail  -
web-1  living  yes    1/8   1 m 40 s ago  in 14.0 s  planner,worker  default,mail  gpu,region=eu
old    left    -      0/8   1 h 6 m ago   1 h ago    planner,worker  default,mail  -
"""


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.output.splitlines()]


def states(call: Call, database: Path) -> dict[str, str]:
    return {row[0]: row[1] for row in rows(call("nodes", "--db", database))[1:]}


def test_nodes_are_listed_in_a_table(call: Call, cluster: Path):
    result = call("nodes", "--db", cluster)
    assert rows(result) == [line.split() for line in TABLE.strip().splitlines()]
    head, *lines = result.output.splitlines()
    column = head.index("ROLES")
    assert {line[column - 2 : column + 7] for line in lines} == {"  planner"}


def test_a_node_whose_lease_has_ended_is_dead_and_does_not_lead(call: Call, cluster: Path, set_clock: SetClock):
    set_clock("2026-03-28T12:01:00+01:00")
    assert states(call, cluster) == {"web-1": "dead", "web-2": "dead", "old": "left"}
    assert not any(node["leads"] for node in json.loads(call("nodes", "--db", cluster, "--json").output))


def test_nodes_that_died_over_a_day_ago_are_shown_with_all(call: Call, cluster: Path, set_clock: SetClock):
    set_clock("2026-03-29T13:01:00+02:00")
    assert call("nodes", "--db", cluster).output == "no nodes of the last day; --all shows the others\n"
    assert len(rows(call("nodes", "--db", cluster, "--all"))) == 4


def test_the_list_can_be_json(call: Call, cluster: Path):
    _, node, old = json.loads(call("nodes", "--db", cluster, "--json").output)
    assert node == {
        "node_id": "web-1",
        "incarnation": "web-1-i",
        "state": "living",
        "leads": True,
        "shards": [0],
        "draining": False,
        "host": "",
        "pid": 0,
        "roles": ["planner", "worker"],
        "queues": ["default", "mail"],
        "labels": ["gpu", "region=eu"],
        "tasks": ["call:mail", "call:scan"],
        "seats": 8,
        "running": 1,
        "reserved": 0,
        "registered_at": "2026-03-28T10:58:20.000000Z",
        "lease_until": "2026-03-28T11:00:14.000000Z",
        "left_at": None,
    }
    assert (old["state"], old["left_at"]) == ("left", "2026-03-28T10:00:00.000000Z")


def test_a_drain_can_be_started_and_undone(call: Call, cluster: Path, ask_store: AskStore):
    result = call("node", "drain", "web-1", "--db", cluster)
    assert (result.exit_code, result.output) == (0, "node web-1 takes no more work; what it runs goes on\n")
    assert states(call, cluster)["web-1"] == "draining"
    assert [node.draining for node in ask_store(lambda store: store.queries.list_nodes())] == [False, True, False]
    result = call("node", "drain", "web-1", "--undo", "--db", cluster, "--json")
    assert json.loads(result.output) == {"node_id": "web-1", "draining": False, "incarnations": 1}
    assert states(call, cluster)["web-1"] == "living"


def test_only_a_living_node_can_be_drained(call: Call, cluster: Path):
    for name, meant in (("wbe-1", "did you mean 'web-1'?"), ("old", "known: web-1, web-2")):
        result = call("node", "drain", name, "--db", cluster)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"NAME: expected a living node, got {name!r}" in result.stderr
        assert meant in result.stderr
