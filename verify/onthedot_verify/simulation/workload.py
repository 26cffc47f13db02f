"""`Workload`: jobs of all policies, and the actions of users and programs, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from onthedot.define.options import build_job
from onthedot.model.job import Backoff, Call, CatchUp, Job, Limit, Overlap, Rate, Retry
from onthedot.schedules import at, cron, every, gap
from onthedot_verify.simulation.actions import Action, draw_actions
from onthedot_verify.simulation.chance import Chance

SERVES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "a": {"queues": ("default", "fair", "mail"), "labels": ("gpu",)},
    "b": {"queues": ("default", "fair", "mail")},
    "c": {"queues": ("default", "fair")},
}
"""Workers serve different queues and labels. Only `c` is ever drained, so each job always has a worker."""

LONGEST = 20.0  # seconds: the longest that a handler runs


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a job's handler behaves: how long it takes, in seconds, and what part of its attempts fails.

    >>> from onthedot_verify.simulation import Behaviour
    >>> behaviours = {"mail": Behaviour(longest=0.2), "report": Behaviour(shortest=5, longest=20, failing=0.3)}
    """

    shortest: float = 0.0
    longest: float = 1.0
    failing: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """The program that each node runs, its later versions, and the actions.

    The simulator has a handler for each behaviour, under the job's name. Handlers take an argument `mark`, which tells
    the versions of a job apart in the history. A node that boots runs the version of that instant. An action `put`
    deploys it.

    >>> from dataclasses import replace
    >>> import onthedot as otd
    >>> from onthedot.model.job import Call, Job
    >>> from onthedot_verify.simulation import Action, Behaviour, Workload
    >>> mail = Job(name="mail", task=Call(handler="mail"), schedules=(otd.every("10s"),), args={"mark": 0})
    >>> workload = Workload(
    ...     jobs={"mail": mail},
    ...     behaviours={"mail": Behaviour(longest=2.0)},
    ...     edits=((30.0, replace(mail, args={"mark": 1})),),
    ...     actions=(Action(at=31, kind="put", node=0, job="mail"),),
    ... )
    """

    jobs: dict[str, Job]
    behaviours: dict[str, Behaviour]
    edits: tuple[tuple[float, Job], ...]  # (when the new program exists, one of its definitions)
    actions: tuple[Action, ...]
    serves: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)  # node → its queues and labels

    def version(self, seconds: float) -> dict[str, Job]:
        """The program's definitions at an instant.

        >>> workload.version(29)["mail"].args, workload.version(30)["mail"].args
        ({'mark': 0}, {'mark': 1})
        """
        return self.jobs | {job.name: job for at, job in self.edits if at <= seconds}


def generate(seed: str, *, start: datetime, nodes: int, seconds: float, jobs: int = 20, exact: bool = True) -> Workload:
    """A workload of about 500 starts an hour with 20 jobs. With `exact` some are under exactly_once."""
    chance = Chance(f"{seed} workload")
    defined = [_job(chance, number, start, seconds, exact=exact) for number in range(jobs)]
    program = {job.name: job for job, _ in defined}
    behaviours = {job.name: behaviour for job, behaviour in defined}
    edits = _edits(chance, program, seconds)
    puts = [(at, job.name) for at, job in edits]
    actions = draw_actions(seed, sorted(program), puts, nodes, seconds)
    return Workload(program, behaviours, edits, actions, SERVES)


_BACKOFFS: tuple[Backoff, ...] = ("fixed", "linear", "exponential")
_CATCH_UPS = (CatchUp("last"), CatchUp("none"), CatchUp("all", limit=5, window="10m"), CatchUp("all", limit=100))
_OVERLAPS = (
    *(None, Overlap("wait"), Overlap("wait", max_waiting=3), Overlap("wait", max_waiting=0), Overlap("skip")),
    *(Overlap("allow"), Overlap("allow", max_running=2), Overlap("replace"), Overlap("replace"), Overlap("skip")),
)
_CROWDED = (
    *(Overlap("wait", max_waiting=3), Overlap("replace"), Overlap("skip"), Overlap("allow", max_running=1)),
    Overlap("wait"),
)
_LIMITS = (Limit(1), Limit(1, key="tenant"), Limit(1, name="shared"), Limit(1, name="shared"), Limit(2))


_PLACES: dict[int, dict[str, Any]] = {
    0: {"priority": "critical"},
    1: {"assignment": "leader"},
    5: {"queue": "fair", "share": "tenant", "priority": "low"},
    6: {"queue": "mail", "priority": "low"},
    7: {"assignment": "leader", "priority": "high"},
    9: {"rate": Rate(2, "60s", burst=2)},
    10: {"queue": "fair", "share": "tenant"},
    12: {"labels": frozenset({"gpu"})},
    14: {"queue": "mail", "rate": Rate(3, "30s", name="shared")},
    15: {"queue": "fair", "share": "tenant", "rate": Rate(3, "30s", name="shared")},
    16: {"on": "all", "catch_up": CatchUp("last")},
    17: {"on": "all", "queue": "mail", "catch_up": CatchUp("none"), "overlap": Overlap("skip")},
    18: {"queue": "mail", "assignment": "leader"},
    19: {"priority": "high", "labels": frozenset({"gpu"})},
}
"""By the number of the job: its queue, workers, priority and rate."""

_EXACT = (2, 8, 13, 14)
"""The numbers of the jobs under exactly_once: a fixed delay, a crowded one, and two others."""


def _job(chance: Chance, number: int, start: datetime, seconds: float, *, exact: bool) -> tuple[Job, Behaviour]:
    """One job. Each fifth takes about as long as its interval, so its gates are closed most of the time."""
    name = f"job{number:02}"
    crowded = number % 5 == 3
    options: dict[str, Any] = {
        "name": name,
        "args": {"mark": 0, "tenant": "own"},
        "catch_up": chance.choice(_CATCH_UPS),
    }
    if crowded:
        options["schedules"] = [every(f"{18 + chance.whole(20)}s")]
        options["overlap"] = _CROWDED[(number // 5 + chance.whole(2)) % len(_CROWDED)]
    else:
        options["schedules"] = _schedules(chance, number, start, seconds)
        options["overlap"] = chance.choice(_OVERLAPS)
    if number % 4 == 1 or chance.fraction() < 0.2:
        options["concurrency"] = chance.choice(_LIMITS)
    failing = 0.0
    if number % 4 == 3:
        options["guarantee"] = "at_most_once"
    elif chance.fraction() < 0.5:
        options["retry"] = _retry(chance)
        failing = chance.between(0.05, 0.4)
    if chance.fraction() < 0.3:
        options["timeout"] = f"{chance.between(10, 25) if crowded else chance.between(0.5, 4):.2f}s"
    longest = LONGEST if crowded else chance.choice((0.0, 0.02, 1.0, 4.0, 5.0, 10.0))
    shortest = 8.0 if crowded else min(longest, chance.between(0, 1.0))
    options |= _PLACES.get(number, {})
    if exact and number in _EXACT:
        options["guarantee"] = "exactly_once"
    given = {option: value for option, value in options.items() if value is not None}
    return build_job(Call(handler=name), given), Behaviour(shortest, longest, failing)


def _retry(chance: Chance) -> Retry:
    """Some retries have a back-off that lasts beyond the next slot."""
    if chance.fraction() < 0.3:
        return Retry(2, backoff="fixed", delay="20s", max_delay="20s", jitter=False)
    return Retry(2 + chance.whole(3), backoff=chance.choice(_BACKOFFS), delay="2s", max_delay="10s")


def _schedules(chance: Chance, number: int, start: datetime, seconds: float) -> list[Any]:
    match number % 10:
        case 0:
            return [cron(f"*/{2 + chance.whole(3)} * * * *")]
        case 1:
            return [every(f"{80 + chance.whole(60)}s"), every(f"{120 + chance.whole(90)}s", id="second")]
        case 2:
            return [gap(f"{30 + chance.whole(120)}s")]
        case 3:
            return [cron(f"{chance.whole(60)} */{1 + chance.whole(3)} * * * *", tz="Europe/Berlin", id="named")]
        case 4:
            moments = sorted({round(chance.between(5, min(seconds, 3_600)), 1) for _ in range(4)})
            return [at(start + timedelta(seconds=moment)) for moment in moments]
        case 5:
            return []
        case _:
            return [every(f"{180 + chance.whole(300)}s")]


def _edits(chance: Chance, program: dict[str, Job], seconds: float) -> tuple[tuple[float, Job], ...]:
    """New versions of the program: another mark, and sometimes another interval under the same id, or one schedule
    less."""
    found = []
    newest = dict(program)
    when = chance.between(0, 600)
    mark = 0
    while when < seconds:
        mark += 1
        old = newest[chance.choice(sorted(newest))]
        changes: dict[str, Any] = {"args": {"mark": mark, "tenant": "own"}}
        if chance.fraction() < 0.5 and old.schedules and old.name[-1] not in "25":
            changes["schedules"] = _other_schedules(chance, old)
        newest[old.name] = replace(old, **changes)
        found.append((round(when, 3), newest[old.name]))
        when += chance.between(0, 600)
    return tuple(found)


def _other_schedules(chance: Chance, old: Job) -> tuple[Any, ...]:
    if len(old.schedules) > 1 and chance.fraction() < 0.5:
        return old.schedules[1:]
    return (*old.schedules[:-1], every(f"{30 + chance.whole(200)}s", id="edited"))
