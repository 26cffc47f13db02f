"""`shrink`: finds the few of many faults that cause a failure, by delta debugging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from onthedot_verify.simulation.cluster import Outcome, Scenario
from onthedot_verify.simulation.faults import CALM, Fault

T = TypeVar("T")
Run = Callable[[Scenario], Outcome]


def ddmin(items: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A sublist that still fails, and passes without any one chunk of it, down to single items.

    >>> ddmin(list(range(20)), lambda kept: 3 in kept and 17 in kept)
    [3, 17]
    """
    pieces = 2
    while items:
        size = max(1, len(items) // pieces)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(items), 2 * pieces)
    return items


def shrink(outcome: Outcome, run: Run, *, tell: Callable[[str], object] = str) -> Outcome:
    """The shortest scenario found that breaks one of the same rules: first in calm weather and with less time, then
    with fewer faults."""
    rules = {violation.rule for violation in outcome.violations}
    best = outcome
    tries = 0

    def still(scenario: Scenario) -> bool:
        nonlocal best, tries
        tries += 1
        found = run(scenario)
        if not rules & {violation.rule for violation in found.violations}:
            return False
        best = found
        tell(f"try {tries}: {len(scenario.faults or ())} faults, {found.violations[0]}")
        return True

    first = min(v.seq for v in outcome.violations if v.rule in rules)
    seconds = (outcome.events[first - 1]["t_mono"] - outcome.events[0]["t_mono"]) / 1_000_000
    early = tuple(fault for fault in outcome.scenario.faults or () if fault.at <= seconds)
    still(replace(best.scenario, faults=early))
    still(replace(best.scenario, weather=CALM))
    if seconds < best.scenario.faulty_seconds - 60:
        still(replace(best.scenario, minutes=(seconds + 60 + 420) / 60))

    def fails(faults: list[Fault]) -> bool:
        return still(replace(best.scenario, faults=tuple(faults)))

    ddmin(list(best.scenario.faults or ()), fails)
    return best
