"""`onthedot store migrate | check`: they create, update and check a store, and refuse other databases."""

from __future__ import annotations

import doctest
import json
import sqlite3
from pathlib import Path

from onthedot.cli.node_process import processes
from tests.cli.conftest import Call


def test_migrate_creates_a_store_once(call: Call, tmp_path: Path):
    path = tmp_path / "new.db"
    first, second = call("store", "migrate", "--db", path), call("store", "migrate", "--db", path, "--json")
    assert (first.exit_code, first.output) == (0, f"sqlite:///{path} was made\n")
    assert json.loads(second.output) == {"store": f"sqlite:///{path}", "change": "none"}


def test_migrate_brings_an_older_store_up_to_date(call: Call, tmp_path: Path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA application_id = {0x4F544431}")  # our id, and no migration yet
    db.close()
    assert call("store", "check", "--db", path).exit_code == 2
    assert call("store", "migrate", "--db", path).output.endswith("was brought up to date\n")
    assert call("store", "check", "--db", path).exit_code == 0


def test_a_database_of_another_program_is_refused(call: Call, tmp_path: Path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    for verb in ("migrate", "check"):
        result = call("store", verb, "--db", path)
        assert result.exit_code == 2
        assert "got one of another program" in result.output


def test_a_store_in_memory_is_refused(call: Call):
    for verb in ("migrate", "check"):
        result = call("store", verb, "--store", "memory:")
        assert result.exit_code == 2
        assert "got 'memory:'" in result.output


def test_check_summarizes_the_store(call: Call, cluster: Path):
    result = call("store", "check", "--db", cluster)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"store     sqlite:///{cluster}, tables up to date",
        "jobs      4",
        "runs      1 running, 5 scheduled",
        "nodes     2 nodes living, 2 planners, 2 workers; web-1 leads",
        "nothing is wrong",
    ]


def test_check_lists_problems(call: Call, cluster: Path, set_clock):
    set_clock("2026-03-28T12:02:00+01:00")
    result = call("store", "check", "--db", cluster, "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert (found["nodes"], found["leads"]) == (0, "")
    assert found["problems"] == ["5 runs due for more than a minute, and not started"]


def test_the_docstring_examples_of_processes_are_true():
    assert doctest.testmod(processes).attempted
    assert not doctest.testmod(processes).failed


def test_check_names_the_drain_of_the_only_planner(call: Call, cluster: Path, set_clock):
    assert call("node", "drain", "web-1", "--db", cluster).exit_code == 0
    set_clock("2026-03-28T12:00:10+01:00")  # the term of web-1 has ended, and so has web-2
    found = json.loads(call("store", "check", "--db", cluster, "--json").output)
    assert found["problems"] == [
        "no node leads: the only planner is draining (web-1); start another one, "
        "or end a drain with 'node drain web-1 --undo'"
    ]
    assert call("node", "drain", "web-1", "--undo", "--db", cluster).exit_code == 0
    found = json.loads(call("store", "check", "--db", cluster, "--json").output)
    assert "see 'onthedot nodes" in found["problems"][0]


def test_without_tables_it_names_the_command_that_makes_them(call: Call, tmp_path: Path):
    path = tmp_path / "empty.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA application_id = {0x4F544431}")
    db.close()
    told = call("jobs", "--db", path)
    assert told.exit_code == 2
    assert "expected the tables of onthedot, found none" in told.output
    assert f"'onthedot store migrate --db {path}' makes them" in told.output
