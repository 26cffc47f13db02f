"""A job from plain data: what a JSON body says of a job, in the words of a YAML file, by the same reader.

Only the places differ: a problem has a path (`schedules[0].cron`) where a file has a line and a column; and a number is
no text here, because JSON says which of them is meant.
"""

from __future__ import annotations

from onthedot.define.places import WrongText, in_data
from onthedot.define.plain_nodes import plain_nodes
from onthedot.define.yaml_file import Found
from onthedot.model.job import Job


def read_job(data: object, *, stored: bool = False) -> Job:
    """The job that a mapping means; `WrongText` with every problem and its path.

    >>> read_job({"name": "clean", "schedule": "@daily", "run": "rm -rf tmp"}).task.script
    'rm -rf tmp'
    >>> read_job({"name": "clean", "schedules": [{"cron": "61 * * * *"}], "run": "x"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.define.places.WrongText: schedules[0].cron: minute: expected 0-59, got '61' ...
    """
    found = Found(stored=stored)
    job = found.job(plain_nodes(data))
    if job is None or found.problems:
        raise WrongText(in_data(at, problem) for at, problem in sorted(found.problems))
    return job


def read_job_list(data: object) -> list[Job]:
    """The jobs of a mapping with the key `jobs`: a whole file, as plain data.

    >>> [job.name for job in read_job_list({"jobs": [{"name": "a", "noop": True}]})]
    ['a']
    """
    found = Found()
    jobs = found.jobs(plain_nodes(data))
    if found.problems:
        raise WrongText(in_data(at, problem) for at, problem in sorted(found.problems))
    return jobs
