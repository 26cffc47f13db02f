"""Metrics for Prometheus: what this node has counted, and the state of the whole cluster.

Counts by job are counters; lengths of time are histograms over all jobs together, so that ten thousand jobs do not make
half a million series. Every name begins with `onthedot_`; `docs/operate/metrics.md` explains them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.observe.content_negotiation import TEXT, preferred
from onthedot.observe.counters import Counters, Histogram
from onthedot.observe.json_fields import NodeShown
from onthedot.stores.values import Queue

if TYPE_CHECKING:
    from prometheus_client import Metric

BOUNDS: tuple[Micros, ...] = tuple(2**power - 1 for power in [*range(9, 18), *range(19, 33, 2)])
"""The classes of histograms, from half a millisecond to half an hour: powers of two, where a `Histogram` is exact."""

_OPEN = "application/openmetrics-text"
_STATES = ("living", "late", "draining")


# ── this node ────────────────────────────────────────────────────────────────────────────────────────────────


class NodeMetrics:
    """What a program's node has counted, for a registry of prometheus_client.

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> import onthedot as otd
    >>> counters, registry = otd.Counters(), CollectorRegistry()
    >>> registry.register(otd.NodeMetrics(counters))      # and, before the start: sched.subscribe(counters)
    >>> b"onthedot_start_lateness_seconds_count 0.0" in generate_latest(registry)
    True
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Everything that was counted so far.

        >>> [metric.name for metric in otd.NodeMetrics(counters).collect()][:2]
        ['onthedot_attempts_started', 'onthedot_attempts_ended']
        """
        from prometheus_client.core import CounterMetricFamily

        by_job = ("job_namespace", "job_name")  # Prometheus sets `job` itself, and its operator sets `namespace`
        started = CounterMetricFamily("onthedot_attempts_started", "Attempts that began, by job.", labels=by_job)
        ended = CounterMetricFamily(
            "onthedot_attempts_ended", "Attempts that ended, by job and what followed.", labels=[*by_job, "verdict"]
        )
        skipped = CounterMetricFamily("onthedot_slots_skipped", "Slots that this node skipped, by job.", labels=by_job)
        for (namespace, job), tally in self._counters.tallies():
            if tally.started:
                started.add_metric([namespace, job], tally.started)
            if tally.skipped:
                skipped.add_metric([namespace, job], tally.skipped)
            # Count deaths from zero: a series that begins at 1 has not increased, so no alert would fire.
            for verdict, count in sorted({"dead": 0, **tally.verdicts}.items()):
                ended.add_metric([namespace, job, verdict], count)
        events = CounterMetricFamily(
            "onthedot_events", "What this node has told, by the event's name.", labels=["event"]
        )
        for name, count in sorted(self._counters.events().items()):
            events.add_metric([name], count)
        total = self._counters.total()
        yield from (started, ended, skipped, events)
        yield _histogram("onthedot_start_lateness_seconds", "From the due instant of a run to its start.", total.late)
        yield _histogram("onthedot_attempt_duration_seconds", "From the start of an attempt to its end.", total.took)


def _histogram(name: str, what: str, histogram: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    found = [(str(bound / SECOND), float(count)) for bound, count in zip(BOUNDS, histogram.counts(BOUNDS), strict=True)]
    return HistogramMetricFamily(name, what, [*found, ("+Inf", float(histogram.count))], histogram.total / SECOND)


# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────


class Snapshot(NamedTuple):
    """The state of a cluster at one instant, according to its store."""

    now: Micros
    nodes: Sequence[NodeShown]
    shards: int
    queues: Sequence[Queue]

    def collect(self) -> Iterator[Metric]:
        """Return the state as metrics."""
        yield from self._of_nodes()
        yield from self._of_queues()

    def _of_nodes(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        there = [one for one in self.nodes if one.state in _STATES]
        states = Counter(one.state for one in there)
        nodes = GaugeMetricFamily("onthedot_nodes", "Nodes that are there, by state.", labels=["state"])
        for state in _STATES:
            nodes.add_metric([state], states[state])
        seats = GaugeMetricFamily("onthedot_node_seats", "How many attempts a node runs at once.", labels=["node"])
        held = GaugeMetricFamily("onthedot_node_runs", "Runs that a node holds, by state.", labels=["node", "state"])
        for name in sorted({one.node.id for one in there}):  # a restarted node has two lives for a while
            lives = [one for one in there if one.node.id == name]
            seats.add_metric([name], lives[0].node.seats)
            held.add_metric([name, "running"], sum(one.held.running for one in lives))
            held.add_metric([name, "reserved"], sum(one.held.reserved for one in lives))
        led = sum(len(one.terms) for one in self.nodes)
        yield from (nodes, seats, held)
        yield GaugeMetricFamily("onthedot_shards", "How many shards the schedules are planned in.", self.shards)
        yield GaugeMetricFamily("onthedot_shards_led", "How many of them have a leader now.", led)

    def _of_queues(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        runs = GaugeMetricFamily("onthedot_queue_runs", "Live runs of a queue, by state.", labels=["queue", "state"])
        late = GaugeMetricFamily(
            "onthedot_queue_oldest_due_seconds",
            "For how long the oldest run has been due that waits.",
            labels=["queue"],
        )
        paused = GaugeMetricFamily("onthedot_queue_paused", "1 for a queue that is paused.", labels=["queue"])
        for queue in self.queues:
            states = {"due": queue.due, "ahead": queue.waiting - queue.due, "running": queue.running}
            for state, count in states.items():
                runs.add_metric([queue.name, state], count)
            late.add_metric(
                [queue.name], 0 if queue.oldest_due is None else max(0, self.now - queue.oldest_due) / SECOND
            )
            paused.add_metric([queue.name], queue.paused_at is not None)
        yield from (runs, late, paused)


# ── as text ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Several(NamedTuple):
    """A collector of metrics from several sources."""

    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


def exposed(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """The text of metrics and its media type: OpenMetrics if `accept` prefers it, else Prometheus' own."""
    from prometheus_client import exposition
    from prometheus_client.openmetrics import exposition as openmetrics

    several = _Several(list(metrics))
    if preferred(accept, (TEXT, _OPEN)) == _OPEN:
        made: bytes = openmetrics.generate_latest(several)  # type: ignore[no-untyped-call]  # the library's own gap
        return made, openmetrics.CONTENT_TYPE_LATEST
    return exposition.generate_latest(several), exposition.CONTENT_TYPE_PLAIN_0_0_4
