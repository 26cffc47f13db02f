"""Everything that can be wrong with the parameters of a job, and with what its task refers to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onthedot.model.errors import did_you_mean
from onthedot.model.job import Job
from onthedot.model.task import Call, Param
from onthedot.runners.interpreters import doubts
from onthedot.runners.param_patterns import pattern_problem
from onthedot.runners.params import KINDS, check_params, names_in_environment, value_problems
from onthedot.runners.task_texts import NAME, TAKES, Place, Reference, What, is_meant_as_one, places, references

_MOST = 100

_INSTEAD: dict[What, str] = {
    "argument": "put a secret into env, which other users of the machine cannot read",
    "environment": "",
    "key": "name one secret",
    "header": "write what is no secret into the definition",
    "program": "name the program in the definition",
    "code": 'put it into env, and write "$NAME" in the code',
    "plain": 'put it into env, and write "$NAME" in a script',
}


def params_problems(job: Job, *, stored: bool = False) -> list[str]:
    """Every problem of the declarations, of the references, and of the arguments that the definition itself gives. What
    is only in doubt is no problem of a job that is `stored` already."""
    if isinstance(job.task, Call):
        if not job.params:
            return []
        return ["params: expected none for a Python handler, whose function says what it takes; leave them out"]
    problems = [*_declaration_problems(job.params, names_in_environment(job.task)), *_reference_problems(job)]
    if not problems and not stored:  # what is code for certain is told once
        problems += map(str, doubts(job.task, job.params))
    if any(param.kind not in KINDS or _pattern_problem(param) for param in job.params):
        return problems  # no value can be judged by such a one
    return [*problems, *_argument_problems(job)]


def _declaration_problems(params: tuple[Param, ...], in_lines: frozenset[str]) -> Iterable[str]:
    if len(params) > _MOST:
        yield f"params: expected at most {_MOST}, got {len(params)}"
    for name, count in Counter(param.name for param in params).items():
        if count > 1:
            yield f"params: expected each name once, got {name!r} {count} times"
        if not NAME.fullmatch(name):
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
    for place in places(job.task):
        if place.what == "plain":
            if is_meant_as_one(place.text):
                yield f"{place.name}: expected no '${{{{ … }}}}': nothing is filled in here; {_INSTEAD['plain']}"
            continue
        for reference in references(place.text):
            yield from _one_reference(place, reference, known)


def _one_reference(place: Place, reference: Reference, known: set[str]) -> Iterable[str]:
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


def _argument_problems(job: Job) -> Iterable[str]:
    """Runs of schedules, and those after other jobs, have what the definition gives and nothing more."""
    given = [({**job.args, **schedule.args}, True) for schedule in job.schedules]
    if job.after is not None or not given:
        given.append((dict(job.args), job.after is not None))
    found = (problem for arguments, complete in given for problem in check_params(job, arguments, complete=complete))
    return dict.fromkeys(f"args.{problem}" for problem in found)
