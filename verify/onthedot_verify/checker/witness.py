"""Chronos-style: what the jobs themselves wrote down, matched to what had to happen, by key and blind by time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from onthedot.model.run import RunState
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.matching import match
from onthedot_verify.checker.model import History, Run
from onthedot_verify.checker.promises import MEASURING_ERROR

Finding = tuple[int, str]


def by_key(history: History) -> Iterator[Finding]:
    """A run that is said to have succeeded has an execution, of that very run and attempt, that came to its end; what
    jobs wrote down belongs to the slot that the store says."""
    for run in history.runs.values():
        for start in run.starts:
            if run.key is not None and start["slot"] != run.key[2]:
                yield start["seq"], f"run {run.id} started for slot {start['slot']}, it is of slot {run.key[2]}"
        success = _success(run)
        done = {event["fence"] for event in run.ends if event["outcome"] == "done"}
        if success is not None and run.key is not None and not done & {start["fence"] for start in run.starts}:
            yield success["seq"], f"run {run.id} succeeded, and no execution of it came to its end"


def by_time(history: History) -> Iterator[Finding]:
    """For each job, every run that succeeded is matched by an execution of its own between its due instant and its
    end, whichever run the execution says it is of. If the store's clock was set meanwhile, by the steady clock, and
    between the run's first arm and its end."""
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
            yield shown_by[name][missing]["seq"], f"{name}: no execution is left for the run that succeeded here"


def _opens(history: History, run: Run) -> int:
    if history.stepped:
        return int(min(event["t_mono"] for event in run.events if event["ev"] == "arm"))
    return run.key[2] if run.key is not None else 0


def _success(run: Run) -> Event | None:
    return next((event for event, _, after in run.steps() if after.name == RunState.SUCCEEDED), None)
