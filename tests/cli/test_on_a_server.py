"""Commands through a server: they print the same and refuse the same as directly on the store."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.access import keys
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.model.host_port import Listen
from onthedot.operations.open_verbs import opened
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from onthedot.stores.connect import open_store
from tests.cli.conftest import Call, SetClock

pytestmark = pytest.mark.slow


def serving(path: Path, **options: Any) -> HttpServer:
    server = HttpServer(f"sqlite:///{path}", Settings(api_rate=10_000, api_burst=10_000), Listen(port=0), **options)
    server.start()
    return server


@pytest.fixture
def server(database: Path) -> Iterator[str]:
    """A server on the store of a dead node."""
    one = serving(database, knows=None)
    yield one.url
    one.stop()


@pytest.fixture
def busy(cluster: Path) -> Iterator[str]:
    """A server on the store of a running cluster."""
    one = serving(cluster, knows=None)
    yield one.url
    one.stop()


READING = [
    ["jobs"], ["runs"], ["runs", "--job", "tick", "-n", "2"], ["runs", "--state", "dead"], ["dead", "list"],
    ["queues"], ["show", "1"], ["show", "2"], ["export", "--format", "json"], ["runs", "--since", "-1h"],
    ["upcoming"], ["upcoming", "--until", "+20s", "--limit", "3"], ["upcoming", "report"],
]  # fmt: skip


def test_skips_are_the_same_through_a_server(call: Call, database: Path, server: str, set_clock: SetClock):
    set_clock("2026-03-28T12:00:30+01:00")
    assert call("pause", "tick", "--store", server).exit_code == 0
    set_clock("2026-03-28T12:00:55+01:00")
    assert call("resume", "tick", "--store", server).exit_code == 0
    for more, count in (([], 1), (["--since", "today", "--until", "12:00:45"], 1), (["--until", "12:00:10"], 0)):
        here, there = (call("skips", *more, "--json", *where) for where in (["--db", database], ["--store", server]))
        assert json.loads(there.stdout) == json.loads(here.stdout)
        assert len(json.loads(here.stdout)) == count


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_json_is_the_same_through_a_server(call: Call, database: Path, server: str, command: list[str]):
    more = [] if command[0] == "export" else ["--json"]
    here, there = call(*command, *more, "--db", database), call(*command, *more, "--store", server)
    assert here.exit_code == there.exit_code == 0, there.output
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert here.stdout.strip() not in ("", "[]")


@pytest.mark.parametrize("command", [["jobs"], ["nodes"], ["queues"], ["show", "4"], ["export", "--format", "csv"]])
def test_tables_are_the_same_through_a_server(call: Call, cluster: Path, busy: str, command: list[str]):
    here, there = call(*command, "--db", cluster), call(*command, "--store", busy)
    assert (there.exit_code, there.output) == (here.exit_code, here.output)
    assert here.exit_code == 0


def test_skipped_slots_are_the_same_through_a_server(call: Call, tmp_path: Path):
    path = tmp_path / "skips.db"

    async def skip() -> None:
        async with opened(f"sqlite:///{path}") as there:
            await there.verbs().put(
                otd.Job(name="poll", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.gap("1h"),))
            )
            await there.verbs().pause("poll")
            await there.verbs().skip_next("poll")

    asyncio.run(skip())
    one = serving(path, knows=None)
    try:
        for more in ([], ["--job", "poll"], ["--state", "skipped"], ["--state", "dead"]):
            here, there = call("runs", *more, "--db", path), call("runs", *more, "--store", one.url)
            assert (there.exit_code, there.output) == (here.exit_code, here.output)
            assert ("skipped: 1 slot of poll" in there.output) == (more != ["--state", "dead"])
    finally:
        one.stop()


def test_nodes_and_queues_are_the_same_through_a_server(call: Call, cluster: Path, busy: str):
    for command in (["nodes", "--all"], ["queues"], ["runs"], ["show", "1"]):
        here, there = call(*command, "--json", "--db", cluster), call(*command, "--json", "--store", busy)
        assert here.exit_code == there.exit_code == 0, there.output
        assert json.loads(there.stdout) == json.loads(here.stdout)


def test_changes_work_through_a_server(call: Call, cluster: Path, busy: str):
    paused = call("pause", "mail", "--reason", "it moves", "--until", "+2h", "--json", "--store", busy)
    assert json.loads(paused.stdout)["state"] == "paused"
    assert "it moves" in call("show", "3", "--db", cluster).stdout
    resumed = call("resume", "mail", "--json", "--store", busy)
    assert json.loads(resumed.stdout)["was_paused"] is True
    run = json.loads(call("trigger", "mail", "--arg", "to=bob", "--json", "--store", busy).stdout)
    assert (run["job"], run["state"]) == ("mail", "scheduled")
    assert call("cancel", str(run["run_id"]), "--store", busy).stdout == f"run {run['run_id']} is cancelled\n"
    again = call("cancel", str(run["run_id"]), "--store", busy)
    assert (again.exit_code, "which has ended already: cancelled" in again.stderr) == (2, True)
    assert call("queue", "pause", "mail", "--store", busy).exit_code == 0
    assert call("queue", "pause", "nobody", "--store", busy).exit_code == 2
    assert "'mial', did you mean 'mail'?" in call("queue", "pause", "mial", "--store", busy).stderr
    assert "'mial', did you mean 'mail'?" in call("runs", "--job", "mial", "--store", busy).stderr
    assert "takes no more work" in call("node", "drain", "web-1", "--store", busy).stdout
    assert call("node", "drain", "nobody", "--store", busy).exit_code == 2


def test_an_argument_is_read_as_its_parameter_declares_through_a_server(call: Call, database: Path, server: str):
    task, params = otd.Command(argv=("ls",)), (otd.Param(name="tag"), otd.Param(name="depth", kind="whole"))
    job = otd.Job(name="list", task=task, params=params)

    async def put() -> None:
        async with opened(f"sqlite:///{database}") as there:
            await there.verbs().put(job)

    asyncio.run(put())
    run = call("trigger", "list", "--arg", "tag=137", "--arg", "depth=137", "--store", server, "--json")
    assert run.exit_code == 0, run.output
    shown = json.loads(call("show", str(json.loads(run.stdout)["run_id"]), "--db", database, "--json").stdout)
    assert shown["args"] == {"tag": "137", "depth": 137}


@pytest.mark.parametrize("command", [["skip-next", "report"], ["move-next", "report", "+2h"]], ids=" ".join)
def test_starts_are_skipped_and_moved_the_same_through_a_server(
    call: Call, database: Path, server: str, command: list[str], tmp_path: Path
):
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    here, there = call(*command, "--db", copy, "--json"), call(*command, "--store", server, "--json")
    assert here.exit_code == there.exit_code == 0, there.output
    told = [json.loads(re.sub(r'"manual:\w+"', '"manual:…"', one.stdout)) for one in (here, there)]  # a random name
    assert told[0] == told[1]


REFUSED = [
    ["skip-next", "tikc"], ["move-next", "tick", "soon"], ["skip-next", "tick", "--schedule", "x"],
    ["pause", "tikc"], ["trigger", "tikc"], ["cancel", "999"], ["retry", "999"], ["show", "999"], ["logs", "999"],
    ["runs", "--job", "nobody"], ["rm", "tikc"], ["edit", "nobody", "--set", "priority=high"],
    ["backfill", "report", "--from", "2026-03-01", "--to", "2026-02-01"], ["export", "nobody"],
    ["dead", "replay", "999"], ["create", "tick", "--run", "true"],
]  # fmt: skip


@pytest.mark.parametrize("command", REFUSED, ids=" ".join)
def test_bad_input_is_refused_the_same_through_a_server(call: Call, database: Path, server: str, command: list[str]):
    here, there = call(*command, "--db", database), call(*command, "--store", server)
    assert (there.exit_code, here.exit_code) == (2, 2), there.output
    assert there.stderr.replace(f"--store {server}", "THERE") == here.stderr.replace(f"--db {database}", "THERE")
    assert there.stderr.count("\n") <= 3


def test_a_key_is_not_sent_to_another_machine_in_plain_text(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ONTHEDOT_KEY", "otd_a.b")
    far = ("jobs", "--store", "http://127.1:9")  # an address of this machine that only the resolver understands
    refused = call(*far)
    assert (refused.exit_code, "expected https://" in refused.stderr, "--insecure" in refused.stderr) == (2, True, True)
    monkeypatch.setattr("onthedot.client.connection.TRIES", 1)
    allowed = call(*far, "--insecure")
    assert (allowed.exit_code, "expected an answer, got none" in allowed.stderr) == (1, True)
    monkeypatch.setenv("ONTHEDOT_INSECURE", "1")
    assert "expected an answer, got none" in call(*far).stderr
    monkeypatch.setenv("ONTHEDOT_INSECURE", "perhaps")
    assert (call(*far).exit_code, "perhaps" in call(*far).stderr) == (2, True)


def test_jobs_are_created_edited_and_removed(call: Call, database: Path, server: str):
    for number, where in enumerate((("--store", server), ("--db", str(database)))):
        name = f"new{number}"
        made = call("create", name, "--run", "true", "--schedule", "30 2 * * *", "--tz", "Europe/Berlin", *where)
        assert made.stdout == f"job {name} is stored\n", made.output
        edited = call("edit", name, "--set", "timeout=5m", "--set", "retry.attempts=3", "--json", *where)
        assert json.loads(edited.stdout)["revision"] == 2
        told = json.loads(call("export", name, "--format", "json", *where).stdout)["jobs"]
        assert told == [
            {
                "name": name,
                "schedule": {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
                "run": "true",
                "retry": 3,
                "timeout": "5m",
            }
        ]
        assert call("rm", name, "--yes", *where).stdout.startswith(f"job {name} is gone, and ")


def test_a_job_is_edited_in_an_editor(call: Call, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/every 10s/every 20s/" "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    call("create", "new", "--run", "true", "--schedule", "every 10s", "--store", server)
    assert call("edit", "new", "--store", server).stdout == "job new is changed: revision 2\n"


def test_a_file_is_planned_and_applied(call: Call, server: str, tmp_path: Path):
    file = tmp_path / "more.yaml"
    file.write_text("jobs:\n  - name: more\n    schedule: every 1d\n    run: 'true'\n")
    assert call("plan", file, "--exit-code", "--store", server).exit_code == 3
    assert "more.yaml: 1 job changed" in call("apply", file, "--store", server).stdout
    assert call("plan", file, "--exit-code", "--store", server).stdout.endswith("no changes\n")
    file.write_text("jobs: []\n")
    removed = json.loads(call("apply", file, "--prune", "--json", "--store", server).stdout)
    assert "removed" in json.dumps(removed)


def test_logs_are_read_and_followed(call: Call, database: Path, server: str):
    for more in ([], ["--json"], ["-f"], ["--attempt", "1"]):
        here, there = call("logs", "2", *more, "--db", database), call("logs", "2", *more, "--store", server)
        assert (there.exit_code, there.stdout, there.stderr) == (here.exit_code, here.stdout, here.stderr)
    refused = call("logs", "2", "--output", "/tmp/elsewhere", "--store", server)
    assert (refused.exit_code, "--output: expected none with a server" in refused.stderr) == (2, True)


# ── connections and keys ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [["keys", "list"], ["secret", "list"], ["users", "list"]], ids=" ".join)
def test_commands_that_need_the_store_refuse_a_server(call: Call, command: list[str]):
    refused = call(*command, "--store", "http://127.0.0.1:9")
    assert refused.exit_code == 2
    assert "expected the store itself, got a server" in refused.stderr


def test_an_unreachable_server_is_reported_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("onthedot.client.connection.FIRST_DELAY", 0.0)
    refused = call("jobs", "--store", "http://127.0.0.1:9")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "http://127.0.0.1:9: expected an answer, got none" in refused.stderr


@pytest.mark.parametrize("url", ["http://", "http://ann:pw@server", "http://server?a=1"])
def test_an_invalid_address_is_bad_input(call: Call, url: str):
    assert call("jobs", "--store", url).exit_code == 2


def test_the_store_is_taken_from_the_environment(call: Call, database: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ONTHEDOT_STORE", f"sqlite:///{database}")
    assert "tick" in call("jobs").stdout
    assert call("jobs", "--db", "other.db").exit_code == 2  # the option and the variable conflict


def test_a_key_comes_from_a_file_or_the_environment(
    call: Call, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def issue() -> str:
        store = await open_store(f"sqlite:///{database}")
        try:
            return (await keys.issue(store, "ci", Grant(role=Role.VIEWER))).text
        finally:
            await store.close()

    key = asyncio.run(issue())
    file = tmp_path / "key"
    file.write_text(key + "\n")
    server = serving(database, knows=lambda there: Authenticator(there.store, there.clock))
    try:
        refused = call("jobs", "--store", server.url)
        assert (refused.exit_code, "expected a key" in refused.stderr) == (1, True)
        assert "ci" in call("whoami", "--store", server.url, "--key-file", file).stdout
        denied = call("trigger", "tick", "--store", server.url, "--key-file", file)
        assert (denied.exit_code, "expected runs:control" in denied.stderr) == (1, True)
        monkeypatch.setitem(os.environ, "ONTHEDOT_KEY", key)
        assert json.loads(call("whoami", "--store", server.url, "--json").stdout)["role"] == "viewer"
        for text in ("", "a\nb", "a" * 5000):
            file.write_text(text)
            assert call("jobs", "--store", server.url, "--key-file", file).exit_code == 2
        assert call("jobs", "--store", server.url, "--key-file", tmp_path / "none").exit_code == 2
    finally:
        server.stop()


def test_whoami_on_a_store_needs_no_server(call: Call, database: Path):
    assert "there you may do everything" in call("whoami", "--db", database).stderr


def test_a_pause_is_set_exported_and_applied_through_a_server(call: Call, server: str, database: Path, tmp_path: Path):
    assert call("pause", "tick", "--reason", "it moves", "--store", server).exit_code == 0
    there, here = (call("export", "--store", server).stdout, call("export", "--db", database).stdout)
    assert there == here
    assert "    paused: {reason: it moves}\n" in there
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs:\n  - {name: new, paused: {reason: not yet}, schedule: every 1h, run: date}\n")
    assert "+ new: created (paused)\n" in call("plan", file, "--store", server).stdout
    assert call("apply", file, "--store", server).exit_code == 0
    assert call("plan", file, "--store", server, "--exit-code").exit_code == 0
    states = {one["job"]: one["state"] for one in json.loads(call("jobs", "--json", "--db", database).stdout)}
    assert (states["new"], states["tick"]) == ("paused", "paused")
    file.write_text(file.read_text().replace("{reason: not yet}", "false"))
    assert call("apply", file, "--store", server).exit_code == 0
    states = {one["job"]: one["state"] for one in json.loads(call("jobs", "--json", "--db", database).stdout)}
    assert (states["new"], states["tick"]) == ("active", "paused")
