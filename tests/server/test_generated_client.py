"""A client that openapi-python-client generates from the document: it works against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.started import started
from tests.servers.running import free_port

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
PROGRAM = """
import sys, time
from client import AuthenticatedClient
from client.api.jobs import put_job
from client.api.logs import get_logs
from client.api.runs import get_run, trigger_job
from client.models import WrittenNamedJob, WrittenStep

there = AuthenticatedClient(base_url=sys.argv[1], token="none", raise_on_unexpected_status=True)
steps = [WrittenStep(name="greet", run="echo hello from a client"), WrittenStep(name="leave", run="echo bye")]
stored = put_job.sync("hello", client=there, body=WrittenNamedJob(steps=steps, timeout="20s"))
assert stored.change == "created", stored
run = trigger_job.sync("hello", client=there)
while get_run.sync(run.run_id, client=there).state not in ("succeeded", "dead"):
    time.sleep(0.1)
print([line.text for line in get_logs.sync(run.run_id, client=there).items])
"""


@pytest.mark.soak
def test_a_generated_client_stores_a_job_triggers_it_and_reads_its_log(tmp_path: Path):
    if not PYTHON.exists():
        pytest.fail("the generator is not installed: make .venv-clients/.clients")
    path = {**os.environ, "PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}
    document = subprocess.check_output([sys.executable, "-m", "onthedot", "openapi"], text=True)
    (tmp_path / "openapi.json").write_text(document)
    (tmp_path / "names.json").write_text('{"package_name_override": "client"}')
    command = "openapi_python_client generate --path openapi.json --config names.json --output-path made --meta none"
    made = subprocess.run(
        [PYTHON, "-m", *command.split()], cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    said = made.stdout + made.stderr
    assert (made.returncode, "Error" in said, "Unable to process" in said) == (0, False, False), said
    # The generator knows no NDJSON and no YAML bodies. The first route also takes JSON.
    left_out = [line for line in said.splitlines() if line.startswith("WARNING")]
    assert [line.split()[2:4] for line in left_out] == [["POST", "/api/v1/runs"], ["POST", "/api/v1/submit_job"]], said
    (tmp_path / "made").rename(tmp_path / "client")
    port = free_port()
    with started(tmp_path, "up", "--insecure", "--listen", f"127.0.0.1:{port}", "--plain", "--for", "120s") as up:
        up.until("Ctrl-C")
        done = subprocess.run(
            [PYTHON, "-c", PROGRAM, f"http://127.0.0.1:{port}"],
            cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "hello from a client" in done.stdout
    assert "bye" in done.stdout
