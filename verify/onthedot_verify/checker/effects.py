"""Rule S10: the effects of jobs under exactly_once, as the resource counted them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from onthedot.model.job import Guarantee
from onthedot.model.run import RunState
from onthedot_verify.checker.model import History, Run

Finding = tuple[int, str]


def s10_exactly_once(history: History) -> Iterator[Finding]:
    """A run under exactly_once has one accepted effect if it succeeded, and none otherwise. Along an overlap gate the
    fences at the resource never decrease."""
    effects = Counter(event["run"] for event in history.by["effect"])
    for run in history.runs.values():
        if not _is_exact(history, run):
            continue
        wanted = int(run.last.name == RunState.SUCCEEDED)
        if effects[run.id] != wanted:
            shown = [event["seq"] for event in history.by["effect"] if event["run"] == run.id]
            seq = shown[-1] if shown else run.events[-1]["seq"]
            yield seq, f"run {run.id} is {run.last.name}: expected {wanted} accepted effects, got {effects[run.id]}"
    yield from _fences(history)


def _is_exact(history: History, run: Run) -> bool:
    """Whether each revision of the run's job promises exactly once."""
    jobs = [] if run.key is None else [job for _, _, job in history.revisions.get(run.key[0], [])]
    return bool(jobs) and all(job.guarantee is Guarantee.EXACTLY_ONCE for job in jobs)


def _fences(history: History) -> Iterator[Finding]:
    gates = {
        (event["run"], event["fence"]): [key for key, _, until_end in event.get("gates", ()) if until_end]
        for event in history.by["arm"]
    }
    newest: defaultdict[str, int] = defaultdict(int)
    for event in history.by["effect"]:
        for key in gates.get((event["run"], event["fence"]), ()):
            if event["fence"] < newest[key]:
                yield event["seq"], f"an effect of fence {event['fence']} follows one of {newest[key]}, at {key}"
            newest[key] = max(newest[key], event["fence"])
