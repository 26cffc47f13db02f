"""What the cluster is asked to do, as data: jobs of all policies, submits, edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from onthedot.define.options import build_job
from onthedot.job import Backoff, Call, CatchUp, Job, Retry
from onthedot.schedules import at, cron, every, gap
from onthedot.testing.simulation.chance import Chance

LONGEST = 5.0  # seconds: how long a handler runs at the most


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a job's handler behaves: how long it takes, and how often it fails. In seconds, and in parts of one."""

    shortest: float = 0.0
    longest: float = 1.0
    failing: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person or a program asks of a node, `at` seconds after the beginning.

    kind: submit (with `delay`), put (the job's next definition), read (a run that was submitted before).
    """

    at: float
    kind: str
    node: int
    job: str
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """The program that every node runs, its later versions, and what is asked of it."""

    jobs: dict[str, Job]
    behaviours: dict[str, Behaviour]
    edits: tuple[tuple[float, Job], ...]  # (when the new program is there, a definition in it)
    actions: tuple[Action, ...]

    def version(self, seconds: float) -> dict[str, Job]:
        """The program's definitions at some moment."""
        return self.jobs | {job.name: job for at, job in self.edits if at <= seconds}


def generate(seed: str, *, start: datetime, nodes: int, seconds: float, jobs: int = 20) -> Workload:
    """A workload of about 500 starts an hour with 20 jobs."""
    chance = Chance(f"{seed} workload")
    defined = [_job(chance, number, start, seconds) for number in range(jobs)]
    program = {job.name: job for job, _ in defined}
    behaviours = {job.name: behaviour for job, behaviour in defined}
    edits = _edits(chance, program, seconds)
    return Workload(program, behaviours, edits, _actions(chance, program, edits, nodes, seconds))


_BACKOFFS: tuple[Backoff, ...] = ("fixed", "linear", "exponential")
_CATCH_UPS = (CatchUp("last"), CatchUp("none"), CatchUp("all", limit=5, window="10m"), CatchUp("all", limit=100))


def _job(chance: Chance, number: int, start: datetime, seconds: float) -> tuple[Job, Behaviour]:
    name = f"job{number:02}"
    options: dict[str, Any] = {"name": name, "args": {"mark": 0}, "catch_up": chance.choice(_CATCH_UPS)}
    options["schedules"] = _schedules(chance, number, start, seconds)
    failing = 0.0
    if number % 4 == 3:
        options["guarantee"] = "at_most_once"
    elif chance.fraction() < 0.5:
        backoff: Backoff = chance.choice(_BACKOFFS)
        options["retry"] = Retry(2 + chance.whole(3), backoff=backoff, delay="2s", max_delay="10s")
        failing = chance.between(0.05, 0.4)
    if chance.fraction() < 0.3:
        options["timeout"] = f"{chance.between(0.5, 4):.2f}s"
    longest = chance.choice((0.0, 0.02, 1.0, 4.0, LONGEST, LONGEST))
    behaviour = Behaviour(min(longest, chance.between(0, 1.0)), longest, failing)
    return build_job(Call(handler=name), options), behaviour


def _schedules(chance: Chance, number: int, start: datetime, seconds: float) -> list[Any]:
    match number % 10:
        case 0:
            return [cron(f"*/{1 + chance.whole(3)} * * * *")]
        case 1:
            return [every(f"{20 + chance.whole(60)}s"), every(f"{60 + chance.whole(90)}s", id="second")]
        case 2:
            return [gap(f"{15 + chance.whole(120)}s")]
        case 3:
            return [cron(f"{chance.whole(60)} */{1 + chance.whole(3)} * * * *", tz="Europe/Berlin", id="named")]
        case 4:
            moments = sorted(chance.between(5, min(seconds, 3_600)) for _ in range(4))
            return [at(start + timedelta(seconds=round(moment, 1))) for moment in moments]
        case 5:
            return []
        case _:
            return [every(f"{60 + chance.whole(300)}s")]


def _edits(chance: Chance, program: dict[str, Job], seconds: float) -> tuple[tuple[float, Job], ...]:
    """New versions of the program: another mark, sometimes another rhythm under the same id, or one schedule less."""
    found = []
    newest = dict(program)
    when = chance.between(0, 600)
    mark = 0
    while when < seconds:
        mark += 1
        old = newest[chance.choice(sorted(newest))]
        changes: dict[str, Any] = {"args": {"mark": mark}}
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


def _actions(
    chance: Chance, program: dict[str, Job], edits: tuple[tuple[float, Job], ...], nodes: int, seconds: float
) -> tuple[Action, ...]:
    found = [Action(at + chance.between(0, 20), "put", chance.whole(nodes), job.name) for at, job in edits]
    names = sorted(program)
    when = chance.between(0, 120)
    while when < seconds:
        delay = chance.choice((0.0, 0.0, chance.between(0, 5), chance.between(5, 60)))
        found.append(Action(round(when, 3), "submit", chance.whole(nodes), chance.choice(names), round(delay, 3)))
        found.append(Action(round(when + chance.between(0, 60), 3), "read", chance.whole(nodes), ""))
        when += chance.between(0, 120)
    return tuple(sorted(found, key=lambda action: (action.at, action.kind, action.job)))
