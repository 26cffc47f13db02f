"""Foci: walks with only a few rules of the machine, so that rare calls meet often."""

from __future__ import annotations

import inspect

from hypothesis.stateful import RULE_MARKER

from tests.contract.machine import Machine

ALL = ""  # all rules

WORK = ("first_moment", "turn")

FOCI: dict[str, tuple[str, ...]] = {
    "after": (*WORK, "rewire", "submit", "end", "cancel", "delete"),
    "deletes": (*WORK, "delete", "put", "submit", "work", "end"),
    "edits": (*WORK, "put", "edit", "plan", "work", "end", "cancel"),
    "expiry": (*WORK, "expire", "submit", "reserve", "plan", "pause", "resume"),
    "gates": (*WORK, "second_moment", "submit", "arm_reserved", "reserve", "end", "expire"),
    "leases": (*WORK, "reserve", "arm_reserved", "release", "held", "arm", "finish"),
    "letters": (*WORK, "submit", "work", "end", "settle"),
    "moved": (*WORK, "except_slot", "cancel", "put", "pause", "resume", "plan"),
    "pauses": (*WORK, "pause", "resume", "plan", "submit", "work", "end"),
    "queues": (*WORK, "pause_queue", "share_queue", "edit", "reserve", "arm_reserved", "submit", "place"),
    "rates": (*WORK, "second_moment", "submit", "reserve", "arm_reserved", "plan", "edit", "expire"),
    "retention": (*WORK, "submit", "work", "end", "prune", "prune_the_rest", "plan"),
    "reaping": (*WORK, "stop", "reap", "register", "reserve", "work", "beat", "end"),
}


def focused(machine: type[Machine], focus: str) -> type[Machine]:
    """The machine with only the rules of a focus."""
    if focus == ALL:
        return machine
    rules = {name: getattr(method, RULE_MARKER, None) for name, method in inspect.getmembers(machine)}
    functions = {name: rule.function for name, rule in rules.items() if rule is not None}
    assert functions.keys() >= set(FOCI[focus]), f"{focus}: there is no rule {set(FOCI[focus]) - functions.keys()}"
    others = {name: function for name, function in functions.items() if name not in FOCI[focus]}  # no longer rules
    return type(f"{machine.__name__}On{focus.title()}", (machine,), {**others, "is_focused": True})
