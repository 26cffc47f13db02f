"""Finds every problem of a job's definition, before anything is stored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter

from onthedot.define.arguments import encode_arguments
from onthedot.define.check_task import task_problems
from onthedot.model.after import cycle_error
from onthedot.model.duration import LONGEST
from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.model.job import FixedDelay, Guarantee, Job, Sleep, argument_keys
from onthedot.model.route import PRIORITIES
from onthedot.model.task import Call, Command, Level, Param, Steps
from onthedot.runners.injection import injection_risks
from onthedot.runners.param_patterns import pattern_problem
from onthedot.runners.params import KINDS, check_params, value_problems
from onthedot.runners.task_template import NAME as PARAM_NAME
from onthedot.runners.task_template import (
    TAKES,
    Reference,
    TaskText,
    What,
    is_meant_as_one,
    names_in_environment,
    references,
    texts_of,
)
from onthedot.schedules import check as check_schedule
from onthedot.schedules import schedule_id

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")
MOST_SCHEDULES = 100
MOST_PARENTS = 100
LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=-]{0,99}")
MOST_LABELS = 20
_MOST_PARAMS = 100

_INSTEAD: dict[What, str] = {
    "argument": "put a secret into env, which other users of the machine cannot read",
    "environment": "",
    "key": "name one secret",
    "header": "write what is no secret into the definition",
    "program": "name the program in the definition",
    "code": 'put it into env, and write "$NAME" in the code',
    "plain": 'put it into env, and write "$NAME" in a script',
}


def is_name(text: str) -> bool:
    """Return whether this can be the name of a job, a namespace or a queue."""
    return NAME.fullmatch(text) is not None


def check_job(job: Job, *, stored: bool = False) -> None:
    """Raise `DefinitionError` with every problem of the definition, if there is one. With `stored` the definition
    comes from a store: rules for new definitions do not apply."""
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
    """Sort the jobs of a program so that each comes after its parents; `DependencyCycle` if that is not possible.

    In this order they can be stored one by one, even if a stored job ran after one that now runs after it.
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
    """A warning if parents of this job are not among the `known` names (`namespace/name`); else "". It is no error: a
    parent may be stored later.

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
    """Problems of the task; if there are none, problems of the values that are filled into it."""
    return list(task_problems(job)) or list(params_problems(job, stored=stored))


def _argument_problems(job: Job) -> list[str]:
    """Problems of the job's arguments, with those of each schedule."""
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
    if not isinstance(given, Guarantee):  # a text that only equals a member is not a member
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
    """Problems of `exactly_once`. Only a handler in this process can share a transaction with the store."""
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
    """The isolation levels of a task of this kind."""
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


# ── parameters, and what the task refers to ──────────────────────────────────────────────────────────────────


def params_problems(job: Job, *, stored: bool = False) -> list[str]:
    """Return every problem of the declarations, of the references, and of the arguments that the definition itself
    gives. A doubtful case is not a problem of a job that is already `stored`."""
    if isinstance(job.task, Call):
        if not job.params:
            return []
        return ["params: expected none for a Python handler, whose function says what it takes; leave them out"]
    problems = [*_declaration_problems(job.params, names_in_environment(job.task)), *_reference_problems(job)]
    if not stored:
        problems += _key_problems(job)
    if not problems and not stored:  # a value that is certainly code is reported once
        problems += map(str, injection_risks(job.task, job.params))
    if any(param.kind not in KINDS or _pattern_problem(param) for param in job.params):
        return problems  # no value can be checked against such a declaration
    return [*problems, *_given_problems(job)]


def _key_problems(job: Job) -> Iterable[str]:
    """Problems of limits and shares by an argument that no run can have: all runs would count together."""
    names = {param.name for param in job.params}
    for option, key in argument_keys(job):
        if key not in names:
            yield f"{option}: expected a parameter of the job, got {key!r}" + (
                did_you_mean(key, names) or "; declare it in 'params'"
            )


def _declaration_problems(params: tuple[Param, ...], in_lines: frozenset[str]) -> Iterable[str]:
    if len(params) > _MOST_PARAMS:
        yield f"params: expected at most {_MOST_PARAMS}, got {len(params)}"
    for name, count in Counter(param.name for param in params).items():
        if count > 1:
            yield f"params: expected each name once, got {name!r} {count} times"
        if not PARAM_NAME.fullmatch(name):
            yield f"params: expected a name of letters, digits and '_', not a digit first, got {name!r}"
    for param in params:
        if param.kind not in KINDS:
            known = did_you_mean(str(param.kind), KINDS)
            yield f"params.{param.name}: expected a kind such as 'text', got {param.kind!r}{known}"
            continue
        problem = _pattern_problem(param)
        if problem:
            yield problem
            continue
        bare, one_line = Param(name=param.name, kind=param.kind, pattern=param.pattern), param.name in in_lines
        for choice in param.choices:
            yield from (f"params.choices of {one}" for one in value_problems(bare, choice, one_line=one_line))
        if param.default is not None:
            yield from (f"params.default of {one}" for one in value_problems(param, param.default, one_line=one_line))
            if param.required:
                yield f"params.{param.name}: expected no default, because it is required, got {param.default!r}"


def _pattern_problem(param: Param) -> str:
    if not param.pattern:
        return ""
    if param.kind != "text":
        return f"params.{param.name}: expected no pattern for the kind {param.kind!r}, got {param.pattern!r}"
    problem = pattern_problem(param.pattern)
    if not problem:
        return ""
    return f"params.{param.name}: expected a pattern such as 'v[0-9]+', got {param.pattern!r}: {problem}"


def _reference_problems(job: Job) -> Iterable[str]:
    known = {param.name for param in job.params}
    for place in texts_of(job.task):
        if place.what == "plain":
            if is_meant_as_one(place.text):
                yield f"{place.name}: expected no '${{{{ … }}}}': nothing is filled in here; {_INSTEAD['plain']}"
            continue
        for reference in references(place.text):
            yield from _one_reference(place, reference, known)


def _one_reference(place: TaskText, reference: Reference, known: set[str]) -> Iterable[str]:
    if reference.source is None:
        yield (
            f"{place.name}: expected '${{{{ params.name }}}}' or '${{{{ secrets.NAME }}}}', got {reference.written!r}; "
            "write '$${{' for '${{' itself"
        )
    elif reference.source not in TAKES[place.what]:
        yield f"{place.name}: expected no {reference.written!r} here; {_INSTEAD[place.what]}"
    elif reference.source == "params" and reference.name not in known:
        nearest = did_you_mean(reference.name, known) or "; declare it in 'params'"
        yield f"{place.name}: expected a parameter of the job, got {reference.name!r}{nearest}"


def _given_problems(job: Job) -> Iterable[str]:
    """Return problems of the given arguments: runs of schedules, and runs after other jobs, get only what the
    definition gives.
    """
    given = [({**job.args, **schedule.args}, True) for schedule in job.schedules]
    if job.after is not None or not given:
        given.append((dict(job.args), job.after is not None))
    found = (problem for arguments, complete in given for problem in check_params(job, arguments, complete=complete))
    return dict.fromkeys(f"args.{problem}" for problem in found)
