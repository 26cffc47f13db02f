"""What holds for all tests."""

pytest_plugins = [
    "tests.lanes",
    "tests.servers.plugin",
    "tests.chaos.plugin",
    "tests.stores.postgres.plugin",
    "tests.work.guard.plugin",
]
