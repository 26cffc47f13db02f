"""Rules "matching by key" and "matching by time": what the jobs recorded, against what the store says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from onthedot.model.run import RunState
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.interval_matching import match
from onthedot_verify.checker.model import History, Run
from onthedot_verify.checker.promises import MEASURING_ERROR

Finding = tuple[int, str]


def by_key(history: History) -> Iterator[Finding]:
    """A run that succeeded has a completed execution, of that run and attempt. The job recorded the same slot as the
    store."""
    for run in history.runs.values():
        for start in run.starts:
            if run.key is not None and start["slot"] != run.key[2]:
                yield start["seq"], f"run {run.id} is of slot {run.key[2]}, but started for slot {start['slot']}"
        success = _success(run)
        done = {event["fence"] for event in run.ends if event["outcome"] == "done"}
        if success is not None and run.key is not None and not done & {start["fence"] for start in run.starts}:
            yield success["seq"], f"run {run.id} succeeded, but no execution of it was completed"


def by_time(history: History) -> Iterator[Finding]:
    """Each run that succeeded is matched by an execution of its job between its due instant and its end, whichever run
    the execution names. If the store's clock was set, the steady clock counts, from the run's first arm to its end."""
    clock = "t_mono" if history.stepped else "t_store"
    targets: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    shown_by: defaultdict[str, list[Event]] = defaultdict(list)
    points: defaultdict[str, list[int]] = defaultdict(list)
    for run in history.runs.values():
        job, success = history.job_of(run), _success(run)
        if job is not None and success is not None and run.key is not None:
            targets[job.name].append((_opens(history, run) - MEASURING_ERROR, success[clock]))
            shown_by[job.name].append(success)
        done = {event["fence"] for event in run.ends if event["outcome"] == "done"}
        for start in run.starts:
            if start["fence"] in done:
                points[start["job"]].append(start[clock])
    for name, wanted in targets.items():
        for missing in match(wanted, points[name]).unserved:
            yield shown_by[name][missing]["seq"], f"{name}: no execution matches the run that succeeded here"


def _opens(history: History, run: Run) -> int:
    if history.stepped:
        return int(min(event["t_mono"] for event in run.events if event["ev"] == "arm"))
    return run.key[2] if run.key is not None else 0


def _success(run: Run) -> Event | None:
    return next((event for event, _, after in run.steps() if after.name == RunState.SUCCEEDED), None)
