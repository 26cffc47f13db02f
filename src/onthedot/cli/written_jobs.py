"""Jobs in the words of a file, as the command line is given them: `--set retry.attempts=3`."""

from __future__ import annotations

import json
from typing import Any

from onthedot.cli.errors import BadInput
from onthedot.define.job_reader import read_job
from onthedot.define.job_writer import written
from onthedot.define.wrong_text import WrongText
from onthedot.model.job import Job


def changed(data: dict[str, Any], pairs: tuple[str, ...]) -> dict[str, Any]:
    """A job's data with these options: `NAME=VALUE`, where dots lead inward; without a value, it is taken out.

    >>> changed({"name": "a", "timeout": "5m"}, ("retry.attempts=3", "timeout="))
    {'name': 'a', 'retry': {'attempts': 3}}
    """
    made: dict[str, Any] = json.loads(json.dumps(data))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.split(".")):
            raise BadInput(f"--set: expected NAME=VALUE like 'timeout=5m', got {pair!r}")
        *outer, last = name.split(".")
        place = made
        for step in outer:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                raise BadInput(f"--set: expected {step!r} to have options of its own, got {pair!r}; set it as a whole")
            place = inner
        if text:
            place[last] = _value(text)
        else:
            place.pop(last, None)
    return made


def _value(text: str) -> Any:
    """3, true and "3" are JSON: a number, a truth value and text. What is no JSON is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def job_of(data: dict[str, Any]) -> Job:
    """The job that they mean; `BadInput` with every problem."""
    try:
        return read_job(data)
    except WrongText as error:
        raise BadInput(str(error)) from error


def data_of(job: Job) -> dict[str, Any]:
    """A stored job as data that can be changed; `BadInput` for one that a file cannot say."""
    data = dict(written(job))
    try:
        same = read_job(data, stored=True) == job
    except WrongText:
        same = False
    if not same:
        raise BadInput(f"JOB: expected one that a file can say, got {job.name!r}; change it in the program it is from")
    return data
