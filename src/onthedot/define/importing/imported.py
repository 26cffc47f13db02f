"""What a reader of another tool's format returns, and what all readers need."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onthedot.define.from_mapping import read_job
from onthedot.define.places import Place, Told, WrongText
from onthedot.job import Job, job_name

_OTHERS = re.compile(r"[^A-Za-z0-9_.:-]+")


@dataclass
class Imported:
    """The jobs of one text, and a remark for everything that is not the same here, line by line."""

    file: str
    jobs: list[Job] = field(default_factory=list)
    remarks: list[Told] = field(default_factory=list)
    lost: list[Told] = field(default_factory=list)  # the remarks about jobs and starts that were left out
    notes: dict[str, list[str]] = field(default_factory=dict)  # by job name: comments that were above it
    zone_assumed: bool = False  # whether a time without a zone was read in the zone that the caller gave

    def remark(self, line: int | None, text: str) -> None:
        """Report what is not the same here, once."""
        told = Told(self.file, None if line is None else Place(line, 1), text)
        if told not in self.remarks:
            self.remarks.append(told)

    def lose(self, line: int | None, text: str) -> None:
        """Report a job, or a start of one, that is left out."""
        self.remark(line, f"{text}; left out")
        self.lost.append(Told(self.file, None if line is None else Place(line, 1), f"{text}; left out"))

    def add(self, line: int, data: Mapping[str, Any], *, more: str = "", notes: Iterable[str] = ()) -> None:
        """A job in the words of our files. If its name is taken, it gets a name with `more` (what tells it from
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
        number = 2
        while free is None:  # the same line once more
            free = f"{name[:90]}-{number}" if f"{name[:90]}-{number}" not in taken else None
            number += 1
        return free


def as_name(text: str) -> str:
    """The nearest that a job can be called.

    >>> as_name("/usr/bin/back up!"), as_name("")
    ('usr-bin-back-up', 'job')
    """
    return _OTHERS.sub("-", text).strip("-.:")[:100] or "job"


def as_it_is(text: str) -> str:
    """A text into which nothing is to be filled, whatever it looks like.

    >>> as_it_is("${{ x }}")
    '$${{ x }}'
    """
    return text.replace("${{", "$${{")
