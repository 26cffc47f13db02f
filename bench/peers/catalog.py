"""The systems that are measured, on which stores, and with how much work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STORES = ("memory", "sqlite", "postgres", "redis")
OURS, BARE = "onthedot", "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system with one set of settings."""

    name: str
    """As in `--only peer=…`."""
    title: str
    """As in tables and plots."""
    node: str
    """Its program, in `bench.peers.nodes`."""
    environment: str
    """Where its packages are: "" is that of onthedot, `peers` that of `requirements-peers.txt`, and so on."""
    stores: Mapping[str, int]
    """Its stores, each with the number of jobs that one process drains in about two seconds."""
    options: tuple[str, ...] = ()
    single_process: frozenset[str] = frozenset({"memory"})
    """The stores on which one process has to both submit and work."""
    without: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Measurements that make no sense, by store."""
    keeps_less: Mapping[str, str] = field(default_factory=dict)
    """What it promises less than the others, by store. Its figures are shown there, but it is never the best peer."""


def _without(stores: str, measurements: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(stores.split(), frozenset(measurements.split()))


SYSTEMS = (
    System(
        name=OURS, title="onthedot", node="ours", environment="",
        stores={"memory": 20_000, "sqlite": 20_000, "postgres": 20_000, "redis": 20_000},
    ),
    System(
        name=BARE, title="bare limit", node="bare", environment="",
        stores={"memory": 20_000, "sqlite": 20_000, "postgres": 20_000, "redis": 20_000},
        single_process=frozenset({"memory"}),
        without=_without("memory sqlite", "submit at_once bulk start herd first")
        | _without("postgres redis", "at_once start herd first"),
    ),
    System(
        name="apscheduler3", title="APScheduler 3", node="apscheduler3", environment="peers",
        stores={"memory": 20_000, "sqlite": 300}, single_process=frozenset({"memory", "sqlite"}),
        without=_without("sqlite", "herd"),  # to store 1,000 jobs takes it half a minute
    ),
    System(
        name="apscheduler4", title="APScheduler 4", node="apscheduler4", environment="peers-2",
        stores={"memory": 10_000, "postgres": 150}, without=_without("postgres", "herd"),  # the same
    ),
    System(name="huey", title="huey", node="huey", environment="peers", stores={"sqlite": 4_000, "redis": 6_000}),
    System(
        name="huey-no-fsync", title="huey, no fsync", node="huey", environment="peers", options=("no-fsync",),
        stores={"sqlite": 6_000}, keeps_less={"sqlite": "a power failure takes its last commits"},
    ),
    System(
        name="taskito", title="taskito", node="taskito", environment="peers",
        stores={"sqlite": 3_000, "postgres": 1_000}, keeps_less={"sqlite": "a power failure takes its last commits"},
    ),
    System(name="pgqueuer", title="PgQueuer", node="pgqueuer", environment="peers", stores={"postgres": 20_000}),
    System(
        name="procrastinate", title="procrastinate", node="procrastinate", environment="peers", stores={"postgres": 800}
    ),
    System(name="dramatiq", title="dramatiq", node="dramatiq", environment="peers", stores={"redis": 8_000}),
    System(name="taskiq", title="taskiq", node="taskiq", environment="peers", stores={"redis": 4_000}),
    System(name="arq", title="arq", node="arq", environment="peers-2", stores={"redis": 2_000}),
    System(name="celery", title="Celery", node="celery", environment="peers", stores={"redis": 2_000}),
)  # fmt: skip
