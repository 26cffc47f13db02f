"""The retry policy makes the right verdict of each outcome: success, a retry and when, or death."""

from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.clock import SECOND
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Backoff, Call, Guarantee, Job, Retry, When
from onthedot.model.run import RunState
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind, Verdict
from onthedot.rules.retry import decide, delay_before

FAILED = Outcome(OutcomeKind.FAILED, "boom", ("app.Boom", "builtins.Exception", "builtins.BaseException"))
NO_RETRY = Retry()
TIMED_OUT = Outcome(OutcomeKind.TIMED_OUT, "too long")


def job(retry: Retry = NO_RETRY, guarantee: Guarantee = Guarantee.AT_LEAST_ONCE) -> Job:
    return Job(name="j", task=Call(handler="j"), retry=retry, guarantee=guarantee)


def verdict(outcome: Outcome, retry: Retry, *, failures: int = 0, chance: float = 0.5) -> Verdict:
    return decide(outcome, job(retry), failures=failures, ended_at=1000 * SECOND, chance=chance, due_at=0)


def test_success_is_final_and_carries_its_result():
    plain = verdict(SUCCEEDED, Retry(3))
    assert (plain.state, plain.failed, plain.result) == (RunState.SUCCEEDED, False, None)
    assert verdict(Outcome(OutcomeKind.SUCCEEDED, result="[1]"), Retry()).result == "[1]"


def test_without_retries_a_failure_is_dead():
    found = verdict(FAILED, Retry())
    assert (found.state, found.failed, found.error) == (RunState.DEAD, True, "boom")


@pytest.mark.parametrize(("failures", "state"), [(0, "scheduled"), (1, "scheduled"), (2, "dead"), (7, "dead")])
def test_the_number_of_attempts_includes_the_first(failures, state):
    assert verdict(FAILED, Retry(3), failures=failures).state == state


@pytest.mark.parametrize(
    ("backoff", "seconds"), [("fixed", [2, 2, 2, 2]), ("linear", [2, 4, 6, 7]), ("exponential", [2, 4, 7, 7])]
)
def test_backoff_grows_up_to_its_limit(backoff: Backoff, seconds: list[int]):
    retry = Retry(9, backoff=backoff, delay="2s", max_delay="7s", jitter=False)
    assert [delay_before(n, retry, 0.9) // SECOND for n in (1, 2, 3, 4)] == seconds


def test_jitter_spreads_over_the_second_half_of_the_delay():
    retry = Retry(9, delay="8s")
    assert [delay_before(1, retry, chance) for chance in (0.0, 0.25, 0.5)] == [4 * SECOND, 5 * SECOND, 6 * SECOND]


@given(
    retry_number=st.integers(1, 1000),
    backoff=st.sampled_from(get_args(Backoff)),
    delay=st.integers(1, 10**9),
    max_delay=st.integers(1, 10**9),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_a_retry_waits_between_half_and_all_of_its_delay(retry_number, backoff, delay, max_delay, chance):
    first, longest = timedelta(microseconds=delay), timedelta(microseconds=max_delay)
    exact = Retry(9, backoff=backoff, delay=first, max_delay=longest, jitter=False)
    whole = delay_before(retry_number, exact, chance)
    found = delay_before(retry_number, Retry(9, backoff=backoff, delay=first, max_delay=longest), chance)
    assert min(delay, max_delay) <= whole <= max_delay
    assert whole // 2 <= found <= whole


def test_exponential_backoff_does_not_overflow():
    assert delay_before(100_000, Retry(1000, max_delay="1h", jitter=False), 0.0) == 3600 * SECOND


@pytest.mark.parametrize(
    ("on", "state"),
    [
        (("app.Boom",), "scheduled"),
        ((Exception,), "scheduled"),
        ((ConnectionError,), "dead"),
        ((ConnectionError, "app.Boom"), "scheduled"),
    ],
)
def test_only_named_errors_are_retried(on, state):
    assert verdict(FAILED, Retry(3, on=on)).state == state


@pytest.mark.parametrize(("on_timeout", "state"), [(True, "scheduled"), (False, "dead")])
def test_time_outs_are_retried_unless_the_policy_forbids_it(on_timeout, state):
    assert verdict(TIMED_OUT, Retry(3, on=(ConnectionError,), on_timeout=on_timeout)).state == state


def test_a_released_attempt_does_not_count_as_a_failure():
    released = verdict(Outcome(OutcomeKind.RELEASED), Retry())
    assert (released.state, released.failed, released.due_at) == (RunState.SCHEDULED, False, 1000 * SECOND)


@pytest.mark.parametrize(("due_at", "again_at"), [(4, 5), (9, 9)])
def test_a_released_attempt_is_not_due_earlier_than_before(due_at, again_at):
    released = Outcome(OutcomeKind.RELEASED)
    found = decide(released, job(Retry()), failures=0, ended_at=5, chance=0.0, due_at=due_at)
    assert found.due_at == again_at


def test_an_at_most_once_run_is_never_armed_again_even_after_a_release():
    careful = job(guarantee=Guarantee.AT_MOST_ONCE)
    found = decide(Outcome(OutcomeKind.RELEASED), careful, failures=0, ended_at=5, chance=0.0, due_at=0)
    assert found.state is RunState.LOST


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Retry(0), "retry.attempts: expected a whole number from 1 to 1000, got 0"),
        (lambda: Retry("3"), "got '3'"),  # type: ignore[arg-type]
        (lambda: Retry(3, backoff="cubic"), "'exponential', 'linear', 'fixed', got 'cubic'"),  # type: ignore[arg-type]
        (lambda: Retry(3, delay="-1s"), "retry.delay: expected a length of time"),
        (lambda: Retry(3, max_delay=0), "retry.max_delay: expected a length of time above zero, got 0"),
        (lambda: Retry(3, on=(int,)), "retry.on: expected exception types"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_policy_is_refused_with_a_reason(make, words):
    with pytest.raises(DefinitionError) as refused:
        make()
    assert words in str(refused.value)


# ── a user's function decides ────────────────────────────────────────────────────────────────────────────────────


def never(attempt: int, types: tuple[str, ...], error: str) -> None:
    raise AssertionError("expected no call of the function")


def by(when: When, outcome: Outcome = FAILED, retry: Retry = NO_RETRY, failures: int = 0) -> Verdict:
    given = Retry(5) if retry is NO_RETRY else retry
    return decide(outcome, job(given), failures=failures, ended_at=1000 * SECOND, chance=0.5, due_at=0, when=when)


def test_a_function_gets_the_failure_and_returns_the_delay():
    asked = []

    def when(attempt: int, types: tuple[str, ...], error: str) -> str:
        asked.append((attempt, types[0], error))
        return "90s"

    found = by(when, failures=2)
    assert (found.state, found.due_at, found.failed) == (RunState.SCHEDULED, 1090 * SECOND, True)
    assert asked == [(3, "app.Boom", "boom")]


@pytest.mark.parametrize("answer", [0, timedelta(0)])
def test_a_function_may_request_an_immediate_retry(answer):
    assert by(lambda *_: answer).due_at == 1000 * SECOND


def test_a_function_may_refuse_a_retry():
    found = by(lambda *_: None)
    assert (found.state, found.reason, found.failed) == (RunState.DEAD, "not worth a retry", True)


def test_a_function_gets_a_time_out_as_timeout_error():
    assert by(lambda _, types, __: 1 if "builtins.TimeoutError" in types else None, TIMED_OUT).state == "scheduled"


@pytest.mark.parametrize(
    ("outcome", "retry"),
    [
        (FAILED, Retry(1)),
        (FAILED, Retry(3, on=(ConnectionError,))),
        (TIMED_OUT, Retry(3, on_timeout=False)),
        (Outcome(OutcomeKind.CANCELLED, "enough"), Retry(3)),
        (SUCCEEDED, Retry(3)),
    ],
)
def test_a_function_is_not_called_if_the_policy_decides(outcome, retry):
    assert by(never, outcome, retry).state != "scheduled"


@pytest.mark.parametrize("answer", ["soon", -1, float("nan"), [], "-3s"])
def test_an_answer_that_is_no_duration_is_an_error(answer):
    with pytest.raises(DefinitionError, match=r"retry\.when: expected"):
        by(lambda *_: answer)


def test_a_function_is_stored_by_its_name():
    assert Retry(3, when=never) == Retry(3, when=f"{__name__}.never")
    with pytest.raises(DefinitionError, match=r"retry\.when: expected a function, got 5"):
        Retry(3, when=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("earliest", "due"),
    [
        (0, 1060),  # none: only the backoff
        (1030, 1060),  # earlier than the backoff
        (1300, 1300),
        (1000 + 3600, 4600),
        (1000 + 86_400, 4600),  # at most an hour
    ],
)
def test_a_retry_waits_for_the_earliest_instant_that_the_server_allows(earliest, due):
    busy = FAILED._replace(not_before=earliest * SECOND)
    found = verdict(busy, Retry(3, delay="60s", backoff="fixed", jitter=False))
    assert (found.state, found.due_at) == (RunState.SCHEDULED, due * SECOND)


def test_an_earliest_instant_alone_causes_no_retry():
    assert verdict(FAILED._replace(not_before=2000 * SECOND), Retry()).state is RunState.DEAD
