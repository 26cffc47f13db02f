"""Holds the state of one attempt in a runner, and decides its outcome under exactly_once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onthedot.clock import Micros
from onthedot.model.job import Guarantee
from onthedot.model.run import Lease
from onthedot.model.verdict import Finish, Outcome, OutcomeKind
from onthedot.output.records import Mark
from onthedot.runners.context import Context, Reporter
from onthedot.runners.notes import Notes
from onthedot.runners.outcomes import failed, trace_of
from onthedot.runners.registry import Handler
from onthedot.runners.transactions import NO_ANSWER


@dataclass(slots=True, eq=False)
class Attempt:
    """The state of one lease in a runner. `outcome` is set exactly once: the first one wins."""

    lease: Lease
    timeout: Micros = 0  # 0: none
    started_at: Micros = 0
    ended_at: Micros = 0
    outcome: Outcome | None = None
    timed_out: bool = False
    stop_as: Outcome | None = None  # its outcome if it is stopped (lost lease, cancel, stopping node)
    stuck: bool = False  # its outcome is decided, but its function still runs and keeps the seat
    handle: Any = field(default=None, repr=False)  # its runner uses this to end it early
    reporter: Reporter | None = field(default=None, repr=False)  # receives its checkpoints, notes and transactions
    context: Context | None = field(default=None, repr=False)

    def call(self, handler: Handler) -> Any:
        """Call the handler. Returns its result, or its coroutine."""
        if handler.takes_context:
            deadline = self.started_at + self.timeout if self.timeout else None
            self.context = Context(self.lease, self.reporter, deadline, self.started_at)
            if self.stop_as is not None:  # another thread stopped it before the context existed
                self.context.cancelled.set()
        return handler.call(self.lease, self.context)

    def failed(self, error: BaseException) -> Outcome:
        """Return the outcome of a handler that raised. Add the traceback to the attempt's log."""
        trace = trace_of(error)
        if trace and self.reporter is not None:
            mark = Mark(self.reporter.now(), "err")
            if self.context is not None:
                self.context._log_as(mark, trace)
            else:
                notes = Notes(self.lease)
                notes.log(trace, mark)
                self.reporter.noted(notes)
        return failed(error)

    def tell_to_stop(self) -> None:
        """Notify the handler that it should end."""
        if self.context is not None:
            self.context.cancelled.set()


def stopped_before_start(attempt: Attempt) -> Outcome:
    """The outcome of an attempt that was stopped before user code ran: released, or cancelled."""
    if attempt.stop_as is not None and attempt.stop_as.kind is OutcomeKind.CANCELLED:
        return attempt.stop_as
    return Outcome(OutcomeKind.RELEASED, "stopped before it began")


# ── attempts under exactly_once ──────────────────────────────────────────────────────────────────────────────


_NO_COMMIT = (
    "the handler returned, and has committed no transaction; with guarantee 'exactly_once' its effects belong into "
    "'async with ctx.transaction() as db:', also when there are none"
)


def committed(attempt: Attempt) -> Finish | None:
    """The finish that an attempt has committed with its own transaction; None if it has not."""
    completion = attempt.context.completion if attempt.context is not None else None
    return completion.finish if completion is not None and completion.state == "committed" else None


def difference_after_commit(attempt: Attempt, finish: Finish) -> str:
    """Return how an attempt ended after its commit, if that differs from what it committed; else empty."""
    outcome = attempt.outcome
    if outcome is None or outcome.kind is not OutcomeKind.SUCCEEDED:
        return "" if outcome is None else outcome.error or str(outcome.kind)
    if outcome.result not in (None, finish.verdict.result):
        return "it returned a result that was not kept; say ctx.result(…) inside the transaction"
    return ""


def settled(attempt: Attempt, outcome: Outcome) -> Outcome:
    """The outcome of an attempt that has committed nothing. Under exactly_once it cannot be a success."""
    if attempt.lease.record.job.guarantee is not Guarantee.EXACTLY_ONCE:
        return outcome
    unknown = attempt.context is not None and attempt.context.completion.state == "unknown"
    if unknown and outcome.kind in (OutcomeKind.SUCCEEDED, OutcomeKind.FAILED):
        return Outcome(OutcomeKind.LOST, NO_ANSWER)
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return Outcome(OutcomeKind.FAILED, _NO_COMMIT, ("onthedot.NoTransaction",))
    return outcome
