"""Rules for where runs run: queues (S21), placement (S22), all nodes (S23), rates (S24), priorities (S25)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from onthedot.model.job import Job, is_gated
from onthedot.model.rate import RateGate, grace
from onthedot.model.route import BONUS, level_of
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, holds

Finding = tuple[int, str]

STALE = 60_000_000  # µs: how old a planner's list of nodes may be when its plan is written


def _arms(history: History) -> Iterator[tuple[Event, Job]]:
    """Each arm that started an attempt, with the definition that was current then."""
    for event, _, before, _ in history.moves:
        if event["ev"] == "arm" and not holds(before, event):
            known = history.job(event["job_id"], event["seq"])
            if known is not None:
                yield event, known[1]


def s21_queues(history: History) -> Iterator[Finding]:
    """No run of a paused queue is armed. A worker arms only runs of its queues and labels."""
    for event, job in _arms(history):
        if history.stopped(job.queue, event["seq"]):
            yield event["seq"], f"run {event['run']} was armed from queue {job.queue}, which is paused"
        joined = history.joined.get(event["inc"], {})
        if "queues" in joined and job.queue not in joined["queues"]:
            yield event["seq"], f"run {event['run']} of queue {job.queue} was armed by {joined['node_id']}"
        if "labels" in joined and not job.labels <= set(joined["labels"]):
            yield event["seq"], f"run {event['run']} needs {sorted(job.labels)}, and was armed by {joined['node_id']}"


def s22_places(history: History) -> Iterator[Finding]:
    """A run that the leader places is armed by the incarnation of its last placement, which was made under a current
    term."""
    term: dict[int, Event] = {}
    places: dict[int, Event] = {}
    jobs = {event["seq"]: job for event, job in _arms(history)}
    for event in history.events:
        match event["ev"]:
            case "elect":
                term[event["shard"]] = event
            case "resign":
                term[event["shard"]] = event | {"until": event["t_store"]}
            case "place":
                current = term.get(event["shard"])
                if current is None or current["term"] != event["term"] or current["until"] <= event["t_store"]:
                    yield event["seq"], f"run {event['run']} was placed under term {event['term']}, which was over"
                places[event["run"]] = event
            case "arm" if event["seq"] in jobs and jobs[event["seq"]].assignment == "leader":
                place = places.get(event["run"])
                if place is None or place["inc"] != event["inc"]:
                    chosen = "nowhere" if place is None else f"with {place['inc'][:8]}"
                    yield event["seq"], f"run {event['run']} was placed {chosen}, but armed by {event['inc'][:8]}"


def s23_every_node(history: History) -> Iterator[Finding]:
    """A slot of a job with `on: all` is planned for each worker that has lived for long enough and can run it, and for
    none that has been dead for long. Its runs are armed only by their own nodes."""
    for event in history.by["plan"]:
        known = history.job(event["job_id"], event["seq"])
        if known is None or known[1].on != "all" or not event["slots"] or not event["term"]:
            continue
        targets = set(event.get("targets", ()))
        able = {inc for inc, joined in history.joined.items() if can_run(joined, known[1])}
        sure = {history.joined[inc]["node_id"] for inc in able if _lived(history, inc, event, throughout=True)}
        perhaps = {history.joined[inc]["node_id"] for inc in able if _lived(history, inc, event, throughout=False)}
        if not sure <= targets <= perhaps:
            yield event["seq"], f"job {event['job_id']} was planned for {sorted(targets)}, expected {sorted(sure)}"
    for event, job in _arms(history):
        node = history.joined.get(event["inc"], {}).get("node_id")
        if event.get("target") and event["target"] != node:
            yield event["seq"], f"run {event['run']} of {job.name} is for {event['target']}, but {node} armed it"


def can_run(joined: Event, job: Job) -> bool:
    """Whether a node's queues and labels let it run this job."""
    return job.queue in joined.get("queues", ()) and job.labels <= set(joined.get("labels", ()))


def _lived(history: History, inc: str, event: Event, *, throughout: bool) -> bool:
    """Whether an incarnation lived without draining: throughout the time before an event, or at some instant of it."""
    begins, ends = event["t_store"] - STALE, event["t_store"]
    incarnation = history.incarnations[inc]
    beats = [(at, at + ttl) for at, ttl in incarnation.beats if at <= ends]
    if not beats:
        return False
    if not throughout:
        return bool(beats[-1][1] > begins)
    gaps = any(later[0] > earlier[1] for earlier, later in pairwise(beats) if later[0] > begins)
    over = incarnation.ended is not None and incarnation.ended[0] < event["seq"]
    drained = any(seq < event["seq"] and (until is None or until > begins) for seq, until in history.drains[inc])
    return beats[0][0] <= begins and beats[-1][1] > ends and not gaps and not over and not drained


def s24_rates(history: History) -> Iterator[Finding]:
    """In any w µs fewer than (w + grace)/T + burst attempts of a rate start (`model/rate.py`)."""
    if any(event.get("kind") == "step" for event in history.by["nemesis"]):
        return  # setting the clock moves the instants granted before
    starts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    rates: defaultdict[str, set[RateGate]] = defaultdict(set)
    for event, _ in _arms(history):
        if event.get("rate"):
            rate = RateGate(*event["rate"])
            rates[rate.key].add(rate)
            starts[rate.key].append((max(event["t_store"], event["due"]), event["seq"]))
    for key, known in rates.items():
        if len(known) > 1:
            continue  # the rate was edited
        [rate] = known
        instants = sorted(starts[key])
        for place, (first, _) in enumerate(instants):
            for number, (at, seq) in enumerate(instants[place:], start=1):
                room = (at - first + 1 + grace(rate)) * rate.most + rate.burst * rate.per
                if number * rate.per >= room:
                    yield seq, f"{number} attempts of {key} started within {at - first} µs"
                    break


def s25_urgency(history: History) -> Iterator[Finding]:
    """Of the due runs in one line, the most urgent is taken first. Urgency is the due instant minus the priority's
    bonus."""
    waiting: dict[int, Event] = {}
    for event in history.events:
        match event["ev"]:
            case "submit" | "follow":
                if history.runs[event["run"]].events[0] is event:  # a repeated submit gives the same run
                    waiting[event["run"]] = event
            case "reserve" | "arm" | "cancel" | "expire" | "hold" | "prune":
                waiting.pop(event["run"], None)
        if event["ev"] != "arm" or event.get("quick", True):
            continue
        known = history.job(event["job_id"], event["seq"])
        if known is None or _line(known[1]) is None or event.get("target"):
            continue
        mine = event["due"] - BONUS[level_of(known[1].priority)]
        for other in waiting.values():
            rival = history.job(other["job_id"], event["seq"])
            if rival is None or _line(rival[1]) != _line(known[1]) or not _is_ready(history, other, event):
                continue
            if other["due"] - BONUS[level_of(rival[1].priority)] < mine:
                yield event["seq"], f"run {event['run']} was taken before run {other['run']}, which is more urgent"


def _line(job: Job) -> tuple[str, frozenset[str]] | None:
    """The line whose order is urgency alone, or None if turns, placements or gates count, too."""
    alone = job.assignment == "worker" and job.on == "any" and not job.share and not is_gated(job)
    return (job.queue, job.labels) if alone else None


def _is_ready(history: History, submit: Event, event: Event) -> bool:
    over = submit.get("expires") is not None and submit["expires"] <= event["t_store"]
    due = bool(submit["due"] <= event["t_store"])
    return due and not over and not history.is_kept(history.runs[submit["run"]], event["seq"])
