"""`RULES`: all rules by their number, and `check`, which applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot_verify.checker import (
    control,
    dependencies,
    effects,
    executions,
    gates,
    leases,
    liveness,
    overdue,
    placement,
    promises,
    shards,
    slots,
)
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History

Finding = tuple[int, str]
"""(seq of the event that shows the violation, description)"""

Rule = Callable[[History], Iterator[Finding]]


class Violation(NamedTuple):
    """A broken promise: the rule, and the line of the history that shows it.

    >>> from onthedot_verify.checker import Violation
    >>> print(Violation("S9", 42, "run 7 started twice"))
    S9 at line 42: run 7 started twice
    """

    rule: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"{self.rule} at line {self.seq}: {self.what}"


def _both(first: Rule, second: Rule) -> Rule:
    """One rule of two functions."""

    def rule(history: History) -> Iterator[Finding]:
        yield from first(history)
        yield from second(history)

    rule.__doc__ = f"{first.__doc__} {second.__doc__}"
    return rule


RULES: dict[str, Rule] = {
    "S1": slots.s1_unique,
    "S2": slots.s2_no_phantom,
    "S3": promises.s3_never_early,
    "S4": slots.s4_no_silent_miss,
    "S5": _both(leases.s5_one_holder, gates.s5_limits),
    "S6": _both(leases.s6_order, gates.s6_fences),
    "S7": leases.s7_fenced_finish,
    "S8": leases.s8_terminal_absorbs,
    "S9": promises.s9_at_most_once,
    "S10": effects.s10_exactly_once,
    "S11": gates.s11_overlap,
    "S12": _both(promises.s12_terms, shards.s12_layouts),
    "S13": control.s13_cancel,
    "S14": control.s14_pause,
    "S15": promises.s15_revision,
    "S16": promises.s16_bounded,
    "S17": control.s17_retention,
    "S18": promises.s18_durable,
    "S19": promises.s19_idempotent,
    "S21": placement.s21_queues,
    "S22": placement.s22_places,
    "S23": placement.s23_every_node,
    "S24": placement.s24_rates,
    "S25": placement.s25_urgency,
    "S26": dependencies.s26_followers,
    "S27": shards.s27_zone_data,
    "S28": overdue.s28_overdue,
    "L1": liveness.l1_terminal,
    "L2": shards.l2_leaders,
    "L3": liveness.l3_on_time,
    "L4": liveness.l4_no_orphans,
    "L6": shards.l6_passes,
    "L7": shards.l7_settled,
    "L8": dependencies.l8_followers,
    "matching by key": executions.by_key,
    "matching by time": executions.by_time,
    "no bugs": promises.no_bugs,
}
"""S20 (nothing is left of a process) and L5 (a stop within its grace) need real processes: see `tests/processes`."""


def check(events: list[Event], *, only: Iterable[str] | None = None) -> list[Violation]:
    """Return each violation of the rules (default: all of them) in a history.

    >>> from onthedot_verify.checker import Journal, check
    >>> journal = Journal(lambda: (0, 0, "a#1"))
    >>> journal.add("worker", "broken", error="ValueError: the planner has ended")
    >>> check(journal.events, only=["S1", "S9"])
    []
    >>> for violation in check(journal.events):
    ...     print(violation)
    no bugs at line 1: a service of a#1 broke: ValueError: the planner has ended
    """
    history = History(events)
    names = list(RULES if only is None else only)
    for name in names:
        if name not in RULES:
            raise DefinitionError(f"only: expected names of RULES, got {name!r}{did_you_mean(name, RULES)}")
    return [Violation(name, seq, what) for name in names for seq, what in RULES[name](history)]
