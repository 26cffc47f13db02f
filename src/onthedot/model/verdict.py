"""Defines outcomes and verdicts: what happened in an attempt, and what follows from it.

An **outcome** is a fact that the worker observed. A **verdict** is a decision that `rules/` makes from the outcome and
the job's policies. The store only records it. Both are tuples: immutable, and cheap enough to make one for each of tens
of thousands of attempts a second.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.run import Lease, RunState


class OutcomeKind(StrEnum):
    """The way in which an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"  # a user requested it
    RELEASED = "released"  # returned to the store before user code started
    LOST = "lost"  # its node's lease ended


class Outcome(NamedTuple):
    """The facts about one finished attempt."""

    kind: OutcomeKind
    error: str | None = None
    error_types: tuple[str, ...] = ()  # dotted names of the exception's type and its bases
    result: str | None = None  # JSON text
    not_before: Micros = 0  # earliest retry that the server allows (Retry-After)


SUCCEEDED = Outcome(OutcomeKind.SUCCEEDED)
STOPPED = Outcome(OutcomeKind.LOST, "stopped before its end")
OUT_OF_REACH = Outcome(OutcomeKind.LOST, "stopped before its end: the store was out of reach")
LEASE_ENDED = Outcome(OutcomeKind.LOST, "stopped before its end: the lease of its node had ended")


class Verdict(NamedTuple):
    """The decision that follows from an outcome: the run's next state, and what is recorded with the attempt.

    If `state` is scheduled, `due_at` is the time of the next try. `failed` counts against the job's attempts,
    `recovered` against its `max_recoveries`.
    """

    state: RunState
    outcome: OutcomeKind
    reason: str = ""
    due_at: Micros = 0
    failed: bool = False
    recovered: bool = False
    error: str | None = None
    result: str | None = None


class Finish(NamedTuple):
    """A finished attempt that is sent to the store. `started_at` is 0 if user code never started."""

    lease: Lease
    verdict: Verdict
    started_at: Micros
    ended_at: Micros
