"""Imports a table (CSV, or with `|` between its columns): one job per row.

Columns are the keys of a job in our files (`name`, `schedule`, `run`, `timeout` …), those of `onthedot export`, or the
document's own: `user_id` (the owner), `job_id` (the name), `is_recurring`, `schedule`, `created_time`.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from onthedot.define.importers.import_result import ImportResult
from onthedot.define.job_reader import JOB
from onthedot.model.errors import did_you_mean
from onthedot.schedules.cron_parser import is_four_fields

_ALIASES = {"user_id": "owner", "job_id": "name", "user": "owner"}
_FLAGS = ("is_recurring", "run_once", "noop", "shell")
_NUMBERS = ("max_recoveries",)
_OTHERS = ("created_time", "task", "state", "next", "status")
_TEXTS = frozenset(JOB) - {"args", "params", "env", "steps", "bounds", "source", "artifacts", "argv", "after", "labels"}
_LENGTH = re.compile(r"(?:every\s+)?([0-9][0-9a-zµ .]*[a-zµ])", re.IGNORECASE)
_REQUEST = re.compile(r"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (https?://\S+)")


def read_table(text: str, file: str = "jobs.csv", *, tz: str = "UTC") -> ImportResult:
    """The jobs of a table with a header.

    >>> table = "user_id | job_id | is_recurring | schedule | created_time\\n"
    >>> [job] = read_table(table + "909 | 143214 | true | 1h30m | 2024-02-24T21:09:02").jobs
    >>> job.name, job.owner, job.schedules[0].anchor.isoformat()
    ('143214', '909', '2024-02-24T21:09:02+00:00')
    """
    found = ImportResult(file)
    header, rows = _rows(text)
    columns = [_ALIASES.get(name.strip().lower(), name.strip().lower()) for name in header]
    if "name" not in columns:
        found.remark(1, f"expected a column 'name' or 'job_id', got {', '.join(header)[:200] or 'no header'}")
        return found
    for name in columns:
        if name not in _TEXTS and name not in _OTHERS:
            found.remark(1, f"unknown column {name!r}{did_you_mean(name, _TEXTS)}; not kept")
    for number, row in rows:
        if len(row) != len(columns):
            found.lose(number, f"expected {len(columns)} columns, got {len(row)}")
            continue
        values = {name: cell.strip() for name, cell in zip(columns, row, strict=True) if cell.strip()}
        _add(found, number, values, tz)
    return found


def _rows(text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    first = text.partition("\n")[0]
    delimiter = max((",", "|", ";", "\t"), key=first.count)
    table = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    rows: list[tuple[int, list[str]]] = []
    before = 0
    for row in table:
        if any(cell.strip(" -+") for cell in row):  # no empty line, and no ruler under the header
            rows.append((before + 1, row))
        before = table.line_num
    return (rows[0][1], rows[1:]) if rows else ([], [])


def _add(found: ImportResult, line: int, values: dict[str, str], tz: str) -> None:
    job: dict[str, Any] = {}
    for name, cell in values.items():
        if name not in _TEXTS or name == "task":
            continue
        if name in _FLAGS:
            flag = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(cell.lower())
            if flag is None:
                found.remark(line, f"{name}: expected true or false, got {cell!r}; not kept")
            job[name] = flag
        else:
            job[name] = int(cell) if name in _NUMBERS and cell.isdigit() else cell
    job |= _schedule(values, tz)
    job |= _task(found, line, values)
    state = values.get("state", "active")
    if state == "paused":
        job["paused"] = True
    elif state not in ("active", "scheduled"):
        found.remark(line, f"state {state!r}: no part of a definition; not kept")
    found.add(line, job)


def _schedule(values: dict[str, str], tz: str) -> dict[str, Any]:
    """A length of time is counted from when its row was created."""
    given = values.get("schedule", "")
    created, length = values.get("created_time", ""), _LENGTH.fullmatch(given)
    if created and length is not None:
        zoned = created if re.search(r"(Z|[+-][0-9]{2}:?[0-9]{2})$", created) else f"{created}Z"
        return {"schedule": f"every {length[1]} from {zoned}"}
    several = [one.strip() for one in given.split(";") if one.strip()]
    if any(one.lower().startswith("after ") for one in several):  # of `onthedot export`
        return {"schedule": None, "after": [name.strip() for name in given[6:].split(",")]}
    schedules = [{"cron": one, "seconds": True} if is_four_fields(one) else one for one in several]
    shared = {"tz": tz} if tz != "UTC" and several and "tz" not in values else {}
    return {"schedule": schedules[0] if len(several) == 1 else schedules, **shared}


def _task(found: ImportResult, line: int, values: dict[str, str]) -> dict[str, Any]:
    if any(name in values for name in ("run", "command", "call", "http", "container", "sleep", "noop", "url")):
        return {"task": values["task"]} if "url" in values and "task" in values else {}
    task = values.get("task", "")
    verb, _, rest = task.partition(" ")
    request = _REQUEST.fullmatch(task)
    if request is not None:
        return {"http": {"url": request[2], "method": request[1]}}
    if verb in ("call", "sleep", "container") and rest:
        return {verb: rest}
    if task and verb != "steps" and task != "nothing":
        return {"run": task}
    if verb == "steps":
        found.remark(line, f"the table names steps ({rest[:80]}), but not what they do: 'noop' stands in their place")
    elif not task:
        found.remark(line, "the table does not say what is to be done: 'noop' stands in its place")
    return {"noop": True}
