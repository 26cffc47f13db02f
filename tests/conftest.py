"""Settings and plugins for all tests."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# The checks of the contract are in verify/. With this, pytest explains their assertions like those of a test.
pytest.register_assert_rewrite("onthedot_verify.contract")

# The folder for workspaces of root's workers and for locks of user ids. All test runs of a machine share one, because
# user ids belong to the machine. It is never the folder of the system.
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
    """Check that no test makes the folder of the system: a program with its own environment needs OTD_STATE_DIR."""
    folder = Path("/var/lib/onthedot")
    before = folder.exists()
    yield
    assert folder.exists() == before, (
        f"a test has made {folder}; set OTD_STATE_DIR in the environment of the programs that it starts"
    )
