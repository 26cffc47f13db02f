"""What holds for all tests."""

import os
import tempfile

# Workspaces of root's workers and the locks of programs' users. One folder for all test runs of this machine, because
# user ids are the machine's; never that of the system.
os.environ["OTD_STATE_DIR"] = f"{tempfile.gettempdir()}/onthedot-tests-{os.geteuid()}"

pytest_plugins = [
    "tests.lanes",
    "tests.servers.plugin",
    "tests.chaos.plugin",
    "tests.stores.postgres.plugin",
    "tests.work.guard.plugin",
]
