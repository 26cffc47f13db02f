"""A rate limit holds in every window of time, and no capacity is lost while runs wait."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.job import Call, Job, JobRecord, JobState, is_gated
from onthedot.model.rate import LAST, RateGate, Tat, grace, next_start
from onthedot.rules.gates import gates_of, rate_of

gates = st.builds(RateGate, st.just("r"), most=st.integers(1, 50), per=st.integers(1, 5_000), burst=st.integers(1, 5))


def spacing(gate: RateGate) -> Fraction:
    return Fraction(gate.per, gate.most)


def broken_window(starts: list[int], distance: Fraction, burst: int) -> tuple[int, int] | None:
    """Return a window (first, last) of width w with w / distance + burst starts or more; None if there is none."""
    starts = sorted(starts)
    for i, first in enumerate(starts):
        for j, last in enumerate(starts[i:], i):
            if j - i + 1 >= (last + 1 - first) / distance + burst:
                return first, last
    return None


def grant_all(gate: RateGate, asks: list[int]) -> list[int]:
    """Return the instants granted to runs that ask one after the other."""
    tat, instants = None, []
    for start in asks:
        instant, tat = next_start(gate, tat, start=start)
        instants.append(instant)
    return instants


@given(gates, st.lists(st.integers(-300, 1_000), min_size=1, max_size=60))
def test_the_rate_holds_in_every_window(gate, steps):
    """Runs ask at any instants, and the clock may go back between them."""
    asks = list(accumulate(steps))
    instants = grant_all(gate, asks)
    assert broken_window(instants, spacing(gate), gate.burst) is None
    assert all(instant >= start for instant, start in zip(instants, asks, strict=True))


@given(gates, st.integers(0, 10**15), st.integers(1, 200))
def test_waiting_runs_start_exactly_at_the_rate(gate, begin, count):
    """The n-th waiting run starts exactly when the rate allows it, rounded up to the microsecond."""
    instants = grant_all(gate, [begin] * count)
    exact = [begin + max(Fraction(0), (n - gate.burst + 1) * spacing(gate)) for n in range(count)]
    assert instants == [-(-instant.numerator // instant.denominator) for instant in exact]


@given(gates, st.integers(0, 10_000), st.integers(0, 300))
def test_a_whole_burst_may_start_after_an_idle_time(gate, begin, idle):
    """If the rate was idle for burst x T, a whole burst may start at once."""
    *_, last = grant_all(gate, [begin] * gate.burst)
    rested = last + -(-gate.burst * gate.per // gate.most) + idle
    instants = grant_all(gate, [begin] * gate.burst + [rested] * gate.burst)
    assert instants[gate.burst :] == [rested] * gate.burst


@given(gates, gates, st.lists(st.integers(0, 500), min_size=2, max_size=30), st.integers(1, 28))
def test_an_edited_rate_holds_and_counts_earlier_starts(before, after, steps, edited):
    """After the edit the new rate holds, and starts before the edit still count."""
    asks = list(accumulate(steps))
    tat, instants = None, []
    for place, start in enumerate(asks):
        instant, tat = next_start(before if place < edited else after, tat, start=start)
        instants.append(instant)
    assert broken_window(instants[edited:], spacing(after), after.burst) is None


def test_a_tat_keeps_its_fraction():
    third = RateGate("r", 3, 10)
    instant, tat = next_start(third, None, start=100)
    assert (instant, tat) == (100, Tat(103, 1, 3))
    instant, tat = next_start(third, tat, start=100)
    assert (instant, tat) == (104, Tat(106, 2, 3))
    assert next_start(RateGate("r", 7, 70), tat, start=100) == (107, Tat(116, 5, 7))  # 106 2/3, in sevenths: 106 5/7


def test_a_grant_may_be_used_only_for_a_short_time():
    gate = RateGate("r", 4, 10 * SECOND)
    tat = Tat(50 * SECOND)
    assert grace(gate) == 2_500_000
    assert next_start(gate, tat, start=0, granted_at=SECOND) == (SECOND, None)
    assert next_start(gate, tat, start=3 * SECOND, granted_at=SECOND) == (3 * SECOND, None)
    late = next_start(gate, tat, start=3_500_001, granted_at=SECOND)
    assert late == (50 * SECOND, Tat(52_500_000, 0, 4))


def test_no_instant_lies_after_the_last_one():
    rare = RateGate("r", 1, 36_525 * 86_400 * SECOND)
    assert grant_all(rare, [0] * 200)[-1] == LAST


# ── keys of rates ────────────────────────────────────────────────────────────────────────────────────────────────


def record(**options) -> JobRecord:
    return JobRecord(7, 1, Job(name="j", task=Call(handler="j"), **options), JobState.ACTIVE, 0, 0)


@pytest.mark.parametrize(
    ("rate", "key"),
    [
        (otd.Rate(10), "rate:job:7:"),
        (otd.Rate(10, key="tenant"), 'rate:job:7:"acme"'),
        (otd.Rate(10, key="nobody"), "rate:job:7:null"),
        (otd.Rate(10, name="mail"), "rate:name:mail:"),
        (otd.Rate(10, name="mail", key="tenant"), 'rate:name:mail:"acme"'),
    ],
)
def test_the_key_of_a_rate_depends_on_its_name_and_argument(rate, key):
    owner = record(rate=rate)
    assert rate_of(owner, arguments={"tenant": "acme"}) == RateGate(key, 10, 60 * SECOND, 1)
    assert gates_of(owner, target="", arguments={}) == ()
    assert is_gated(owner.job)


def test_without_a_rate_there_is_no_gate():
    assert rate_of(record(), arguments={}) is None
    assert not is_gated(record().job)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: otd.Rate(0), "rate: expected a whole number from 1"),
        (lambda: otd.Rate(5, "0s"), "rate.per: expected a length of time above zero"),
        (lambda: otd.Rate(5, burst=0), "rate.burst: expected a whole number from 1"),
        (lambda: otd.Rate(5, key=3), "rate.key: expected text, got 3"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_rate_is_refused_with_a_reason(make, words):
    with pytest.raises(otd.DefinitionError) as refused:
        make()
    assert words in str(refused.value)
