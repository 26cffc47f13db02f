"""Translates between the words of the documents that onthedot was made after, and ours. Pure.

A job has a number, a user, a frequency and a payload; it is pending, running, completed or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from onthedot.define.key_readers import TASK_READERS as TASKS
from onthedot.model.errors import DefinitionError
from onthedot.model.job import At, FixedDelay, In, Job, JobRecord, JobState
from onthedot.model.run import LIVE, RunRecord, RunState
from onthedot.schedules import to_text

Status = Literal["pending", "running", "completed", "failed"]

OURS = {"user_id": "owner", "frequency": "schedule", "payload": "args"}
"""Words of the documents, and ours."""

AT_ONCE = "in 1ms"
_WHEN = ("schedule", "schedules", "after")
_WHAT = (*TASKS, "steps", "url", "run", "argv", "command")


def in_our_words(said: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a document's body into the body of a job. Without a frequency it runs once, at once. Without a task,
    its payload goes to the handler of its name.

    >>> in_our_words({"name": "report", "user_id": "u003", "payload": {"n": 1}})
    {'name': 'report', 'owner': 'u003', 'args': {'n': 1}, 'schedule': 'in 1ms', 'call': 'report'}
    """
    twice = [f"{word}: expected this or {ours!r}, got both" for word, ours in OURS.items() if {word, ours} <= set(said)]
    if twice:
        raise DefinitionError(twice)
    ours = {OURS.get(word, word): value for word, value in said.items()}
    if not any(word in ours for word in _WHEN):
        ours["schedule"] = AT_ONCE
    if not any(word in ours for word in _WHAT):
        ours["call"] = ours["name"]
    return ours


def status_of_run(run: RunRecord) -> Status:
    """The status of one execution."""
    if run.state is RunState.RUNNING:
        return "running"
    if run.state in LIVE:
        return "pending"
    return "completed" if run.state is RunState.SUCCEEDED else "failed"


def has_more(record: JobRecord) -> bool:
    """Whether its schedules have another slot."""
    return bool(record.job.schedules) and record.state is not JobState.EXHAUSTED


def status_of_job(record: JobRecord, newest: RunRecord | None) -> Status:
    """The status of a job: running while a run is; pending while a run waits or is to come; else that of the newest.
    `newest` is a running run, else a waiting one, else the one that ended last."""
    if newest is not None and newest.state in LIVE:
        return status_of_run(newest)
    return "pending" if newest is None or has_more(record) else status_of_run(newest)


def is_recurring(job: Job) -> bool:
    """Whether it has a schedule that comes more than once.

    >>> from onthedot.schedules import every
    >>> from onthedot.model.task import Noop
    >>> is_recurring(Job(name="j", task=Noop(), schedules=(every("1h"),)))
    True
    """
    return any(isinstance(one, FixedDelay) or not (isinstance(one, At | In) or one.run_once) for one in job.schedules)


def frequency_of(job: Job) -> str | None:
    """Its schedules as text; None if it has none, or was given none and runs once, at once.

    >>> from onthedot.schedules import every
    >>> from onthedot.model.task import Noop
    >>> frequency_of(Job(name="j", task=Noop(), schedules=(every("1h30m"),)))
    'every 1h30m'
    """
    texts = [to_text(schedule) for schedule in job.schedules]
    return None if texts == [AT_ONCE] else "; ".join(texts) or None
