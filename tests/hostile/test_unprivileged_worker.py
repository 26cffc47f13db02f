"""The sandbox of a worker without root: a job has the worker's user id, and still reaches nothing of the worker."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import onthedot
from tests.runners.guard.guarded_programs import PYTHON
from tests.servers.plugin import NOT_TESTED

NOBODY = 65_534
HERE = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.usefixtures("sandbox")
def test_a_sandboxed_job_reaches_nothing_of_an_unprivileged_worker():
    rights: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
    path = f"{HERE}:{Path(onthedot.__file__).parents[1]}"
    done = subprocess.run(
        [PYTHON, "-m", "tests.hostile.unprivileged_worker"], env={"PATH": os.defpath, "PYTHONPATH": path}, cwd="/",
        capture_output=True, text=True, check=False, **rights,
    )  # fmt: skip
    if "No module named" in done.stderr or "Permission denied: " in done.stderr:
        pytest.skip(f"{NOT_TESTED}a sandbox of an unprivileged worker: user {NOBODY} cannot read {HERE}")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["end"][:2] == ["exited", 0], answer
    assert answer["traces"] == []
    [line] = [line for line in answer["output"].splitlines() if line.startswith("{")]  # the loader prints other lines
    found = json.loads(line)
    assert 1 <= found.pop("processes") <= 4
    assert found.pop("environment") == ["LC_CTYPE", "LD_DEBUG", "LD_DEBUG_OUTPUT", "OTD_TREE", "PATH", "PWD"]
    assert found == {
        "uid": NOBODY if rights else os.geteuid(), "store": False, "workspaces": False, "tmp": 1, "guard": False,
        "sockets": False, "filter": "2",
    }  # fmt: skip
