"""What people would want to be warned of, found in the figures of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.duration import micros
from onthedot.model.job import Job, overlap_of
from onthedot.observe.formats import count, length
from onthedot.simulate.question import Question
from onthedot.simulate.tally import JobTally, Tally

HERD = 5
"""So many jobs in one second are a herd, if they are a quarter of all as well."""


class Warning(NamedTuple):
    """What is wrong, with which jobs, and what to do about it."""

    kind: str
    jobs: tuple[str, ...]
    text: str
    advice: str


def warnings(question: Question, tally: Tally) -> list[Warning]:
    """The most important first."""
    return [
        *_herd(question, tally), *_seats(question, tally), *_timeouts(question), *_overlaps(question, tally),
        *_missed(tally), *_idle(question, tally),
    ]  # fmt: skip


def _herd(question: Question, tally: Tally) -> list[Warning]:
    """Many jobs that start in the same second, again and again."""
    scheduled = [job for job in question.jobs.values() if job.schedules]
    least = max(HERD, -(-len(scheduled) // 4))
    herds = [(at, jobs) for at, jobs in tally.herds.items() if len(jobs) >= least]
    if not herds:
        return []
    at, jobs = max(herds, key=lambda herd: (len(herd[1]), -herd[0]))
    members = Counter(name for _, names in herds for name in names)
    text = f"{len(jobs)} of {count(len(scheduled), 'job')} start in one second, {_often(len(herds))}{_minute(at)}"
    advice = "spread them: write H for the minute in cron ('H * * * *'), or give their schedules jitter='5m'"
    return [Warning("herd", tuple(name for name, _ in members.most_common()), text, advice)]


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _minute(at: Micros) -> str:
    minute = at // 60_000_000 % 60
    return f", such as at minute :{minute:02}"


def _seats(question: Question, tally: Tally) -> list[Warning]:
    """Runs that waited because every seat was taken."""
    waited = {name: job.waited["seat"] for name, job in tally.jobs.items() if job.waited["seat"]}
    if not waited:
        return []
    seats = question.settings.seats
    text = f"{count(sum(waited.values()), 'run')} waited for one of {count(seats, 'seat')}"
    names = tuple(sorted(waited, key=lambda name: -waited[name]))
    return [Warning("seats", names, text, "give a node more seats, or start another node")]


def _timeouts(question: Question) -> list[Warning]:
    """Jobs that take longer than they may."""
    found = []
    for job in question.jobs.values():
        takes = question.duration(job)
        if _is_too_long(question, job) and job.timeout is not None:
            text = f"{job.name} takes {length(takes)}, and its time-out is {length(micros(job.timeout))}"
            found.append(Warning("timeout", (job.name,), f"{text}: no attempt ends well", "raise its timeout="))
    return found


def _is_too_long(question: Question, job: Job) -> bool:
    return job.timeout is not None and question.duration(job) > micros(job.timeout)


def _overlaps(question: Question, tally: Tally) -> list[Warning]:
    """Jobs whose runs met earlier ones of their own; what is caught up may do so, and is no reason to worry."""
    found = []
    for job in question.jobs.values():
        figures = tally.jobs[job.name]
        if figures.overlaps > figures.caught_up and not _is_too_long(question, job):
            met = f"{count(figures.overlaps, 'run')} met an earlier one that had not ended; {_then(job, figures)}"
            text = f"{job.name} takes {length(question.duration(job))}: {met}"
            advice = "run it less often, make it shorter, or choose another overlap="
            found.append(Warning("overlap", (job.name,), text, advice))
    return found


def _then(job: Job, figures: JobTally) -> str:
    skipped, waited = figures.skipped["overlap"], figures.waited["overlap"]
    match overlap_of(job).mode:
        case "wait":
            return f"{waited} waited, {skipped} were skipped"
        case "skip":
            return f"{skipped} were skipped"
        case "replace":
            return f"{figures.replaced} earlier ones were stopped for them"
        case "allow":
            return f"{waited} waited for a place"


def _missed(tally: Tally) -> list[Warning]:
    """Slots that outages have cost."""
    missed = {name: job.skipped["missed"] for name, job in tally.jobs.items() if job.skipped["missed"]}
    if not missed:
        return []
    text = f"{count(sum(missed.values()), 'slot')} of {_names(missed)} came too late to run, after outages"
    return [Warning("missed", tuple(missed), text, "catch_up='all' runs them afterwards, within its limit and window")]


def _idle(question: Question, tally: Tally) -> list[Warning]:
    """Jobs with schedules of which nothing was seen."""
    idle = [job.name for job in question.jobs.values() if job.schedules and not _was_seen(tally.jobs[job.name])]
    if not idle:
        return []
    advice = "simulate more days, or see what their schedules mean with 'onthedot next EXPR'"
    return [Warning("idle", tuple(idle), f"no slot in this time: {_names(idle)}", advice)]


def _was_seen(figures: JobTally) -> bool:
    return bool(figures.runs or figures.skipped.total())


def _names(names: Iterable[str], most: int = 5) -> str:
    """
    >>> _names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more
