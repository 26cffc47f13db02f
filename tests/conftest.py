"""What holds for all tests."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# The checks of the contract are in verify/; pytest explains their asserts as it does a test's own.
pytest.register_assert_rewrite("onthedot_verify.contract")

# Workspaces of root's workers and the locks of programs' users. One folder for all test runs of this machine, because
# user ids are the machine's; never that of the system.
os.environ["OTD_STATE_DIR"] = f"{tempfile.gettempdir()}/onthedot-tests-{os.geteuid()}"

pytest_plugins = [
    "tests.lanes",
    "tests.servers.plugin",
    "tests.chaos.plugin",
    "tests.stores.postgres.plugin",
    "tests.runners.guard.plugin",
]


@pytest.fixture(scope="session", autouse=True)
def _system_folder_is_left_alone() -> Iterator[None]:
    """No test makes the folder of the system: who starts a program with an environment of its own names another."""
    folder = Path("/var/lib/onthedot")
    before = folder.exists()
    yield
    assert folder.exists() == before, f"a test has made {folder}; give what it starts OTD_STATE_DIR"
