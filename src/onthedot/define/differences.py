"""Compares two sets of jobs: which definitions differ, and which starts appear, vanish or move.

Pure: two sets of jobs and an instant in, a list of differences out. A reviewer of a change wants to know what will
start, and what will not start any more. A line such as `30 2 * * *` does not show that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from heapq import merge
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple

from onthedot.clock import SECOND, Micros, to_datetime, to_micros
from onthedot.define.job_writer import written, written_pause, written_schedule
from onthedot.model.job import Job, Schedule
from onthedot.model.job_json import encode
from onthedot.schedules import due_of, slots

HORIZON: Micros = 30 * 24 * 3600 * SECOND
MOST_STARTS = 20_000
"""The most starts that are compared for one job: the first ones within the horizon."""

_QUARTER = 900 * SECOND

Kind = Literal["created", "changed", "removed", "unchanged"]


class Move(NamedTuple):
    """A start that moves to another instant."""

    old: Micros
    new: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of one job."""

    name: str
    kind: Kind
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # by dotted name: what it was, and what it is
    appear: tuple[Micros, ...] = ()
    vanish: tuple[Micros, ...] = ()
    moved: tuple[Move, ...] = ()
    until: Micros = 0  # starts after this instant were not compared
    stopped: bool = False  # there are more: counting stopped at `until`, before the horizon

    @property
    def starts_change(self) -> bool:
        """Whether anything starts at another instant, or not at all."""
        return bool(self.appear or self.vanish or self.moved)


def compare(
    old: Mapping[str, Job], new: Mapping[str, Job], *, now: Micros, horizon: Micros = HORIZON
) -> list[Difference]:
    """Compare the jobs of both sets, by name: the new ones in their order, then the removed ones.

    >>> from onthedot.schedules import cron
    >>> from onthedot.model.task import Noop
    >>> def job(time: str) -> Job:
    ...     return Job(name="report", task=Noop(), schedules=(cron(time),))
    >>> [found] = compare({"report": job("0 2 * * *")}, {"report": job("0 3 * * *")}, now=0, horizon=86_400_000_000)
    >>> found.kind, [(move.new - move.old) // 3_600_000_000 for move in found.moved]
    ('changed', [1])
    """
    gone = [name for name in old if name not in new]
    return [_difference(name, old.get(name), new.get(name), now, horizon) for name in [*new, *gone]]


def load_per_hour(
    jobs: Mapping[str, Job], *, now: Micros, horizon: Micros = HORIZON, tz: tzinfo | None = UTC
) -> list[int]:
    """How many starts there are in each hour of the day, within the horizon; `tz` None is this machine's zone.

    >>> from onthedot.schedules import cron
    >>> from onthedot.model.task import Noop
    >>> night = Job(name="n", task=Noop(), schedules=(cron("30 2 * * *"),))
    >>> load_per_hour({"n": night}, now=0, horizon=3 * 86_400_000_000)[2]
    3
    """
    quarters = Counter(at // _QUARTER for job in jobs.values() for at in _starts(job, now, now + horizon))
    hours: Counter[int] = Counter()
    for quarter, starts in quarters.items():  # zones are whole quarters of an hour away from UTC
        hours[to_datetime(quarter * _QUARTER).astimezone(tz).hour] += starts
    return [hours[hour] for hour in range(24)]


def _difference(name: str, old: Job | None, new: Job | None, now: Micros, horizon: Micros) -> Difference:
    kind: Kind = "created" if old is None else "removed" if new is None else "changed"
    fields = _fields(old, new)
    if not fields:
        return Difference(name=name, kind="unchanged")
    if old is not None and new is not None and old.paused == new.paused:  # show the starts without the pause
        old, new = replace(old, paused=None), replace(new, paused=None)
    before, until_before = _first_starts(old, now, now + horizon)
    after, until_after = _first_starts(new, now, now + horizon)
    until = min(until_before, until_after)
    stopped = until < now + horizon
    vanish = sorted(at for at in before - after if at <= until)
    appear = sorted(at for at in after - before if at <= until)
    if len(vanish) == len(appear):  # each comes a little earlier or later
        moved = tuple(Move(was, will_be) for was, will_be in zip(vanish, appear, strict=True))
        return Difference(name=name, kind=kind, fields=fields, moved=moved, until=until, stopped=stopped)
    return Difference(
        name=name, kind=kind, fields=fields, appear=tuple(appear), vanish=tuple(vanish), until=until, stopped=stopped
    )


def _first_starts(job: Job | None, now: Micros, end: Micros) -> tuple[set[Micros], Micros]:
    """Return the first starts, and the instant up to which they are complete."""
    if job is None:
        return set(), end
    found = list(islice(_starts(job, now, end), MOST_STARTS + 1))
    return (set(found), end) if len(found) <= MOST_STARTS else (set(found[:-1]), found[-1] - 1)


def _starts(job: Job, now: Micros, end: Micros) -> Iterator[Micros]:
    """Yield the due instants of a job's runs, in order, as if its schedules began now, or at the end of its pause. For
    a fixed delay only the first start is known, because the others depend on how long its runs take."""
    if job.paused is not None and job.paused.on:
        now = end if job.paused.until is None else max(now, to_micros(job.paused.until))
    return merge(*(_starts_of(job, schedule, now, end) for schedule in job.schedules))


def _starts_of(job: Job, schedule: Schedule, now: Micros, end: Micros) -> Iterator[Micros]:
    coming = takewhile(end.__ge__, slots(schedule, now, origin=now))
    return map(due_of(job, schedule), coming)  # close enough to their order: jitter is less than the distance of slots


def _fields(old: Job | None, new: Job | None) -> dict[str, tuple[Any, Any]]:
    """Return the different fields, by dotted names: in the words of a file, or in those of a store if a file cannot
    express it.
    """
    stored = dict(_differing("", _stored(old), _stored(new)))
    if not stored:
        return {}
    several = any(job is not None and len(job.schedules) > 1 for job in (old, new))
    return dict(_differing("", _said(old, several), _said(new, several))) or stored


def _differing(name: str, old: Any, new: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield each value that differs. It descends into mappings and lists of mappings, except for a pause."""
    inner_old, inner_new = _inner(old), _inner(new)
    if name == "paused" or inner_old is None or inner_new is None or not (inner_old or inner_new):
        if old != new:
            yield name, (old, new)
        return
    for key in sorted(inner_old.keys() | inner_new.keys()):
        yield from _differing(f"{name}.{key}" if name else key, inner_old.get(key), inner_new.get(key))


def _inner(value: Any) -> dict[str, Any] | None:
    """Return the parts of a value, by name; None if it must be compared as a whole."""
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return {str(number): one for number, one in enumerate(value)}
    return {} if value is None else value if isinstance(value, dict) else None


def _stored(job: Job | None) -> dict[str, Any]:
    return {} if job is None else {**json.loads(encode(job)), "paused": written_pause(job.paused) or False}


def _said(job: Job | None, several: bool) -> dict[str, Any]:
    """Return the job in the words of a file, each schedule as a mapping."""
    if job is None:
        return {}
    said = {key: value for key, value in written(job).items() if key not in ("schedule", "schedules")}
    schedules = [written_schedule(schedule) for schedule in job.schedules]
    if schedules:
        said |= {"schedules": schedules} if several else {"schedule": schedules[0]}
    return {**said, "paused": written_pause(job.paused) or False}
