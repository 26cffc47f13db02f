"""Outages of all nodes, of the store and of all seats, and delayed edits, each with jobs of short intervals.

A job that runs every three seconds for an hour would cost more than all other jobs. So these jobs have schedules with a
start and an end: each lasts from a few seconds before an outage to some seconds after it.

    slots      | | | | | | | | | | | | | |
    outage             ████████████
    overdue            | | | | | |            together, after the outage
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from onthedot.define.options import build_job
from onthedot.model.job import Call, CatchUp, Every, Job, Limit, Overlap
from onthedot.schedules import every
from onthedot_verify.simulation.actions import Action
from onthedot_verify.simulation.chance import Chance, keyed
from onthedot_verify.simulation.faults import Fault
from onthedot_verify.simulation.workload import Behaviour, Workload

_OVERLAPS = (
    (Overlap("wait"), Overlap("wait", max_waiting=3), Overlap("wait", max_waiting=0)),
    (Overlap("allow", max_running=2), Overlap("allow"), Overlap("allow", max_running=1)),
    (Overlap("skip"),),
    (Overlap("replace"),),
)
_CATCH_UPS = (
    (CatchUp("none"),),
    (CatchUp("last"),),
    (CatchUp("all", limit=100), CatchUp("all", limit=5, window="10m"), CatchUp("all", limit=100, window="20s")),
)
CELLS = tuple((overlaps, catch_ups) for overlaps in _OVERLAPS for catch_ups in _CATCH_UPS)
"""Each overlap with each catch-up, with variants."""

_KINDS = ("crash", "freeze", "cut", "crash", "freeze", "cut", "full")
_BEFORE, _AFTER = 9.0, 16.0  # seconds: how long a schedule lasts before an outage, and after it
_FILLER, _FILLERS = "filler", 28


@dataclass(slots=True)
class Outages:
    """The drawn faults, and what they add to the workload."""

    faults: list[Fault] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    edits: list[tuple[float, Job]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def added_to(self, work: Workload) -> Workload:
        """The workload with these jobs, edits and actions."""
        return replace(
            work,
            jobs=work.jobs | self.jobs,
            behaviours=work.behaviours | self.behaviours,
            edits=tuple(sorted([*work.edits, *self.edits], key=lambda edit: edit[0])),
            actions=tuple(sorted([*work.actions, *self.actions], key=lambda action: action.at)),
        )


def draw_outages(seed: str, *, start: datetime, nodes: int, seconds: float, every: float) -> Outages:
    """Draw an outage every so many seconds. Each third one is a delayed edit instead. The source of chance is its
    own."""
    chance, found = Chance(f"{seed} outages"), Outages()
    schedules: defaultdict[int, list[Every]] = defaultdict(list)  # by the index in CELLS
    cell = int(keyed(seed, "first cell") * len(CELLS))
    at, number = chance.between(30, every), 0
    while at < seconds:
        moment = round(at, 3)
        if number % 3 == 2:
            _held_edit(chance, found, number, moment, start, nodes)
        else:
            length = round(chance.between(5, 60), 3)
            length = _outage(chance, found, moment, length, nodes)
            for _ in range(2):
                interval = chance.choice((2, 3, 4, 5))
                schedules[cell].append(_while(start, moment, length, interval, f"outage{number}"))
                if chance.fraction() < 0.3:
                    schedules[cell].append(_while(start, moment + 0.5, length, 7 - interval, f"also{number}"))
                cell = (cell + 1) % len(CELLS)
        number += 1
        at += chance.between(0.5 * every, 1.5 * every)
    for place in sorted(schedules):
        _add_cell(chance, found, place, schedules[place])
    return found


def _while(start: datetime, at: float, length: float, interval: int, name: str = "") -> Every:
    """A schedule for the time of an outage."""
    first, last = start + timedelta(seconds=at - _BEFORE), start + timedelta(seconds=at + length + _AFTER)
    return every(f"{interval}s", start=first, end=last, id=name)


def _outage(chance: Chance, found: Outages, at: float, length: float, nodes: int) -> float:
    """Take away all nodes or the store, or fill all seats. Returns how long it lasts."""
    kind = chance.choice(_KINDS)
    if kind == "full":
        name = _FILLER
        options = {"overlap": "allow", "priority": "critical"}
        found.jobs[name], found.behaviours[name] = _job(name, options), Behaviour(7.0, 12.0)
        found.actions += [Action(at + n / 100, "submit", n % nodes, name) for n in range(_FILLERS)]
        return 12.0
    for node in range(nodes):
        together = 0.0 if kind == "cut" else chance.between(0, 0.5)  # one store, and many nodes
        later = 0.0 if kind == "cut" else chance.between(0, 2)
        found.faults.append(Fault(round(at + together, 3), kind, node, round(length + later, 3)))
    return length


def _add_cell(chance: Chance, found: Outages, place: int, schedules: list[Every]) -> None:
    overlaps, catch_ups = CELLS[place]
    name = f"overdue{place:02}"
    options: dict[str, Any] = {"schedules": schedules, "overlap": chance.choice(overlaps)}
    options["catch_up"] = chance.choice(catch_ups)
    if chance.fraction() < 0.6:
        options["concurrency"] = Limit(1, name="overdue")
    found.jobs[name] = _job(name, options)
    found.behaviours[name] = Behaviour(0.1, chance.choice((0.4, 1.5, 6.0)))


def _held_edit(chance: Chance, found: Outages, number: int, at: float, start: datetime, nodes: int) -> None:
    """Edit a job of a short interval, move a slot, pause and resume it. Each of these calls is delayed."""
    name, length = f"held{number:02}", 30.0
    first, second = chance.choice(((2, 3), (3, 2), (2, 4), (4, 2), (3, 4)))
    options: dict[str, Any] = {
        "overlap": chance.choice(("allow", "wait")),
        "catch_up": chance.choice(("last", "none")),
    }
    found.jobs[name] = _job(name, options | {"schedules": [_while(start, at, length, first)]})
    found.behaviours[name] = Behaviour(0.1, 1.0)
    other = {"schedules": [_while(start, at, length, second)], "args": {"mark": 5_000 + number, "tenant": "own"}}
    found.edits.append((at, _job(name, options | other)))
    node = chance.whole(nodes)
    found.actions.append(Action(at, "put", node, name))
    found.actions.append(Action(round(at + 12, 3), "pause", node, name))
    found.actions.append(Action(round(at + 16, 3), "resume", node, name, missed=chance.choice(("none", "last", "all"))))
    found.actions.append(Action(round(at + 7, 3), "move", node, name, delay=round(chance.between(0.5, 6), 3)))
    for op, when in (("put_job", at), ("move_slot", at + 7), ("pause_job", at + 12), ("resume_job", at + 16)):
        amount = round(chance.between(0.5, 8), 3)
        found.faults += [Fault(round(when - 0.2, 3), "held", n, 0.001, amount, op=op) for n in range(nodes)]


def _job(name: str, options: Mapping[str, Any]) -> Job:
    given = {"name": name, "args": {"mark": 0, "tenant": "own"}} | dict(options)
    return build_job(Call(handler=name), given)
