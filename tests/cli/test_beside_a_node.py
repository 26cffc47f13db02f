"""Commands that change something, beside a node that runs: it notices by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.started import napping, started
from tests.servers.running import wait_until

Call = Callable[..., Result]

pytestmark = pytest.mark.slow


def test_a_node_does_what_the_commands_ask_for(tmp_path: Path, call: Call):
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
            """It may be asked before it has won its term, or while a busy machine makes its beat late."""
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
