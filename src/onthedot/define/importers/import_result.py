"""The result of an import: jobs, and remarks about everything that differs in onthedot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from onthedot.define.job_reader import read_job
from onthedot.define.yaml_text import Place, Problem, WrongText
from onthedot.model.after import After
from onthedot.model.job import Job, job_name

_OTHERS = re.compile(r"[^A-Za-z0-9_.:-]+")


@dataclass
class ImportResult:
    """The jobs of one text, and a remark for everything that is not the same here, line by line."""

    file: str
    jobs: list[Job] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)
    lost: list[Problem] = field(default_factory=list)  # the remarks about jobs and starts that were left out
    incomplete: list[Problem] = field(default_factory=list)  # the remarks about jobs that need a change before they run
    notes: dict[str, list[str]] = field(default_factory=dict)  # by job name: comments that were above it
    lines: dict[str, int] = field(default_factory=dict)  # by job name: where it was
    zone_assumed: bool = False  # whether a time without a zone was read in the zone that the caller gave

    def remark(self, line: int | None, text: str) -> None:
        """Report what is not the same here, once."""
        told = Problem(self.file, None if line is None else Place(line, 1), text)
        if told not in self.remarks:
            self.remarks.append(told)

    def lose(self, line: int | None, text: str) -> None:
        """Report a job, or a start of one, that is left out."""
        self.remark(line, f"{text}; left out")
        self.lost.append(Problem(self.file, None if line is None else Place(line, 1), f"{text}; left out"))

    def complete(self, line: int | None, text: str) -> None:
        """Report a job that is imported, but cannot run as it is."""
        self.remark(line, text)
        self.incomplete.append(Problem(self.file, None if line is None else Place(line, 1), text))

    def add(self, line: int, data: Mapping[str, Any], *, more: str = "", notes: Iterable[str] = ()) -> None:
        """Add a job in the words of our files. If its name is taken, it gets a name with `more` (what tells it from
        others of its name), or with a few letters that its content gives: so it keeps its name when lines are added.
        """
        given = {key: value for key, value in data.items() if value not in (None, "", [], {})}
        given["name"] = self._free(given, more)
        try:
            job = read_job(given)
        except WrongText as error:
            for problem in error.problems:
                self.lose(line, f"it cannot be a job: {problem}")
            return
        self.jobs.append(job)
        self.lines[job_name(job)] = line
        kept = [note for note in notes if note]
        if kept:
            self.notes[job_name(job)] = kept

    def _free(self, given: Mapping[str, Any], more: str) -> str:
        namespace = given.get("namespace", "default")
        taken = {job.name for job in self.jobs if job.namespace == namespace}
        name = as_name(str(given.get("name", "")))
        content = repr([given.get(key) for key in ("schedule", "run", "argv", "stdin")])
        digest = hashlib.sha256(content.encode()).hexdigest()[:4]
        wanted = [name, *([f"{name[:60]}-{as_name(more)[:39]}"] if more else []), f"{name[:90]}-{digest}"]
        free = next((one for one in wanted if one not in taken), None)
        return free or _numbered(name, taken)  # the text has the same line twice


def name_apart(found: Iterable[ImportResult]) -> None:
    """Give each job a name that no job of another file has, with a remark. The first file keeps its names."""
    several = list(found)
    reserved = {job_name(job) for one in several for job in one.jobs}  # names that jobs of later files keep
    seen: set[str] = set()
    for one in several:
        own = {job_name(job) for job in one.jobs}
        renamed = {}
        for job in one.jobs:
            if job_name(job) in seen:
                taken = {key.partition("/")[2] for key in reserved if key.startswith(f"{job.namespace}/")}
                renamed[job_name(job)] = _numbered(job.name, taken)
                reserved.add(f"{job.namespace}/{renamed[job_name(job)]}")
        for old, new in renamed.items():
            name = old.partition("/")[2]
            one.remark(one.lines.get(old), f"job {name!r}: a file before this one has a job of this name; this one is "
                                           f"named {new!r}")  # fmt: skip
        one.jobs = [_renamed(job, renamed) for job in one.jobs]
        one.notes = {_key(key, renamed): notes for key, notes in one.notes.items()}
        one.lines = {_key(key, renamed): line for key, line in one.lines.items()}
        seen |= own | {job_name(job) for job in one.jobs}


def _key(key: str, renamed: Mapping[str, str]) -> str:
    return f"{key.partition('/')[0]}/{renamed[key]}" if key in renamed else key


def _renamed(job: Job, renamed: Mapping[str, str]) -> Job:
    """The job under its new name, after its parents under theirs."""
    after = job.after
    if after is not None:
        parents = tuple(renamed.get(f"{job.namespace}/{parent}", parent) for parent in after.parents)
        after = After(*parents, any=after.any, on=after.on)
    return replace(job, name=renamed.get(job_name(job), job.name), after=after)


def _numbered(name: str, taken: Collection[str]) -> str:
    """The first of `name-2`, `name-3` … that is free."""
    return next(one for number in count(2) if (one := f"{name[:90]}-{number}") not in taken)


def as_name(text: str) -> str:
    """The nearest name that a job can have.

    >>> as_name("/usr/bin/back up!"), as_name("")
    ('usr-bin-back-up', 'job')
    """
    return _OTHERS.sub("-", text).strip("-.:")[:100] or "job"


def runs_as(user: str) -> str:
    """Return the remark about a program that runs as a certain user in the other tool."""
    return (
        f"it runs as {user} there: here as the user of its worker; {user} becomes its owner. To keep the user, start "
        f"a worker as {user} with a label ('onthedot worker --labels user={user}'), and give the job 'labels: "
        f"[user={user}]'"
    )


def as_it_is(text: str) -> str:
    """Return a text in which no values are filled in, even if it looks like a reference.

    >>> as_it_is("${{ x }}")
    '$${{ x }}'
    """
    return text.replace("${{", "$${{")
