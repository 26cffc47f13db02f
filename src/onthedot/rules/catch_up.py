"""Decides which slots become runs, until when each may still start, and which are missed.

A run's expiry is set when it is planned, so one rule serves outages of planners and of workers alike:

    expires = max(slot + late_after, min(slot + window, the N-th slot after it))

With jitter every slot here stands for the instant at which its run is due.
`none` is N = 0. `last` (the default) is N = 1 without a window: a slot may start until the next slot comes.
`all` uses both limits. Where no N-th slot exists, the window alone counts; with `last`, the slot never expires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from onthedot.clock import Micros
from onthedot.model.duration import micros
from onthedot.model.job import CatchUp


@dataclass(slots=True)
class Fates:
    """The fates of the slots in (start, end], and the first slot after `end`."""

    end: Micros
    next_at: Micros | None = None
    runs: list[tuple[Micros, Micros | None]] = field(default_factory=list)  # (slot, expires)
    missed: list[tuple[Micros, Micros, int]] = field(default_factory=list)  # (first, last, how many)


def expires(slot: Micros, later: Micros | None, catch_up: CatchUp, late_after: Micros) -> Micros | None:
    """Return the instant after which a slot must not start; `later` is the N-th slot after it."""
    match catch_up.mode:
        case "none":
            return slot + late_after
        case "last":
            return None if later is None else max(slot + late_after, later)
        case "all":
            end = slot + micros(catch_up.window)
            return max(slot + late_after, end if later is None else min(end, later))


def depth(catch_up: CatchUp) -> int:
    """Return N: the expiry of a slot is at the N-th slot after it."""
    return {"none": 0, "last": 1, "all": catch_up.limit}[catch_up.mode]


def _as_it_is(slot: Micros) -> Micros:
    return slot


def fates(
    slots: Iterator[Micros],
    catch_up: CatchUp,
    *,
    until: Micros,
    now: Micros,
    late_after: Micros,
    most: int,
    due_at: Callable[[Micros], Micros] = _as_it_is,
) -> Fates:
    """Decide the fates of at most `most` ascending slots up to `until`. `due_at` returns the due instant of a slot's
    run, which is never before the slot.

    The work is bounded and always makes progress. After a long outage the caller calls again from `end`: a year of
    missed seconds costs many small steps instead of one very long one.
    """
    ahead: deque[Micros] = deque()
    look = depth(catch_up)
    found = Fates(end=until)
    last_was_missed = False
    for _ in range(most):
        _fill(ahead, slots, look + 1)
        if not ahead or ahead[0] > until:
            break
        slot = ahead[0]
        later = due_at(ahead[look]) if look < len(ahead) else None
        expiry = expires(due_at(slot), later, catch_up, late_after)
        ahead.popleft()
        if expiry is None or expiry > now:
            found.runs.append((slot, expiry))
            last_was_missed = False
        elif last_was_missed:
            first, _, count = found.missed[-1]
            found.missed[-1] = (first, slot, count + 1)
        else:
            found.missed.append((slot, slot, 1))
            last_was_missed = True
        found.end = slot
    _fill(ahead, slots, 1)
    found.next_at = ahead[0] if ahead else None
    if found.next_at is None or found.next_at > until:
        found.end = until
    return found


def _fill(ahead: deque[Micros], slots: Iterator[Micros], size: int) -> None:
    while len(ahead) < size:
        slot = next(slots, None)
        if slot is None:
            return
        ahead.append(slot)
