"""Rules for leases: one holder of each run (S5), order (S6), fenced finish (S7), and final ends (S8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from onthedot.model.run import RunState
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, State, holds


def s5_one_holder(history: History) -> Iterator[tuple[int, str]]:
    """A run has at most one attempt that is reserved or armed under a living lease. No call acts without a lease. An
    attempt starts once."""
    for run, event, before, _ in history.steps():
        if event["ev"] not in ("reserve", "arm") or before.lease == event["lease"]:
            continue
        if before.name == RunState.RUNNING:
            yield event["seq"], f"run {run.id} was taken while attempt {before.attempt} is running"
        elif before.name == RunState.RESERVED and not _is_free(history, before, event):
            yield event["seq"], f"run {run.id} was taken while {before.inc[:8]} has it reserved"
    for run, event, before, _ in history.steps():
        if event["ev"] == "reserve" or (event["ev"] == "arm" and not holds(before, event)):
            until = history.incarnations[event["inc"]].until(event["seq"])
            if until <= event["t_store"]:
                yield event["seq"], f"{event['ev']} of run {run.id} by {event['inc'][:8]}, whose lease ended at {until}"
    for event in history.by["beat"]:
        ended = history.incarnations[event["inc"]].ended
        if ended is not None and ended[0] < event["seq"]:
            yield event["seq"], f"{event['inc'][:8]} renewed its lease, which was ended for good at line {ended[0]}"
    for run in history.runs.values():
        fences: set[int] = set()
        for start in run.starts:
            if start["fence"] in fences:
                yield start["seq"], f"attempt {start['attempt']} of run {run.id} started twice"
            fences.add(start["fence"])


def _is_free(history: History, state: State, event: Event) -> bool:
    """Whether a reservation has lapsed or its holder has left. Also whether it is void because of an edit or because
    its holder's lease has ended, and the leader has placed the run again."""
    if event["t_store"] >= state.until:
        return True
    ended = history.incarnations[state.inc].ended
    if ended is not None and ended[0] < event["seq"]:
        return True
    known = history.job(event["job_id"], event["seq"])
    edited = known is not None and known[0] > state.rev
    return any(
        place["run"] == event["run"]
        and state.since < place["seq"] < event["seq"]
        and (edited or history.incarnations[state.inc].until(place["seq"]) <= place["t_store"])
        for place in history.by["place"]
    )


def s6_order(history: History) -> Iterator[tuple[int, str]]:
    """Attempts are 1..k. Leases and fences are never reused, and fences grow along a run. The reaper takes an attempt
    only after its holder's lease has ended."""
    run_of_lease: dict[str, int] = {}
    lease_of_fence: dict[int, str] = {}
    fences: defaultdict[int, int] = defaultdict(int)
    for run, event, before, after in history.steps():
        if event["ev"] == "reap" and event["ok"]:
            until = history.incarnations[event["inc"]].until(event["seq"])
            if until > event["t_store"]:
                yield event["seq"], f"run {run.id} was reaped from {event['inc'][:8]}, whose lease lasts until {until}"
        if event["ev"] not in ("reserve", "arm"):
            continue
        if run_of_lease.setdefault(event["lease"], run.id) != run.id:
            yield (
                event["seq"],
                f"lease {event['lease']} of run {run.id} was used for run {run_of_lease[event['lease']]}",
            )
        if event["ev"] == "reserve" or before == after:
            continue
        fence = event["fence"]
        if lease_of_fence.setdefault(fence, event["lease"]) != event["lease"]:
            yield event["seq"], f"fence {fence} of run {run.id} was used before"
        if fence <= fences[run.id]:
            yield event["seq"], f"fence {fence} of run {run.id} follows {fences[run.id]}"
        fences[run.id] = fence
        if event["attempt"] != before.attempt + 1:
            yield event["seq"], f"attempt {event['attempt']} of run {run.id} follows attempt {before.attempt}"


def s7_fenced_finish(history: History) -> Iterator[tuple[int, str]]:
    """A finish is accepted only for the newest attempt of a running run, under its lease, and counts once."""
    for run, event, before, _ in history.steps():
        if event["ev"] not in ("finish", "reap"):
            continue
        again = (event["lease"], event["outcome"]) in before.ended
        if event["ok"] and not holds(before, event) and not again:
            yield (
                event["seq"],
                (
                    f"{event['ev']} of run {run.id} was accepted under {event['lease']}, "
                    f"but it is {before.name} under {before.lease or 'no lease'}"
                ),
            )
        forgotten = history.pruned.get(run.id, event["seq"]) < event["seq"]  # pruning removes the leases of a run
        if not event["ok"] and event["ev"] == "finish" and (holds(before, event) or (again and not forgotten)):
            yield event["seq"], f"a finish of run {run.id} under its current lease was refused"
    for final in history.by["final"]:
        known = history.runs.get(final["run"])
        expected = 0 if known is None else len(known.last.ended)
        if final["recorded"] != expected:
            yield final["seq"], f"run {final['run']} has {final['recorded']} recorded attempts, expected {expected}"


def s8_terminal_absorbs(history: History) -> Iterator[tuple[int, str]]:
    """A run has one terminal event, and the store changes nothing of it afterwards."""
    for run, event, before, after in history.steps():
        if not before.terminal:
            continue
        ended = event["ev"] == "cancel" and event["kind"] == "cancelled"
        if ended or event["ev"] in ("reserve", "arm", "expire", "withdraw", "block", "hold"):
            yield event["seq"], f"{event['ev']} of run {run.id}, which is {before.name}"
        elif event["ev"] in ("finish", "reap", "release") and event["ok"]:
            repeated = (event["lease"], event.get("outcome")) in before.ended
            if not repeated or before != after:
                yield event["seq"], f"{event['ev']} of run {run.id} was accepted, which is {before.name}"
