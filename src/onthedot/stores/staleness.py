"""Windows that were computed at another time than they are recorded at: by a clock that is wrong, or long ago."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.errors import WindowStale
from onthedot.stores.values import Window

_OF_THE_PAST = frozenset({"missed", "paused", "edited"})


def check_past(window: Window, now: Micros) -> None:
    """`WindowStale` if slots are skipped for what is over, although they lie ahead: the caller's clock is wrong."""
    for skip in window.skips:
        if skip.reason in _OF_THE_PAST and skip.last > now:
            raise WindowStale(
                f"schedule {window.schedule_id!r}: slots up to {skip.last} cannot be {skip.reason} at {now}; "
                "read the store's clock and compute it again",
                watermark=window.start,
                now=now,
            )


def check_dropped(name: str, watermark: Micros, next_at: Micros | None, closing: Window | None, now: Micros) -> None:
    """`WindowStale` if a schedule is dropped with slots that nobody gave a fate: the window came too late, or not."""
    covered = closing is not None and closing.start == watermark
    left = closing.next_at if covered and closing is not None else next_at
    if left is not None and left <= now:
        raise WindowStale(
            f"schedule {name!r}: its slot at {left} has no fate yet; read the schedule and compute its window again",
            watermark=watermark,
            now=now,
        )
