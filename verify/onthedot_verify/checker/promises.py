"""Rules for promises to jobs and callers: S3, S9, S12, S15, S16, S18, S19.

No early start, at most once, terms, revisions, bounded retries, durability, and idempotent submits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from onthedot.model.duration import micros
from onthedot.model.job import Job, slot_args
from onthedot.model.run import BACKFILL_PREFIX, RunState, schedule_of
from onthedot.schedules import schedule_id
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, is_step

Finding = tuple[int, str]

MEASURING_ERROR = 50_000  # µs: how far a job's clock may be from the store's


def s3_never_early(history: History) -> Iterator[Finding]:
    """User code starts at or after the due instant, by the store's clock. If that clock was set within the last node
    lease, the clock as it was before may count, because the node may not know of it."""
    steps = [event for event in history.by["nemesis"] if is_step(event)]
    for run in history.runs.values():
        due = {event["attempt"]: event["due"] for event in run.events if event["ev"] == "arm"}
        for start in run.starts:
            now = start["t_store"]
            for step in steps:
                since = start["t_mono"] - step["t_mono"]
                if 0 <= since <= history.settings["node_ttl"]:
                    now = max(now, step["t_store"] + since)
            early = due.get(start["attempt"], start["slot"]) - now
            if early > MEASURING_ERROR:
                yield start["seq"], f"attempt {start['attempt']} of run {run.id} started {early} µs early"


def s9_at_most_once(history: History) -> Iterator[Finding]:
    """A run under at_most_once has at most one start and at most one armed attempt."""
    for run in history.runs.values():
        if not history.at_most_once(run):
            continue
        if len(run.starts) > 1:
            yield run.starts[1]["seq"], f"run {run.id} is at_most_once and started {len(run.starts)} times"
        armed = [event for event in run.events if event["ev"] == "arm"]
        if len({event["lease"] for event in armed}) > 1:
            yield armed[-1]["seq"], f"run {run.id} is at_most_once and was armed under several leases"


def s12_terms(history: History) -> Iterator[Finding]:
    """Terms of a shard only grow, with one holder at a time. An accepted plan has the current term."""
    current: dict[int, Event] = {}
    for event in history.events:
        if event["ev"] == "layout":  # its write ends all terms
            current = {shard: last | {"until": min(last["until"], event["t_store"])} for shard, last in current.items()}
        elif event["ev"] in ("elect", "resign"):
            last = current.get(event["shard"])
            if last is not None and event["term"] < last["term"]:
                yield event["seq"], f"term {event['term']} follows term {last['term']}"
            if event["ev"] == "elect" and last is not None and event["inc"] != last["inc"]:
                if event["term"] == last["term"]:
                    yield event["seq"], f"term {event['term']} has two holders"
                elif _runs_on(history, last, event) and not _left(history, last["inc"], event["seq"]):
                    yield event["seq"], f"term {event['term']} was won while term {last['term']} was running"
            until = event["until"] if event["ev"] == "elect" else event["t_store"]
            current[event["shard"]] = event | {"until": until}
        elif event["ev"] == "plan" and event["term"]:
            last = current.get(event.get("shard", 0))
            if last is None or last["term"] != event["term"] or last["until"] <= event["t_store"]:
                yield event["seq"], f"a plan of term {event['term']} was accepted, which was not current"
            known = history.job(event["job_id"], event["seq"])
            if known is None or known[0] != event["rev"]:
                yield event["seq"], f"a plan for revision {event['rev']} was accepted, which was not current"


def _runs_on(history: History, term: Event, at: Event) -> bool:
    """Whether a term was running. A term from before the store's clock was set back ends a whole term later."""
    over = history.stepped and at["t_mono"] - term["t_mono"] > history.settings["term_ttl"]
    return bool(term["until"] > at["t_store"] and not over)


def _left(history: History, incarnation: str, seq: int) -> bool:
    ended = history.incarnations[incarnation].ended
    return ended is not None and ended[0] < seq


def s15_revision(history: History) -> Iterator[Finding]:
    """Each attempt runs the revision that was current at its arm, by its row and by what the job itself saw."""
    for run in history.runs.values():
        marks: dict[int, object] = {}
        given = next((event["body"] for event in run.events if event["ev"] == "submit"), None)
        body = json.loads(given) if given else {}
        for event, before, after in run.steps():
            if event["ev"] != "arm" or before == after:
                continue
            known = history.job(event["job_id"], event["seq"])
            if known is None or known[0] != event["rev"]:
                yield event["seq"], f"run {run.id} was armed with revision {event['rev']}, which was not current"
            elif "mark" in known[1].args:
                own = json.loads(event["body"]) if "body" in event else body
                marks[event["attempt"]] = own.get("mark", known[1].args["mark"])
            if "body" in event and event["body"] not in _bodies(history, event):
                yield event["seq"], f"run {run.id} of {event['trigger']} has arguments of no revision: {event['body']}"
        for start in run.starts:
            expected = marks.get(start["attempt"], start["mark"])
            if start["mark"] != expected:
                yield (
                    start["seq"],
                    f"attempt {start['attempt']} of run {run.id} ran mark {start['mark']}, not {expected}",
                )


def _bodies(history: History, event: Event) -> set[str | None]:
    """The arguments that revisions before this event gave to runs of the slot's schedule."""
    jobs = [job for seq, _, job in history.revisions[event["job_id"]] if seq < event["seq"]]
    wanted = schedule_of(event["trigger"])
    return {slot_args(job, one) for job in jobs for one in job.schedules if schedule_id(one) == wanted}


def s16_bounded(history: History) -> Iterator[Finding]:
    """Failures stay within the job's attempts, and recoveries within max_recoveries. Then the run is dead. The counts
    in a lease are right. A retry waits at least half of its delay, or all of it without jitter."""
    for run in history.runs.values():
        for event, before, after in run.steps():
            if event["ev"] in ("reserve", "arm") and not before.terminal:
                said = event["failures"], event["recoveries"]
                if said != (before.failures, before.recoveries):
                    told = before.failures, before.recoveries
                    yield event["seq"], f"run {run.id} has (failures, recoveries) {said} in its lease, expected {told}"
            if event["ev"] not in ("finish", "reap") or before == after:
                continue
            known = None if run.key is None else [job for _, _, job in history.revisions[run.key[0]]]
            if not known:
                continue
            if after.failures > max(job.retry.attempts for job in known):
                yield event["seq"], f"run {run.id} failed {after.failures} times"
            if event["failed"] and after.name == RunState.SCHEDULED:
                least = min(map(_shortest_wait, known))
                if event["due"] - event["ended"] < least:
                    yield (
                        event["seq"],
                        f"run {run.id} waits {event['due'] - event['ended']} µs, at least {least} expected",
                    )
            most = max(job.max_recoveries for job in known)
            if after.recoveries > most and after.name == RunState.SCHEDULED:
                yield event["seq"], f"run {run.id} was recovered {after.recoveries} times and is not dead"


def _shortest_wait(job: Job) -> int:
    """The shortest wait before a retry, in microseconds. 0 if a function of the user decides."""
    wait = min(micros(job.retry.delay), micros(job.retry.max_delay))
    return 0 if job.retry.when else wait // 2 if job.retry.jitter else wait


def s18_durable(history: History) -> Iterator[Finding]:
    """Each later read sees what was answered: states and counts are the sum of the accepted writes."""
    for ack in history.by["ack"]:
        run = history.runs.get(ack["run"])
        if run is None or not any(e["ev"] == "submit" and e["seq"] < ack["seq"] for e in run.events):
            yield ack["seq"], f"submit of {ack['key']} answered run {ack['run']}, which was never written"
    for read in history.by["read"]:
        run = history.runs.get(read["run"])
        states = [] if run is None else [after for event, _, after in run.steps() if event["seq"] < read["seq"]]
        if history.pruned.get(read["run"], read["seq"]) < read["seq"]:
            if read["state"]:
                yield read["seq"], f"run {read['run']} was pruned, but read as {read['state']}"
        elif states and not _agree(states[-1].name, read["state"]):
            yield read["seq"], f"run {read['run']} was read as {read['state'] or 'missing'}, but is {states[-1].name}"
    finals = {final["run"]: final for final in history.by["final"]}
    for run in history.runs.values() if finals else ():
        last, final = run.last, finals.get(run.id)
        if final is None:
            if last.name != "withdrawn" and run.id not in history.pruned:
                yield history.events[-1]["seq"], f"run {run.id} is {last.name}, but the store has lost it"
            continue
        counted = final["attempts"], final["failures"], final["recoveries"]
        if not _agree(last.name, final["state"]):
            yield final["seq"], f"run {run.id} is {final['state']}, but {last.name} by its history"
        elif counted != (last.attempt, last.failures, last.recoveries):
            told = last.attempt, last.failures, last.recoveries
            yield final["seq"], f"run {run.id} has (attempts, failures, recoveries) {counted}, expected {told}"


def _agree(by_history: str, shown: str) -> bool:
    """Whether both states agree. A reservation may have been released with its node, which is no event of the run."""
    if by_history == RunState.RESERVED:
        return shown in (RunState.RESERVED, RunState.SCHEDULED)
    return by_history == shown or (by_history == "withdrawn" and not shown)


def s19_idempotent(history: History) -> Iterator[Finding]:
    """While a run is kept, a submit of the same trigger, or of the same key of a job, gives the same run and the same
    body. Only another body is refused."""
    first: dict[str, Event] = {}
    for event in history.events:
        match event["ev"]:
            case "submit":
                names = [f"{event['job_id']}/{event['trigger']}"]
                if event["trigger"].startswith(BACKFILL_PREFIX):  # one trigger, with a run for each slot
                    names = [f"{names[0]}/{event['slot']}"]
                names += [f"{event['job_id']}/key {event['key']}"] if event.get("key") else []
                for name in names:
                    known = first.setdefault(name, event)
                    if known["run"] != event["run"]:
                        yield event["seq"], f"{name} is run {known['run']} and run {event['run']}"
                    if known["body"] != event["body"]:
                        yield event["seq"], f"{name} was accepted with another body"
            case "conflict":
                known = first.get(f"{event['job_id']}/key {event['key']}", event)
                if known["body"] == event["body"]:
                    yield event["seq"], f"key {event['key']} was refused, but was never used with another body"
            case "ack":
                known = first.get(str(event["key"]), event)
                if known["run"] != event["run"]:
                    yield event["seq"], f"{event['key']} was answered with run {known['run']} and run {event['run']}"
            case "prune":
                first = {name: known for name, known in first.items() if known["run"] != event["run"]}


def no_bugs(history: History) -> Iterator[Finding]:
    """No service ends with an error, unless the store is unavailable."""
    for event in history.by["broken"]:
        yield event["seq"], f"a service of {event['node']} broke: {event['error']}"
