"""What people do to jobs and runs, and what is forgotten of them: S13, S14, S17."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from onthedot.model.run import RunState, is_slot
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.liveness import SLACK, recovered_by
from onthedot_verify.checker.model import History, Run, State, holds

Finding = tuple[int, str]


def s13_cancel(history: History) -> Iterator[Finding]:
    """A cancel is answered with what is true of the run. One that was waiting is over; one that was asked to stop is
    never tried again, and has stopped with its node's next beat when all is well. Nobody else ends a run that way."""
    calm = None if history.healed is None else recovered_by(history)
    for run in history.runs.values():
        asked: Event | None = None
        for event, before, after in run.steps():
            if event["ev"] == "cancel":
                yield from _answered(run, event, before)
                asked = asked or (event if event["kind"] == "asked" else None)
            elif event["ev"] == "arm" and asked and before != after:
                yield event["seq"], f"run {run.id} was asked to stop at line {asked['seq']}, and is armed again"
            elif event["ev"] in ("finish", "reap") and before != after:
                if asked and calm is not None and asked["t_store"] > calm:
                    late = event["t_store"] - asked["t_store"] - history.settings["beat_every"] - SLACK
                    if late > 0:
                        yield event["seq"], f"run {run.id} was asked to stop at line {asked['seq']}, {late} µs too late"
                if event.get("sent", event["state"]) != event["state"] and not asked and not _deleted(history, run):
                    yield event["seq"], f"run {run.id} is {event['state']}; its verdict was {event['sent']}"
    for event in history.by["cancel"]:
        known = history.runs.get(event["run"])
        if event["kind"] != "unknown" or known is None or known.last.name == "withdrawn":
            continue
        if known.events[0]["seq"] < event["seq"] <= history.pruned.get(known.id, event["seq"]):
            yield event["seq"], f"run {known.id} is unknown to a cancel, it is {known.last.name}"


def _answered(run: Run, event: Event, before: State) -> Iterator[Finding]:
    kind = event["kind"]
    if kind == "ended" and before.name != event["state"]:
        yield event["seq"], f"a cancel says that run {run.id} is {event['state']}, it is {before.name}"
    elif kind == "asked" and before.name != RunState.RUNNING:
        yield event["seq"], f"run {run.id} was asked to stop, and it is {before.name}"
    elif kind == "cancelled" and before.name == RunState.RUNNING:
        yield event["seq"], f"run {run.id} was cancelled while attempt {before.attempt} is running"


def _deleted(history: History, run: Run) -> bool:
    return run.key is not None and run.key[0] in history.deleted


def s14_pause(history: History) -> Iterator[Finding]:
    """From the answer of a pause on nothing of the job is planned or armed until it is resumed. Pause and resume do
    what their answers say, and a resume what its preview said, if nothing came between."""
    told: defaultdict[int, list[Event]] = defaultdict(list)  # per job: what belongs to the definition change to come
    previews: dict[int, Event] = {}
    for event in history.events:
        ev = event["ev"]
        run = history.runs.get(event.get("run", 0))
        job_id = event.get("job_id") or (run.key[0] if run is not None and run.key else 0)
        if ev in ("plan", "skip", "withdraw", "expire", "hold") and not event.get("term"):
            told[job_id].append(event)
        elif ev == "plan" and history.paused(job_id, event["seq"]):
            yield event["seq"], f"a plan for job {job_id} was accepted, which is paused"
        elif ev == "arm" and history.paused(job_id, event["seq"]) and run is not None:
            [before] = [before for one, before, _ in run.steps() if one is event]
            if not holds(before, event):
                yield event["seq"], f"run {event['run']} of job {job_id} was armed, which is paused"
        elif ev in ("edit", "pause", "resume"):
            for what in _as_told(history, event, told.pop(job_id, []), previews.get(job_id)):
                yield event["seq"], what
        if job_id and event not in told[job_id][-1:]:
            previews.pop(job_id, None)
        if ev == "preview":
            previews[job_id] = event


def _as_told(history: History, event: Event, told: list[Event], preview: Event | None) -> Iterator[str]:
    job_id = event["job_id"]
    planned = sorted(slot for one in told if one["ev"] == "plan" for slot in one["slots"])
    if event["ev"] == "edit" and planned and history.paused(job_id, event["seq"]):
        yield f"an edit planned {len(planned)} slots of job {job_id}, which is paused"
    elif event["ev"] == "pause":
        withdrawn = sum(one["ev"] == "withdraw" for one in told)
        skipped = sum(one["ev"] == "expire" and one["reason"] == "paused" for one in told)
        if [withdrawn, skipped] != event["answer"][:2]:
            yield f"a pause withdrew and skipped {[withdrawn, skipped]}, and says {event['answer'][:2]}"
    elif event["ev"] == "resume":
        if planned != event["slots"]:
            yield f"a resume of job {job_id} planned {planned}, and says {event['slots']}"
        skipped = sum(one["count"] for one in told if one["ev"] == "skip")
        if skipped != sum(count for _, _, count in event["skips"]):
            yield f"a resume of job {job_id} skipped {skipped} slots, and says {event['skips']}"
        shown = ("slots", "skips", "released")
        if preview is not None and preview["windows"] == event["windows"]:
            differing = [name for name in shown if preview[name] != event[name]]
            if differing:
                yield f"a resume of job {job_id} is not what its preview at line {preview['seq']} said: {differing}"


def s17_retention(history: History) -> Iterator[Finding]:
    """Only runs that ended long enough ago, and whose slot lies at or below the watermark, are pruned; each is counted
    in the same write, by job and state. What is counted in the end is what was pruned."""
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
                yield from _may_go(history, event, watermarks)
            case "pruned":
                counted = Counter({(job, state): count for job, state, count in event["counted"]})
                total += counted
                expected = Counter(_job_and_state(history, run) for run in event.get("runs", ()))
                if not event.get("skips") and counted != expected:
                    yield event["seq"], f"runs were pruned as {dict(expected)}, and counted as {dict(counted)}"
                if not event.get("skips") and event["answer"] != len(event["runs"]):
                    yield event["seq"], f"{len(event['runs'])} runs were pruned, and the answer is {event['answer']}"
    for event in history.by["rollup"]:
        counted = Counter({(job, state): count for job, state, count in event["counted"]})
        if counted != total:
            yield event["seq"], f"pruned in all: {dict(total - counted)} are missing, {dict(counted - total)} too many"


def _job_and_state(history: History, run_id: int) -> tuple[str, str]:
    run = history.runs[run_id]
    job = history.job_of(run)
    return (job.name if job is not None else "", run.last.name)


def _may_go(history: History, event: Event, watermarks: dict[tuple[int, str], int]) -> Iterator[Finding]:
    run, seq = history.runs[event["run"]], event["seq"]
    ended = next((one for one, _, after in run.steps() if after.terminal), None)
    if ended is None or ended["seq"] > seq:
        yield seq, f"run {run.id} was pruned, and it is {run.last.name}"
        return
    failed = run.last.name in (RunState.DEAD, RunState.LOST)
    kept = history.settings.get("kept_failures" if failed else "kept", 0)
    if event["t_store"] - ended["ended"] < kept and not history.stepped:  # whoever prunes may not have heard of it
        yield seq, f"run {run.id} was pruned {event['t_store'] - ended['ended']} µs after its end, not {kept}"
    if run.key is not None and is_slot(run.key[1]):
        mark = watermarks.get((run.key[0], run.key[1].partition(":")[2]), run.key[2])
        if run.key[2] > min(mark, event["t_store"]):
            yield seq, f"run {run.id} was pruned, and its slot {run.key[2]} lies above the watermark {mark}"
