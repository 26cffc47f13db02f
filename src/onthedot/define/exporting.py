"""Stored jobs as a file of jobs; what a file cannot say of them stands beside them as comments. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from onthedot.define.from_mapping import read_job
from onthedot.define.places import WrongText
from onthedot.define.written import Written, written
from onthedot.define.yaml_options import MOST_REASON
from onthedot.define.yaml_text import yaml_text
from onthedot.model.job import In, Job, JobRecord, JobState, job_name
from onthedot.rules.pauses import pause_of


class Exported(NamedTuple):
    """A job as a file has it (None: it cannot be said there), and what is not said by that."""

    name: str
    data: Written | None
    notes: list[str]


def exported(record: JobRecord) -> Exported:
    """What a file says of a stored job. It is read again here: what is not the same then is noted."""
    job, pause = record.job, pause_of(record)
    if pause is not None:  # a reason may be longer, and have more lines, than a file takes
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
    """A comment ends with its line, whatever was written into a reason."""
    return "".join(letter if letter.isprintable() else " " for letter in note)
