"""Metrics for Prometheus: names, labels and values, read with the parsers of its own library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.events import AttemptEnded, JobPut, RunSkipped, StoreTrouble
from onthedot.model.run import RunState
from onthedot.observe.counters import Counters
from onthedot.observe.json_fields import NodeShown
from onthedot.observe.metrics import BOUNDS, NodeMetrics, Snapshot, exposed
from onthedot.operations.cluster import cluster_snapshot
from onthedot.stores.memory import MemoryStore
from onthedot.stores.values import Held, Node, Queue
from tests.observe.sample_events import NOON, failure, finish, lease, started

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(metrics: Iterable[Any]) -> Samples:
    """The samples of a scrape by name and labels. None may appear twice."""
    text, _ = exposed(metrics, "")
    found: Samples = {}
    for family in read_plain(text.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} appears twice"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def counted(*events: Any) -> Samples:
    counters = Counters()
    for event in events:
        counters(event)
    return samples(NodeMetrics(counters).collect())


# ── a node ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_attempts_are_counted_by_job_and_verdict():
    found = counted(
        started(), AttemptEnded(finish()), started(), AttemptEnded(finish(failure())),
        started(name="mail"), AttemptEnded(finish(name="mail")), RunSkipped(lease(), "overlap:1:", 7),
    )  # fmt: skip
    of_import = {"job_namespace": "default", "job_name": "import"}
    assert value(found, "onthedot_attempts_started_total", **of_import) == 2
    assert value(found, "onthedot_attempts_ended_total", verdict="succeeded", **of_import) == 1
    assert value(found, "onthedot_attempts_ended_total", verdict="failed", **of_import) == 1
    assert value(found, "onthedot_slots_skipped_total", **of_import) == 1
    assert value(found, "onthedot_attempts_started_total", job_namespace="default", job_name="mail") == 1


def test_the_counter_of_deaths_starts_at_zero():
    deaths = "onthedot_attempts_ended_total"
    put = JobPut("import", "created", 1, 6, 0, "team")
    team = {"verdict": "dead", "job_namespace": "team", "job_name": "import"}
    assert value(counted(put), deaths, **team) == 0, "a job of this program before its first attempt"
    of_import = {"verdict": "dead", "job_namespace": "default", "job_name": "import"}
    assert value(counted(started()), deaths, **of_import) == 0, "any job after its first attempt"
    assert value(counted(started(), AttemptEnded(finish(failure(state=RunState.DEAD)))), deaths, **of_import) == 1


def test_other_counters_appear_with_their_first_event():
    found = counted(JobPut("import", "created", 1, 6, 0), started(name="mail"))
    assert not [labels for name, labels in found if name == "onthedot_slots_skipped_total"]
    assert [dict(labels)["job_name"] for name, labels in found if name == "onthedot_attempts_started_total"] == ["mail"]
    ended = sorted(dict(labels)["job_name"] for name, labels in found if name == "onthedot_attempts_ended_total")
    assert ended == ["import", "mail"]


def test_labels_do_not_collide_with_those_of_prometheus():
    counters = Counters()
    for event in (started(), AttemptEnded(finish()), RunSkipped(lease(), "overlap:1:", 7)):
        counters(event)
    standing = Snapshot(NOON, [shown("a", "living")], 1, [Queue("default")])
    found = samples([*NodeMetrics(counters).collect(), *standing.collect()])
    labels = {name for _, pairs in found for name, _ in pairs}
    assert labels.isdisjoint({"job", "instance", "namespace", "pod", "container", "service", "endpoint"}), labels


def test_events_are_counted_by_name():
    found = counted(StoreTrouble("planner", "gone", SECOND), StoreTrouble("planner", "gone", SECOND))
    assert value(found, "onthedot_events_total", event="StoreTrouble") == 2


@pytest.mark.parametrize("late", [0, 1, 511, 512, 1_023, 1_024, 2 * SECOND, 10_000 * SECOND])
def test_lateness_is_counted_in_cumulative_buckets(late: Micros):
    found = counted(started(late))
    for bound in BOUNDS:
        inside = value(found, "onthedot_start_lateness_seconds_bucket", le=str(bound / SECOND))
        assert inside == (late <= bound), bound
    assert value(found, "onthedot_start_lateness_seconds_bucket", le="+Inf") == 1
    assert value(found, "onthedot_start_lateness_seconds_count") == 1
    assert value(found, "onthedot_start_lateness_seconds_sum") == late / SECOND


def test_durations_of_all_jobs_are_summed_up():
    found = counted(AttemptEnded(finish()), AttemptEnded(finish(name="mail")))
    assert value(found, "onthedot_attempt_duration_seconds_count") == 2
    assert value(found, "onthedot_attempt_duration_seconds_sum") == 2 * 50 * MILLISECOND / SECOND


def test_a_program_can_add_the_metrics_to_its_own_registry():
    counters, registry = otd.Counters(), CollectorRegistry()
    registry.register(otd.NodeMetrics(counters))
    counters(started())
    assert b'onthedot_attempts_started_total{job_name="import",job_namespace="default"} 1.0' in generate_latest(
        registry
    )


def test_the_lines_of_ten_thousand_jobs_are_bounded():
    counters = Counters()
    for number in range(10_000):
        counters(started(name=f"job{number}"))
    text, _ = exposed(NodeMetrics(counters).collect(), "")
    assert 20_000 < text.count(b"\n") < 20_100


# ── a cluster ────────────────────────────────────────────────────────────────────────────────────────────────


def shown(name: str, state: str, *, incarnation: str = "1", running: int = 0, terms: list[int] | None = None):
    return NodeShown(
        Node(name, f"{name}-{incarnation}", seats=4), state, terms or [], Held(running=running, reserved=2)
    )


def test_nodes_are_counted_by_state_with_their_seats_and_runs():
    nodes = [shown("a", "living", running=3, terms=[0, 1]), shown("b", "late"), shown("c", "dead"), shown("d", "left")]
    found = samples(Snapshot(NOON, nodes, 4, []).collect())
    states = {state: value(found, "onthedot_nodes", state=state) for state in ("living", "late", "draining")}
    assert states == {"living": 1, "late": 1, "draining": 0}
    assert value(found, "onthedot_node_seats", node="a") == 4
    assert value(found, "onthedot_node_runs", node="a", state="running") == 3
    assert (value(found, "onthedot_shards"), value(found, "onthedot_shards_led")) == (4, 2)
    assert not [labels for _, labels in found if ("node", "c") in labels or ("node", "d") in labels]


def test_two_incarnations_of_a_node_are_summed_up():
    """The earlier incarnation stays in the store until its lease ends."""
    lives = [shown("a", "living", incarnation="2", running=1), shown("a", "late", running=3)]
    found = samples(Snapshot(NOON, lives, 1, []).collect())
    assert value(found, "onthedot_node_runs", node="a", state="running") == 4
    assert value(found, "onthedot_node_seats", node="a") == 4


def test_queues_have_their_runs_and_longest_wait():
    mail = Queue("mail", paused_at=NOON, waiting=12, due=2, running=4, oldest_due=NOON - 90 * SECOND)
    found = samples(Snapshot(NOON, [], 1, [mail, Queue("idle"), Queue("early", oldest_due=NOON + SECOND)]).collect())
    runs = {
        state: value(found, "onthedot_queue_runs", queue="mail", state=state) for state in ("due", "ahead", "running")
    }
    assert runs == {"due": 2, "ahead": 10, "running": 4}
    waits = [value(found, "onthedot_queue_oldest_due_seconds", queue=name) for name in ("mail", "idle", "early")]
    assert waits == [90, 0, 0]
    assert [value(found, "onthedot_queue_paused", queue=name) for name in ("mail", "idle")] == [1, 0]


async def test_a_cluster_is_read_from_its_store():
    store = MemoryStore()
    now = await store.tell_time()
    await store.register(Node("a", "a-1", seats=4), ttl=15 * SECOND)
    await store.campaign("a-1", ttl=10 * SECOND)
    found = samples((await cluster_snapshot(store, now)).collect())
    assert value(found, "onthedot_nodes", state="living") == 1
    assert (value(found, "onthedot_shards"), value(found, "onthedot_shards_led")) == (1, 1)


# ── text formats ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
        "application/openmetrics-text; version=nonsense",
    ],
)
def test_openmetrics_is_sent_if_the_client_accepts_it(accept: str):
    counters = Counters()
    counters(started())
    text, media_type = exposed(NodeMetrics(counters).collect(), accept)
    assert media_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
    assert {family.name for family in read_open(text.decode())} >= {"onthedot_attempts_started", "onthedot_events"}


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain; version=nonsense", "\0\xff;;,=", "application/json"])
def test_other_clients_get_the_text_format_of_prometheus(accept: str):
    _, media_type = exposed([], accept)
    assert media_type.startswith("text/plain; version=0.0.4")
