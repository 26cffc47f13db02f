"""Decides which finished runs are removed, by age and by number, failures last. Pure.

The answer is a list of cuts: states, and the mark in history up to which runs are removed. The store checks, in the
write that removes a run, that it has ended and that its slot can never come back.
"""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.retention import HOUR, Cut, Mark, Retention
from onthedot.model.run import TERMINAL, RunState

FAILURES = frozenset({RunState.DEAD, RunState.LOST})
"""The states that people look up later: they are kept longest."""
ORDINARY = TERMINAL - FAILURES

SETTLED = HOUR
"""No run is removed sooner after its end, however many there are. Until then a node may repeat a verdict, a caller may
read the result, and a repeated submit with the same key returns the same run.
"""

_LAST_OF_ALL = 2**63 - 1


class Quota(NamedTuple):
    """Finished runs in these states are removed when `keep` newer runs of their job, in any state, have ended."""

    states: frozenset[RunState]
    keep: int


def cuts_by_age(policy: Retention, *, now: Micros) -> list[Cut]:
    """Return the cuts for runs of all jobs that are too old."""
    ages = ((ORDINARY, policy.age), (FAILURES, policy.failures_age))
    return [Cut(states, _up_to(now - age)) for states, age in ages if age is not None]


def quotas(policy: Retention) -> list[Quota]:
    """Return how many runs a job may have in history."""
    counts = ((ORDINARY, policy.count), (FAILURES, policy.failures_count))
    return [Quota(states, keep) for states, keep in counts if keep is not None]


def cut_by_count(quota: Quota, job_id: int, newest: Mark, *, now: Micros) -> Cut:
    """Return the cut for the runs of one job beyond a quota. `newest` is its newest run beyond the quota."""
    return Cut(quota.states, min(newest, _up_to(now - SETTLED)), job_id)


def end_of_ledger(policy: Retention, *, now: Micros) -> Micros | None:
    """Return the instant up to which ranges of skipped slots, ended nodes and past terms are removed; None if they
    stay.
    """
    return None if policy.failures_age is None else now - policy.failures_age


def _up_to(instant: Micros) -> Mark:
    return Mark(instant, _LAST_OF_ALL)
