"""Rules for cancel (S13), pause and resume (S14), and retention (S17)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from onthedot.model.run import RunState, is_slot
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.liveness import SLACK, recovered_by
from onthedot_verify.checker.model import History, Run, State, holds

Finding = tuple[int, str]


def s13_cancel(history: History) -> Iterator[Finding]:
    """The answer of a cancel is true. A waiting run is over. A running one is asked to stop and is never retried. If
    nothing is broken, it has stopped with its node's next beat. A run ends with another state than its verdict's only
    if a cancel or a delete came first."""
    calm = None if history.healed is None else recovered_by(history)
    for run in history.runs.values():
        asked: Event | None = None
        for event, before, after in run.steps():
            if event["ev"] == "cancel":
                yield from _check_answer(run, event, before)
                asked = asked or (event if event["kind"] == "asked" else None)
            elif event["ev"] == "arm" and asked and before != after:
                yield event["seq"], f"run {run.id} was armed again, but was asked to stop at line {asked['seq']}"
            elif event["ev"] in ("finish", "reap") and before != after:
                if asked and calm is not None and asked["t_store"] > calm:
                    late = event["t_store"] - asked["t_store"] - history.settings["beat_every"] - SLACK
                    if late > 0:
                        yield event["seq"], f"run {run.id} stopped {late} µs too late, asked at line {asked['seq']}"
                if event.get("sent", event["state"]) != event["state"] and not asked and not _deleted(history, run):
                    yield event["seq"], f"run {run.id} is {event['state']}, but its verdict was {event['sent']}"
    for event in history.by["cancel"]:
        known = history.runs.get(event["run"])
        if event["kind"] != "unknown" or known is None or known.last.name == "withdrawn":
            continue
        if known.events[0]["seq"] < event["seq"] <= history.pruned.get(known.id, event["seq"]):
            yield event["seq"], f"a cancel answered that run {known.id} is unknown, but it is {known.last.name}"


def _check_answer(run: Run, event: Event, before: State) -> Iterator[Finding]:
    kind = event["kind"]
    if kind == "ended" and before.name != event["state"]:
        yield event["seq"], f"a cancel answered that run {run.id} is {event['state']}, but it is {before.name}"
    elif kind == "asked" and before.name != RunState.RUNNING:
        yield event["seq"], f"run {run.id} was asked to stop, but it is {before.name}"
    elif kind == "cancelled" and before.name == RunState.RUNNING:
        yield event["seq"], f"run {run.id} was cancelled while attempt {before.attempt} is running"


def _deleted(history: History, run: Run) -> bool:
    return run.key is not None and run.key[0] in history.deleted


def s14_pause(history: History) -> Iterator[Finding]:
    """Between the answer of a pause and the resume, no run of the job is planned or armed. Pause and resume do what
    their answers tell. A resume does what its preview showed, if no other change came between them."""
    told: defaultdict[int, list[Event]] = defaultdict(list)  # per job: parts of the change that comes next
    previews: dict[int, Event] = {}
    for event in history.events:
        ev = event["ev"]
        run = history.runs.get(event.get("run", 0))
        job_id = event.get("job_id") or (run.key[0] if run is not None and run.key else 0)
        if ev in ("plan", "skip", "withdraw", "expire", "hold") and not event.get("term"):
            told[job_id].append(event)
        elif ev == "plan" and history.paused(job_id, event["seq"]):
            yield event["seq"], f"a plan was accepted for job {job_id}, which is paused"
        elif ev == "arm" and history.paused(job_id, event["seq"]) and run is not None:
            [before] = [before for one, before, _ in run.steps() if one is event]
            if not holds(before, event):
                yield event["seq"], f"run {event['run']} of job {job_id} was armed, which is paused"
        elif ev in ("edit", "pause", "resume"):
            for what in _check_change(history, event, told.pop(job_id, []), previews.get(job_id)):
                yield event["seq"], what
        if job_id and event not in told[job_id][-1:]:
            previews.pop(job_id, None)
        if ev == "preview":
            previews[job_id] = event


def _check_change(history: History, event: Event, told: list[Event], preview: Event | None) -> Iterator[str]:
    job_id = event["job_id"]
    planned = sorted(slot for one in told if one["ev"] == "plan" for slot in one["slots"])
    if event["ev"] == "edit" and planned and history.paused(job_id, event["seq"]):
        yield f"an edit planned {len(planned)} slots of job {job_id}, which is paused"
    elif event["ev"] == "pause":
        withdrawn = sum(one["ev"] == "withdraw" for one in told)
        skipped = sum(one["ev"] == "expire" and one["reason"] == "paused" for one in told)
        if [withdrawn, skipped] != event["answer"][:2]:
            yield f"a pause withdrew and skipped {[withdrawn, skipped]}, but answered {event['answer'][:2]}"
    elif event["ev"] == "resume":
        if planned != event["slots"]:
            yield f"a resume of job {job_id} planned {planned}, but answered {event['slots']}"
        skipped = sum(one["count"] for one in told if one["ev"] == "skip")
        if skipped != sum(count for _, _, count in event["skips"]):
            yield f"a resume of job {job_id} skipped {skipped} slots, but answered {event['skips']}"
        shown = ("slots", "skips", "released")
        if preview is not None and preview["windows"] == event["windows"]:
            differing = [name for name in shown if preview[name] != event[name]]
            if differing:
                yield f"a resume of job {job_id} differs from its preview at line {preview['seq']} in {differing}"


def s17_retention(history: History) -> Iterator[Finding]:
    """A run is pruned only if it ended long enough ago, and a slot's run only at or below the watermark. The same write
    counts it by job and state. At the end the counts add up to what was pruned."""
    watermarks: dict[tuple[int, str], int] = {}
    total: Counter[tuple[str, str]] = Counter()
    for event in history.events:
        match event["ev"]:
            case "plan" if event["term"]:
                watermarks[event["job_id"], event["schedule"]] = event["end"]
            case "edit" | "pause" | "resume":
                for schedule, (_, after) in event["marks"].items():
                    watermarks.pop((event["job_id"], schedule), None)
                    if after is not None:
                        watermarks[event["job_id"], schedule] = after["watermark"]
            case "delete":
                watermarks = {name: mark for name, mark in watermarks.items() if name[0] != event["job_id"]}
            case "prune":
                yield from _check_prune(history, event, watermarks)
            case "pruned":
                counted = Counter({(job, state): count for job, state, count in event["counted"]})
                total += counted
                expected = Counter(_job_and_state(history, run) for run in event.get("runs", ()))
                if not event.get("skips") and counted != expected:
                    yield event["seq"], f"runs were pruned as {dict(expected)}, but counted as {dict(counted)}"
                if not event.get("skips") and event["answer"] != len(event["runs"]):
                    yield event["seq"], f"{len(event['runs'])} runs were pruned, but the answer is {event['answer']}"
    for event in history.by["rollup"]:
        counted = Counter({(job, state): count for job, state, count in event["counted"]})
        if counted != total:
            yield event["seq"], f"counts of pruned runs: {dict(total - counted)} missing, {dict(counted - total)} extra"


def _job_and_state(history: History, run_id: int) -> tuple[str, str]:
    run = history.runs[run_id]
    job = history.job_of(run)
    return (job.name if job is not None else "", run.last.name)


def _check_prune(history: History, event: Event, watermarks: dict[tuple[int, str], int]) -> Iterator[Finding]:
    run, seq = history.runs[event["run"]], event["seq"]
    ended = next((one for one, _, after in run.steps() if after.terminal), None)
    if ended is None or ended["seq"] > seq:
        yield seq, f"run {run.id} was pruned, but it is {run.last.name}"
        return
    failed = run.last.name in (RunState.DEAD, RunState.LOST)
    kept = history.settings.get("kept_failures" if failed else "kept", 0)
    if event["t_store"] - ended["ended"] < kept and not history.stepped:  # the pruner may not know of the set clock
        yield seq, f"run {run.id} was pruned {event['t_store'] - ended['ended']} µs after its end, before {kept} µs"
    if run.key is not None and is_slot(run.key[1]):
        mark = watermarks.get((run.key[0], run.key[1].partition(":")[2]), run.key[2])
        if run.key[2] > min(mark, event["t_store"]):
            yield seq, f"run {run.id} was pruned, but its slot {run.key[2]} lies above the watermark {mark}"
