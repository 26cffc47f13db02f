"""Commands that change something while a node runs: the node acts on each change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.started import napping, started
from tests.servers.running import wait_until

pytestmark = pytest.mark.slow


def test_a_running_node_follows_cancels_pauses_and_drains(tmp_path: Path, call: Call):
    database = tmp_path / "onthedot.db"

    def told(*arguments: str) -> Any:
        result = call(*arguments, "--db", database, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    with started(tmp_path, "up", napping(tmp_path), "--node-id", "one", "--json", "--lease", "3s") as node:
        node.until('"NodeJoined"')
        run = told("trigger", "nap")["run_id"]
        node.until('"AttemptStarted"', f'"run_id": {run},')
        assert told("show", run)["node"] == "one"

        def at_work() -> bool:
            """The node may not lead yet, or a busy machine may delay its heartbeat."""
            [shown] = told("nodes")
            return (shown["state"], shown["leads"], shown["running"] >= 1) == ("living", True, True)

        wait_until(at_work, "the node to be shown as living, leading and running")
        assert told("cancel", run)["answer"] == "asked"
        assert '"state": "cancelled"' in node.until('"AttemptEnded"', f'"run_id": {run},')

        told("queue", "pause", "default")
        waiting = told("trigger", "heartbeat")["run_id"]
        assert told("show", waiting)["waits_for"][0] == "its queue 'default', which is paused"
        told("queue", "resume", "default")
        node.until('"AttemptEnded"', f'"run_id": {waiting},')

        told("node", "drain", "one")
        node.until('"NodeDraining"', '"draining": true')
        waiting = told("trigger", "heartbeat")["run_id"]
        assert told("show", waiting)["state"] == "scheduled"
        told("node", "drain", "one", "--undo")
        node.until('"AttemptEnded"', f'"run_id": {waiting},')


TALKING = """
import onthedot as otd

sched = otd.Scheduler("sqlite:///onthedot.db")

@sched.job
async def greet(ctx: otd.Context, name: str = "Ada") -> None:
    ctx.log(f"hello, {name}")

@sched.job
async def fail(ctx: otd.Context) -> None:
    ctx.log("it begins")
    raise ValueError("no more words")
"""


def test_a_triggered_run_can_be_followed_to_its_end(tmp_path: Path, call: Call):
    (tmp_path / "talks.py").write_text(TALKING)
    with started(tmp_path, "up", "talks.py", "--json", "--insecure", "--listen", "127.0.0.1:0") as node:
        address = re.search(r"http://127\.0\.0\.1:\d+", node.until("http://127.0.0.1:"))
        assert address is not None
        for where in (["--db", tmp_path / "onthedot.db"], ["--store", address[0]]):
            good = call("trigger", "greet", "--arg", "name=Bob", "--follow", *where)
            assert good.exit_code == 0, good.output
            assert re.fullmatch(r"── attempt 1, .*\n\d\d:\d\d:\d\d\.\d{3} log \| hello, Bob\n", good.stdout)
            assert re.fullmatch(r"run (\d+) of greet is stored\nrun \1 of greet: succeeded\n", good.stderr)

            bad = call("trigger", "fail", "-f", "--json", *where)
            assert bad.exit_code == 1, bad.output
            line, *trace, ended = map(json.loads, bad.stdout.splitlines())
            assert (line["attempt"], line["stream"], line["step"], line["text"]) == (1, "log", "", "it begins\n")
            assert [one["stream"] for one in trace] == ["err"]
            assert (ended["job"], ended["state"]) == ("fail", "dead")
