"""One instant."""

from __future__ import annotations

from datetime import UTC, datetime

from onthedot.clock import to_micros
from onthedot.schedules import at, count_between, in_, next_after, slots

T = to_micros(datetime(2026, 1, 1, tzinfo=UTC))


def test_at_is_its_instant_until_it_has_passed():
    moment = at("2026-01-01T00:00Z")
    assert next_after(moment, T - 1, origin=0) == T
    assert next_after(moment, T, origin=0) is None
    assert list(slots(moment, 0, origin=0)) == [T]


def test_an_at_before_its_origin_is_still_a_slot():
    assert next_after(at("2026-01-01T00:00Z"), T - 1, origin=T + 10**9) == T


def test_in_counts_from_the_origin():
    soon = in_("10m")
    assert next_after(soon, T, origin=T) == T + 600_000_000
    assert next_after(soon, T + 600_000_000, origin=T) is None
    assert list(slots(soon, 0, origin=T)) == [T + 600_000_000]
    assert count_between(soon, T, T + 600_000_000, origin=T) == 1
    assert count_between(soon, T, T + 599_999_999, origin=T) == 0


def test_in_beyond_the_calendar_is_never():
    late = to_micros(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    assert next_after(in_("10m"), late, origin=late) is None
