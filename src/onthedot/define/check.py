"""Everything that can be wrong with a definition, found at once, before anything is stored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter

from onthedot.define.arguments import encode_arguments
from onthedot.define.check_calls import call_problems
from onthedot.define.check_params import params_problems
from onthedot.define.check_task import task_problems
from onthedot.model.after import cycle_error
from onthedot.model.duration import LONGEST
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Call, FixedDelay, Guarantee, Job, Sleep
from onthedot.model.route import PRIORITIES
from onthedot.model.task import Command, Level, Steps
from onthedot.schedules import check as check_schedule
from onthedot.schedules import schedule_id

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")
MOST_SCHEDULES = 100
MOST_PARENTS = 100
LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=-]{0,99}")
MOST_LABELS = 20


def is_name(text: str) -> bool:
    """Whether a job, a namespace or a queue can be called so."""
    return NAME.fullmatch(text) is not None


def check_job(job: Job, *, stored: bool = False) -> None:
    """`DefinitionError` with every problem of the definition; nothing if there is none. With `stored` the definition is
    one that a store has: rules for new ones only do not count."""
    problems = [
        *_name_problems(job),
        *_schedule_problems(job),
        *_after_problems(job),
        *_guarantee_problems(job),
        *_placement_problems(job),
        *_length_problems("timeout", job.timeout),
        *_filled_task_problems(job, stored=stored),
    ]
    if isinstance(job.task, Sleep) and not timedelta(0) <= job.task.duration <= LONGEST:
        problems.append(f"sleep: expected a length of time from zero up, got {job.task.duration}")
    if not job.owner.isprintable():
        problems.append(f"owner: expected text that can be printed, got {job.owner!r}")
    if job.max_recoveries < 0:
        problems.append(f"max_recoveries: expected zero or more, got {job.max_recoveries}")
    problems.extend(_argument_problems(job))
    if problems:
        raise DefinitionError(problems, subject=f"job {job.name!r}")


def parents_first(jobs: Iterable[Job]) -> list[Job]:
    """The jobs of a program, none before one that it runs after; `DependencyCycle` if there is no such order.

    In this order they can be stored one by one, also where a stored job ran after one that now runs after it.
    """
    known = {(job.namespace, job.name): job for job in jobs}
    graph = {
        key: [(job.namespace, parent) for parent in job.after.parents] if job.after else []
        for key, job in known.items()
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise cycle_error([name for _, name in error.args[1]]) from None
    return [known[key] for key in order if key in known]


def missing_parents(job: Job, known: Collection[str], where: str = "is stored") -> str:
    """What to warn of if jobs that this one runs after are not among the `known` names (`namespace/name`); else "".
    No mistake: a parent may be stored later.

    >>> from onthedot.model.after import After
    >>> from onthedot.model.task import Noop
    >>> missing_parents(Job(name="report", task=Noop(), after=After("load", "clean")), {"default/clean"})
    "after: no job 'load' is stored; it does not start before there is one"
    """
    parents = () if job.after is None else job.after.parents
    missing = [parent for parent in parents if f"{job.namespace}/{parent}" not in known]
    if job.after is None or not missing:
        return ""
    names = ", ".join(map(repr, missing))
    if job.after.any and len(missing) < len(parents):
        return f"after: no job {names} {where}; it starts after the others only"
    return f"after: no job {names} {where}; it does not start before there is one"


def _filled_task_problems(job: Job, *, stored: bool) -> list[str]:
    """Of what is to be done; and, if that has the right shape, of what is to be filled into it."""
    return [*task_problems(job), *call_problems(job.task)] or list(params_problems(job, stored=stored))


def _argument_problems(job: Job) -> list[str]:
    """Of the job's own arguments, and of those that runs of each schedule get."""
    try:
        encode_arguments(job.args, subject="")
        for schedule in job.schedules:
            encode_arguments(schedule.args, subject="")
            encode_arguments({**job.args, **schedule.args}, subject="")
    except DefinitionError as error:
        return list(error.problems)
    return []


def _name_problems(job: Job) -> list[str]:
    return [
        f"{what}: expected letters, digits, '_', '-', '.' or ':', at most 100 of them, got {value!r}"
        for what, value in (("name", job.name), ("namespace", job.namespace), ("queue", job.queue))
        if not NAME.fullmatch(value)
    ]


def _schedule_problems(job: Job) -> list[str]:
    problems: list[str] = []
    for schedule in job.schedules:
        try:
            check_schedule(schedule)
        except DefinitionError as error:
            problems.extend(error.problems)
    if problems:
        return problems
    if len(job.schedules) > MOST_SCHEDULES:
        return [f"schedules: expected at most {MOST_SCHEDULES}, got {len(job.schedules)}"]
    ids = Counter(schedule_id(schedule) for schedule in job.schedules)
    return [
        f"schedules: expected each to be there once, got {count} with id {name!r}; remove one, or give them ids"
        for name, count in ids.items()
        if count > 1
    ]


def _after_problems(job: Job) -> list[str]:
    if job.after is None:
        return []
    problems = [
        f"after: expected the names of jobs, got {parent!r}"
        for parent in job.after.parents
        if not NAME.fullmatch(parent)
    ]
    if job.name in job.after.parents:
        problems.append(f"after: expected other jobs, got {job.name!r} itself")
    if len(job.after.parents) > MOST_PARENTS:
        problems.append(f"after: expected at most {MOST_PARENTS} jobs, got {len(job.after.parents)}")
    return problems


def _guarantee_problems(job: Job) -> list[str]:
    given: object = job.guarantee
    if not isinstance(given, Guarantee):  # text that is equal to one is none
        return [f"guarantee: expected a Guarantee such as Guarantee.AT_MOST_ONCE, got {given!r}"]
    if job.guarantee is Guarantee.EXACTLY_ONCE:
        return _transaction_problems(job)
    if job.guarantee is not Guarantee.AT_MOST_ONCE or job.retry.attempts == 1:
        return []
    return [
        f"retry.attempts: expected 1 with guarantee 'at_most_once', got {job.retry.attempts}; "
        "a retry is a second execution: drop it, or choose 'at_least_once'"
    ]


def _transaction_problems(job: Job) -> list[str]:
    """Only a handler in this process can share a transaction with the store."""
    problems = []
    if not isinstance(job.task, Call):
        problems.append(
            "guarantee: expected 'at_least_once' or 'at_most_once' for what is no Python handler, got 'exactly_once'; "
            "it has no ctx.transaction()"
        )
    if job.isolation == "process":
        problems.append(
            "isolation: expected 'none' with guarantee 'exactly_once', got 'process'; a transaction cannot cross to "
            "another process"
        )
    return problems


def _placement_problems(job: Job) -> list[str]:
    problems = [
        f"{what}: expected one of {', '.join(map(repr, choices))}, got {value!r}"
        for what, value, choices in (
            ("priority", job.priority, PRIORITIES),
            ("on", job.on, ("any", "all")),
            ("assignment", job.assignment, ("worker", "leader")),
            ("isolation", job.isolation, _levels(job)),
        )
        if value not in choices
    ]
    problems += [
        f"labels: expected letters, digits, '_', '-', '.', ':', '/' or '=', at most 100 of them, got {label!r}"
        for label in sorted(job.labels)
        if not LABEL.fullmatch(label)
    ]
    if len(job.labels) > MOST_LABELS:
        problems.append(f"labels: expected at most {MOST_LABELS}, got {len(job.labels)}")
    if job.on == "all" and any(isinstance(schedule, FixedDelay) for schedule in job.schedules):
        problems.append("on: expected 'any' with a fixed delay, got 'all'; its nodes would end at different times")
    if job.on == "all" and job.assignment == "leader":
        problems.append("assignment: expected 'worker' with on='all', got 'leader'; each node has its own run already")
    return problems


def _levels(job: Job) -> tuple[Level, ...]:
    """How a job of this kind can be kept apart."""
    match job.task:
        case Call():
            return ("none", "process")
        case Command() | Steps():
            return ("none", "user", "sandbox")
        case _:
            return ("none",)


def _length_problems(what: str, length: timedelta | None) -> list[str]:
    if length is None or timedelta(0) < length <= LONGEST:
        return []
    return [f"{what}: expected a length of time above zero, got {length}"]
