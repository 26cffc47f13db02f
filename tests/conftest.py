"""What holds for all tests."""

from hypothesis import settings

pytest_plugins = [
    "tests.servers.plugin",
    "tests.chaos.plugin",
    "tests.stores.postgres.plugin",
    "tests.work.guard.plugin",
]

# A machine that is busy for a moment must not fail a property: pytest's own time-out is the only clock here.
settings.register_profile("onthedot", deadline=None)
settings.load_profile("onthedot")
