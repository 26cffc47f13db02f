"""A run that one process submits starts at once in another, before the next poll."""

from __future__ import annotations

import json

import pytest

from onthedot.ids import RandomIds
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.sqlite import SqliteStore
from tests.processes.kit import cluster, now
from tests.processes.node import PING
from tests.processes.verdicts import middle

TIMES = 15


@pytest.mark.slow
async def test_a_run_submitted_elsewhere_starts_at_once(tmp_path, capsys):
    with cluster(tmp_path) as nodes:
        node = nodes.boot("worker", program="quiet", lease=15)  # polls every 30 s
        node.wait_for("ready")
        store = await SqliteStore.open(nodes.database)
        job = await store.queries.get_job(PING)
        assert job is not None
        waits = []
        for number in range(TIMES):
            sent = now()
            arguments = json.dumps({"sent": sent})
            await store.submit([NewRun(job.id, submit_trigger(RandomIds().token()), sent, arguments)])
            entry = nodes.wait_for_entry("ping", lambda e, sent=sent: e["sent"] == sent, f"ping {number}")  # type: ignore[misc]
            waits.append(entry["at"] - sent)
        await store.close()
        node.terminate()
        node.wait_stopped()
    with capsys.disabled():
        print(f"\nsubmit in one process to start in another: median {middle(waits) * 1000:.0f} ms, ", end="")
        print(f"longest {max(waits) / 1000:.0f} ms of {TIMES}")
    assert middle(waits) < 3.0  # the median wait for a poll would be 15 s
