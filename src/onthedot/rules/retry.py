"""Decides what follows from an attempt's outcome: success, a retry and its instant, or a dead letter. Pure."""

from __future__ import annotations

from datetime import timedelta

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros, parse_duration
from onthedot.model.job import Guarantee, Job, Retry, When
from onthedot.model.run import RunState
from onthedot.model.verdict import Outcome, OutcomeKind, Verdict

_SUCCEEDED = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
_TIMED_OUT = ("builtins.TimeoutError", "builtins.OSError", "builtins.Exception", "builtins.BaseException")
_BAD_ARGUMENTS = "onthedot.BadArguments"  # see `runners/registry.py`
_LONGEST_WISH: Micros = 3600 * SECOND  # no server can delay a retry for longer
_LONGEST_EXPONENT = 62  # 2 ** 62 µs is longer than any max_delay; beyond it floats would overflow


def decide(
    outcome: Outcome,
    job: Job,
    *,
    failures: int,
    ended_at: Micros,
    chance: float,
    due_at: Micros,
    when: When | None = None,
) -> Verdict:
    """Return the verdict on an attempt that ended at `ended_at`, after `failures` earlier ones.

    `when` is the function of `Retry.when`, and decides in place of the back-off. Its errors are raised here.
    `chance` in [0, 1) spreads retries (`delay_before`). A released attempt never began, and does not count. It is due
    again at once, but not before its own due instant `due_at` (attempts are armed a little ahead). Under at_most_once
    no run is armed twice, so there a released attempt is lost. A retry is not due before the outcome's `not_before`,
    but this delays it by an hour at most.
    """
    kind = outcome.kind
    if kind is OutcomeKind.SUCCEEDED:
        return _SUCCEEDED if outcome.result is None else _SUCCEEDED._replace(result=outcome.result)
    if kind is OutcomeKind.RELEASED:
        if job.guarantee is Guarantee.AT_MOST_ONCE:
            return Verdict(RunState.LOST, kind, "armed but not begun", error=outcome.error)
        return Verdict(RunState.SCHEDULED, kind, "released", due_at=max(ended_at, due_at), error=outcome.error)
    if kind is OutcomeKind.CANCELLED:
        return Verdict(RunState.CANCELLED, kind, outcome.error or "cancelled")
    retry = job.retry
    if failures + 1 >= retry.attempts:
        reason = "failed" if retry.attempts == 1 else f"failed {failures + 1} times"
        return Verdict(RunState.DEAD, kind, reason, failed=True, error=outcome.error)
    wait = None
    if worth_retrying(outcome, retry):
        wait = delay_by(when, outcome, failures + 1) if when else delay_before(failures + 1, retry, chance)
    if wait is None:
        return Verdict(RunState.DEAD, kind, "not worth a retry", failed=True, error=outcome.error)
    due_at = max(ended_at + wait, min(outcome.not_before, ended_at + _LONGEST_WISH))
    return Verdict(RunState.SCHEDULED, kind, "retry", due_at=due_at, failed=True, error=outcome.error)


def worth_retrying(outcome: Outcome, retry: Retry) -> bool:
    """Return whether the job's policy names this kind of failure. Wrong arguments stay the same, so they are retried
    only if the policy names exactly that error.
    """
    if _BAD_ARGUMENTS in outcome.error_types:
        return _BAD_ARGUMENTS in retry.on
    if outcome.kind is OutcomeKind.TIMED_OUT:
        return retry.on_timeout
    return not retry.on or not set(retry.on).isdisjoint(outcome.error_types)


def delay_by(when: When, outcome: Outcome, attempt: int) -> Micros | None:
    """Return the delay that a custom function wants after this failed attempt; None if it wants no retry.

    >>> delay_by(lambda attempt, types, error: 2 * attempt, Outcome(OutcomeKind.FAILED, "busy"), 3)
    6000000
    """
    types = _TIMED_OUT if outcome.kind is OutcomeKind.TIMED_OUT else outcome.error_types
    wait = when(attempt, types, outcome.error or "")
    if wait is None or wait in (0, timedelta(0)):
        return None if wait is None else 0
    return micros(parse_duration(wait, what="retry.when"))


def delay_before(retry_number: int, retry: Retry, chance: float) -> Micros:
    """Return the delay before the n-th retry (1 is the first). The back-off is capped. Jitter draws from its upper
    half, so that runs that failed together do not return together, and none returns at once.

    >>> retry = Retry(3, delay="8s")
    >>> [delay_before(1, retry, chance) / SECOND for chance in (0.0, 0.5, 1.0)]
    [4.0, 6.0, 8.0]
    """
    first, longest = micros(retry.delay), micros(retry.max_delay)
    match retry.backoff:
        case "fixed":
            wait = first
        case "linear":
            wait = first * retry_number
        case "exponential":
            wait = first * 2 ** min(retry_number - 1, _LONGEST_EXPONENT)
    wait = min(wait, longest)
    return round(wait * (1 + chance) / 2) if retry.jitter else wait
