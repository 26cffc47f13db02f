"""The pause in a file pauses or resumes a job only if that changes something."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onthedot.clock import to_micros
from onthedot.model.job import Pause
from onthedot.rules.pauses import pause_after, pause_change

NOW = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
LATER, EARLIER = datetime(2027, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
BY_HAND, MOVES = Pause(reason="by hand"), Pause(reason="it moves", until=LATER)


@pytest.mark.parametrize(
    ("says", "current", "change"),
    [
        (None, None, ""),
        (None, BY_HAND, ""),
        (Pause(), None, "pause"),
        (Pause(), BY_HAND, ""),
        (Pause(), MOVES, ""),
        (MOVES, None, "pause"),
        (MOVES, BY_HAND, "pause"),
        (MOVES, MOVES, ""),
        (Pause(reason="it moves"), MOVES, "pause"),  # removes the end
        (Pause(until=EARLIER), None, ""),
        (Pause(until=EARLIER), BY_HAND, ""),
        (Pause(on=False), None, ""),
        (Pause(on=False), MOVES, "resume"),
    ],
)
def test_a_pause_in_a_file_has_the_expected_effect(says: Pause | None, current: Pause | None, change: str):
    assert pause_change(says, current, NOW) == change
    after = pause_after(says, current, NOW)
    assert after == {"": current, "pause": says, "resume": None}[change]
    assert pause_change(says, after, NOW) == "", "expected no change from a second application"
