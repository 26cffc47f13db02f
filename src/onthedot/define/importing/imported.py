"""What a reader of somebody else's format gives back, and what all of them need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onthedot.define.from_mapping import read_job
from onthedot.define.places import Place, Told, WrongText
from onthedot.job import Job, job_name

_OTHERS = re.compile(r"[^A-Za-z0-9_.:-]+")


@dataclass
class Imported:
    """The jobs of one text, and what could not be mapped, line by line."""

    file: str
    jobs: list[Job] = field(default_factory=list)
    remarks: list[Told] = field(default_factory=list)

    def remark(self, line: int | None, text: str) -> None:
        """Say what could not be mapped, once."""
        told = Told(self.file, None if line is None else Place(line, 1), text)
        if told not in self.remarks:
            self.remarks.append(told)

    def add(self, line: int, data: Mapping[str, Any]) -> None:
        """A job in the words of our files; a name that is taken already gets a number."""
        given = {key: value for key, value in data.items() if value not in (None, "", [], {})}
        given["name"] = self._free(str(given.get("name", "")), str(given.get("namespace", "default")))
        try:
            self.jobs.append(read_job(given))
        except WrongText as error:
            for problem in error.problems:
                self.remark(line, f"left out, because it cannot be a job: {problem}")

    def _free(self, wanted: str, namespace: str) -> str:
        taken = {job_name(job) for job in self.jobs}
        name = as_name(wanted)
        free, number = name, 2
        while f"{namespace}/{free}" in taken:
            free, number = f"{name[:95]}-{number}", number + 1
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
