"""Writes jobs in the words of files and bodies. `read_job` reads them back as the same job.

It uses short forms that lose nothing, and leaves out defaults. `written` gives plain data; `yaml_file` makes a file of
stored jobs, with a comment for everything that a file cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from onthedot.define.job_reader import read_job
from onthedot.define.key_readers import MOST_REASON
from onthedot.define.yaml_text import WrongText, yaml_text
from onthedot.model.after import After
from onthedot.model.duration import format_duration
from onthedot.model.job import (
    CatchUp,
    Cron,
    FixedDelay,
    Guarantee,
    In,
    Job,
    JobRecord,
    JobState,
    Json,
    Limit,
    Overlap,
    Pause,
    Rate,
    Retry,
    Schedule,
    job_name,
)
from onthedot.model.route import DEFAULT_QUEUE
from onthedot.model.task import (
    Bounds,
    Call,
    Command,
    Container,
    Http,
    Mount,
    Noop,
    Param,
    Sleep,
    Source,
    Step,
    Steps,
    Task,
)
from onthedot.rules.pauses import pause_of
from onthedot.schedules import to_text
from onthedot.schedules.cron_parser import is_four_fields
from onthedot.schedules.instants import format_instant

Written = dict[str, Json]

_EXIT_CODE = re.compile(r"onthedot\.ExitCode\.(0|[1-9][0-9]{0,8})")
_UNITS = (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


def written(job: Job) -> Written:
    """Return the job as a mapping of plain data, in the order in which people read it.

    >>> from onthedot.schedules import cron
    >>> written(Job(name="report", task=Call(handler="report"), schedules=(cron("@daily", tz="Europe/Berlin"),)))
    {'name': 'report', 'schedule': {'cron': '@daily', 'tz': 'Europe/Berlin'}, 'call': 'report'}
    """
    schedules = [_schedule(one) for one in job.schedules]
    return _given(
        name=job.name,
        namespace=_unless(job.namespace, "default"),
        owner=job.owner,
        paused=written_pause(job.paused),
        schedule=schedules[0] if len(schedules) == 1 else None,
        schedules=schedules if len(schedules) > 1 else None,
        after=_after(job.after),
        **_task(job.task),
        args=dict(job.args),
        params={param.name: _param(param) for param in job.params},
        guarantee=_unless(job.guarantee.value, Guarantee.AT_LEAST_ONCE.value),
        catch_up=_catch_up(job.catch_up),
        overlap=_overlap(job.overlap),
        concurrency=_limit(job.concurrency),
        rate=_rate(job.rate),
        retry=_retry(job.retry),
        timeout=None if job.timeout is None else format_duration(job.timeout),
        max_recoveries=_unless(job.max_recoveries, 3),
        queue=_unless(job.queue, DEFAULT_QUEUE),
        priority=_unless(job.priority, "normal"),
        labels=sorted(job.labels),
        on=_unless(job.on, "any"),
        share=job.share,
        isolation=_unless(job.isolation, "none"),
        assignment=_unless(job.assignment, "worker"),
        bounds=_bounds(job.bounds),
    )


def _given(**values: Any) -> Written:
    """Leaves out None, and empty texts, lists and mappings."""
    return {name: value for name, value in values.items() if value is not None and value not in ("", [], {})}


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value


def written_pause(pause: Pause | None) -> Json:
    """
    >>> written_pause(Pause()), written_pause(Pause(on=False)), written_pause(Pause(reason="it moves"))
    (True, False, {'reason': 'it moves'})
    """
    if pause is None or not pause.on:
        return None if pause is None else False
    until = None if pause.until is None else format_instant(pause.until)
    return _given(reason=pause.reason, until=until) or True


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────


def _schedule(schedule: Schedule) -> Json:
    said = written_schedule(schedule)
    return said if len(said) > 1 else to_text(schedule)


def written_schedule(schedule: Schedule) -> Written:
    """Return a schedule as a mapping, even if a text is enough.

    >>> from onthedot.schedules import every
    >>> written_schedule(every("5m"))
    {'every': '5m'}
    """
    text = to_text(schedule)
    more = _given(
        **(_cron(schedule) if isinstance(schedule, Cron) else {}),
        run_once=getattr(schedule, "run_once", False) or None,
        start=_instant(schedule, "start") if not isinstance(schedule, FixedDelay) else None,  # it is part of the text
        end=_instant(schedule, "end"),
        max_count=getattr(schedule, "max_count", None),
        jitter=_length(getattr(schedule, "jitter", timedelta(0)), timedelta(0)),
        args=dict(schedule.args),
        id=schedule.id,
    )
    form, _, rest = ("cron", "", text) if isinstance(schedule, Cron) else text.partition(" ")
    return {form: rest, **more}


def _cron(schedule: Cron) -> Written:
    return {
        "tz": _unless(schedule.tz, "UTC"),
        "gap": _unless(schedule.gap, "run_after"),
        "fold": _unless(schedule.fold, "first"),
        "seconds": is_four_fields(schedule.expression) or None,
    }


def _instant(schedule: Schedule, name: str) -> str | None:
    instant = getattr(schedule, name, None)
    return None if instant is None else format_instant(instant)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def _task(task: Task) -> Written:
    match task:
        case Call():
            return {"call": task.handler}
        case Sleep():
            return {"sleep": format_duration(task.duration)}
        case Noop():
            return {"noop": True}
        case Command():
            return {**_program(task), "stdin": task.stdin}
        case Steps():
            steps = [_step(step) for step in task.steps]
            source, artifacts = _source(task.source), list(task.artifacts)
            return {"source": source, "env": dict(task.env), "steps": steps, "artifacts": artifacts}
        case Http():
            return {"http": _http(task)}
        case Container():
            return {"container": _container(task)}


def _program(command: Command | Step) -> Written:
    return {
        "run": command.script,
        "argv": list(command.argv),
        "directory": command.directory,
        "env": dict(command.env),
    }


def _step(step: Step) -> Written:
    delay = _length(step.delay, timedelta(seconds=1))
    return _given(
        name=step.name,
        **{"if": _unless(step.when, "success")},
        **_program(step),
        timeout=None if step.timeout is None else format_duration(step.timeout),
        retry={"attempts": step.attempts, "delay": delay} if delay else _unless(step.attempts, 1),
    )


def _source(source: Source | None) -> Json:
    if source is None:
        return None
    more = {name: text for name, text in (("ref", source.ref), ("key", source.key)) if text}
    return {"git": source.git, **more} if more else source.git


def _http(task: Http) -> Json:
    more = _given(method=_unless(task.method, "GET"), headers=dict(task.headers), expect=list(task.expect))
    body = {} if task.body is None else {"body": task.body}  # an empty text is a body, too
    return {"url": task.url, **more, **body} if more or body else task.url


def _container(task: Container) -> Json:
    more = _given(
        entrypoint=task.entrypoint,
        argv=list(task.argv),
        env=dict(task.env),
        network=_unless(task.network, "none"),
        mounts=[_mount(mount) for mount in task.mounts],
        user=task.user,
    )
    return {"image": task.image, **more} if more else task.image


def _mount(mount: Mount) -> Written:
    return _given(source=mount.source, target=mount.target, writable=mount.writable or None)


def _param(param: Param) -> Json:
    """Return the default alone if it also shows the kind."""
    more = _given(choices=list(param.choices), required=param.required or None, pattern=param.pattern or None)
    default, kinds = param.default, {str: "text", bool: "yes_or_no", int: "whole", float: "number"}
    says_kind = kinds.get(type(default)) == param.kind and default != ""
    if says_kind and not more and not (isinstance(default, float) and default.is_integer()):
        return default
    kind = _unless(param.kind, "text")
    return {
        **({} if kind is None else {"kind": kind}), **({} if default is None else {"default": default}), **more,
    }  # fmt: skip


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


def _after(after: After | None) -> Json:
    if after is None:
        return None
    more = _given(any=after.any or None, on=_unless(after.on, "success"))
    return {"jobs": list(after.parents), **more} if more else list(after.parents)


def _catch_up(policy: CatchUp) -> Json:
    usual = CatchUp()
    more = _given(limit=_unless(policy.limit, usual.limit), window=_length(policy.window, usual.window))
    return _short("mode", policy.mode, more, usual.mode)


def _overlap(policy: Overlap | None) -> Json:
    if policy is None:
        return None
    more = _given(max_waiting=_unless(policy.max_waiting, Overlap().max_waiting), max_running=policy.max_running)
    return _short("mode", policy.mode, more)


def _limit(policy: Limit | None) -> Json:
    return None if policy is None else _short("most", policy.most, _given(key=policy.key, name=policy.name))


def _rate(policy: Rate | None) -> Json:
    if policy is None:
        return None
    per = format_duration(policy.per)
    more = _given(burst=_unless(policy.burst, 1), key=policy.key, name=policy.name)
    return {"most": policy.most, "per": per, **more} if more else f"{policy.most}/{per}"


def _retry(policy: Retry) -> Json:
    usual = Retry()
    more = _given(
        backoff=_unless(policy.backoff, usual.backoff),
        delay=_length(policy.delay, usual.delay),
        max_delay=_length(policy.max_delay, usual.max_delay),
        jitter=_unless(policy.jitter, usual.jitter),
        on=[_exit_code(kind) for kind in policy.on],
        on_timeout=_unless(policy.on_timeout, usual.on_timeout),
        when=str(policy.when),
    )
    return _short("attempts", policy.attempts, more, usual.attempts)


def _exit_code(kind: str) -> int | str:
    code = _EXIT_CODE.fullmatch(kind)
    return kind if code is None else int(code[1])


def _short(name: str, value: Any, more: Written, default: Any = None) -> Json:
    """Return the value alone if there are no other options."""
    if more:
        return {name: value, **more}
    return _unless(value, default)


def _bounds(bounds: Bounds) -> Written:
    usual = Bounds()
    changed = [one.name for one in fields(bounds) if getattr(bounds, one.name) != getattr(usual, one.name)]
    return {name: _bound(name, getattr(bounds, name)) for name in changed}


def _bound(name: str, value: Any) -> Json:
    if value is None or name in ("processes", "files"):
        return value
    if isinstance(value, timedelta):
        return format_duration(value)
    unit, size = next(((unit, size) for unit, size in _UNITS if value % size == 0 and value < 1 << 52), ("", 1))
    return f"{value // size}{unit}" if unit else value


def _length(length: timedelta, default: timedelta) -> str | None:
    return None if length == default else format_duration(length)


# ── stored jobs as a file ────────────────────────────────────────────────────────────────────────────────────


class Exported(NamedTuple):
    """A job as it is in a file (None: a file cannot express it), with notes about what the file leaves out."""

    name: str
    data: Written | None
    notes: list[str]


def exported(record: JobRecord) -> Exported:
    """Write a stored job for a file. It is read again here, and differences are noted."""
    job, pause = record.job, pause_of(record)
    if pause is not None:  # a reason may be longer, and have more lines, than a file allows
        pause = replace(pause, reason=_one_line(pause.reason)[:MOST_REASON])
    data = written(replace(job, paused=pause))
    name = job_name(job)
    try:
        same = read_job(data, stored=True) == job
    except WrongText as error:
        return Exported(name, None, [f"{name} cannot be written in a file: {problem}" for problem in error.problems])
    notes = [*_state_notes(record), *_notes(job)]
    if not same:
        notes.append("read again, it is not quite the same: compare it with 'onthedot jobs --json'")
    return Exported(name, data, notes)


def _state_notes(record: JobRecord) -> list[str]:
    if record.state is JobState.EXHAUSTED:
        return ["it is exhausted: none of its schedules comes any more"]
    return []


def _notes(job: Job) -> list[str]:
    notes = []
    if job.retry.when:
        notes.append(f"retry.when names a function of the program, {job.retry.when}; the file has only its name")
    if any(isinstance(schedule, In) for schedule in job.schedules):
        notes.append("'in …' is counted from when it is stored: stored anew, it comes again")
    if any(_counts_from_creation(schedule) for schedule in job.schedules):
        notes.append("max_count and run_once without start are counted from when it is stored: stored anew, from then")
    return notes


def _counts_from_creation(schedule: object) -> bool:
    limited = getattr(schedule, "max_count", None) is not None or getattr(schedule, "run_once", False)
    return bool(limited) and getattr(schedule, "start", None) is None


def yaml_file(jobs: Iterable[Exported]) -> str:
    """The text of the file.

    >>> print(yaml_file([Exported("default/a", {"name": "a", "noop": True}, ["so be it"])]), end="")
    jobs:
      # so be it
      - name: a
        noop: true
    """
    lines, some = ["jobs:"], False
    for job in jobs:
        lines += [f"  # {_one_line(note)}" for note in job.notes]
        if job.data is not None:
            some = True
            lines += [f"  {line}" if line else "" for line in yaml_text([job.data]).rstrip("\n").split("\n")]
    return "\n".join(lines if some else ["jobs: []", *lines[1:]]) + "\n"


def _one_line(note: str) -> str:
    """One line of text, because a comment ends with its line."""
    return "".join(letter if letter.isprintable() else " " for letter in note)
