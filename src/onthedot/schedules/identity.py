"""The id of a schedule, by which slots belong to it. It survives restarts and edits of the other schedules."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields

from onthedot.model.job import Schedule
from onthedot.schedules.json_form import is_default, to_json

_DIGITS = 10  # 40 bits: among a job's ten schedules, two alike once in 20 billion jobs


def schedule_id(schedule: Schedule) -> str:
    """The given id, or ten hexadecimal digits that depend on the kind and the fields alone.

    Fields at their default are left out of the hash, so that a field added in a later version changes no id.
    Equal schedules have equal ids: two of them in one job need ids of their own.

    >>> from onthedot.model.job import Cron
    >>> schedule_id(Cron(expression="@daily")), schedule_id(Cron(expression="@daily", id="nightly"))
    ('125524c037', 'nightly')
    """
    if schedule.id:
        return schedule.id
    data = to_json(schedule)
    for field in fields(schedule):
        if is_default(field, getattr(schedule, field.name)):
            data.pop(field.name, None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
