"""Liveness rules for the time after the faults: runs end (L1), start on time (L3), and leave no orphans (L4).

The limits come from the settings in the first line. The rules for shards are in `shards.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Set
from itertools import pairwise

from onthedot.model.duration import micros
from onthedot.model.job import Job, overlap_of
from onthedot.model.run import RunState
from onthedot_verify.checker import gates
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, Run
from onthedot_verify.checker.placement import can_run

Finding = tuple[int, str]

BACKLOG = 30_000_000  # µs: time to run the backlog
SLACK = 1_000_000  # µs: calls to the store take time even without faults
ON_TIME = 100_000  # µs: how late a start may be for L3
PLACING = 5_000_000  # µs: for the leader's placement, and for a second one if the first worker did not take the run


def recovered_by(history: History) -> int:
    """When all effects of the faults must be over: node lease, reaper, term, backlog."""
    settings = history.settings
    return (history.healed or 0) + settings["node_ttl"] + 2 * settings["reap_every"] + settings["term_ttl"] + BACKLOG


def _own_time(job: Job, longest: int) -> int:
    """How long a run may take by itself: each attempt, each back-off, each recovery."""
    tries = job.retry.attempts + job.max_recoveries + 1
    each = min(longest, micros(job.timeout)) if job.timeout else longest
    return tries * (each + micros(job.retry.max_delay)) if job.retry.attempts > 1 else tries * each


def l1_terminal(history: History) -> Iterator[Finding]:
    """Each run that was due ends within a limited time after the faults."""
    if history.healed is None:
        return
    from_here = recovered_by(history)
    longest = history.settings.get("longest", 0)
    ends = _ends(history)
    for run in history.runs.values():
        job = history.job_of(run)
        if job is None or not run.events:
            continue
        moves = _moves(run)
        if (moves and moves[-1]["ev"] == "block") or history.is_kept(run, history.events[-1]["seq"] + 1):
            continue  # L4 judges a run that waits at a gate; no rule judges a held run
        free_at = max(_free_at(history, run), _turn_at(run, job, ends))
        by = max(from_here, free_at + SLACK) + _own_time(job, longest)
        ended = next((event for event, _, after in run.steps() if after.terminal), None)
        at = history.end if ended is None else ended["t_store"]
        if at > by or (ended is None and history.end >= by):
            by = max(by, _seat_at(_freed_seats(history, run, job), run) + SLACK + _own_time(job, longest))
        if at > by or (ended is None and history.end >= by):
            seq = history.events[-1]["seq"] if ended is None else ended["seq"]
            yield seq, f"run {run.id} of {job.name} is {run.last.name}: expected its end by {by}, {at - by} µs ago"


def _ends(history: History) -> dict[tuple[int, str], list[int]]:
    """The ends of runs, in order, by job and target."""
    found: dict[tuple[int, str], list[int]] = {}
    for run in history.runs.values():
        ended = next((event["t_store"] for event, _, after in run.steps() if after.terminal), None)
        if run.key is not None and ended is not None:
            found.setdefault((run.key[0], run.key[3]), []).append(ended)
    return {line: sorted(ends) for line, ends in found.items()}


def _turn_at(run: Run, job: Job, ends: dict[tuple[int, str], list[int]]) -> int:
    """When the previous run at the overlap gate had ended. Without a `block` event of this run, no line names that
    gate."""
    if run.key is None or overlap_of(job).mode == "allow" or any(event["ev"] == "block" for event in run.events):
        return 0
    before = ends.get((run.key[0], run.key[3]), [])
    armed = next((event["t_store"] for event in run.events if event["ev"] == "arm"), None)
    place = len(before) if armed is None else bisect_right(before, armed)
    return before[place - 1] if place else 0


def _moves(run: Run) -> list[Event]:
    """The events that changed the run's state. Stale and repeated calls are left out."""
    return [event for event, before, after in run.steps() if before != after]


def _free_at(history: History, run: Run) -> int:
    """When a run could be executed: it is due, its gates are open, and its job is not paused."""
    due = max((event["due"] for event in run.events if event.get("due")), default=0) or (run.key or (0, "", 0, ""))[2]
    passed = max((after["t_store"] for event, after in pairwise(_moves(run)) if event["ev"] == "block"), default=0)
    resumed = history.resumed_at(run.key[0], history.events[-1]["seq"]) if run.key else 0
    return max(due, passed, resumed, history.opened_at(run, history.events[-1]["seq"]))


def l3_on_time(history: History) -> Iterator[Finding]:
    """Without faults, user code starts at its due instant. A submitted run, or one that follows another, starts as soon
    as its worker could know of it."""
    if history.healed is None:
        return
    calm = recovered_by(history)
    for run in history.runs.values():
        first = next((event for event in run.events if event["ev"] in ("reserve", "arm")), None)
        if first is None or first["due"] < calm or not run.starts or _was_blocked(history, run):
            continue
        known = [event["t_store"] for event in run.events if event["ev"] in ("submit", "follow")]
        resumed = history.resumed_at(first["job_id"], run.starts[0]["seq"])
        opened = history.opened_at(run, run.starts[0]["seq"])
        ready = max(first["due"], min(known, default=0), resumed, opened)
        job = history.job_of(run)
        patience = ON_TIME if job is None or job.assignment != "leader" else ON_TIME + PLACING
        late = run.starts[0]["t_store"] - ready - patience
        if late <= 0 or _was_behind_others(history, run, first["due"], ready + patience - ON_TIME):
            continue
        if run.starts[0]["t_store"] > _seat_at(_freed_seats(history, run, job), run) + patience:
            yield run.starts[0]["seq"], f"run {run.id} started {late + ON_TIME} µs late, without a fault"


def _was_behind_others(history: History, run: Run, due: int, since: int) -> bool:
    """Whether runs that were due earlier were taken while this one waited. A resume has released more runs than there
    are seats. L3 judges the first of those in line, and L1 judges that none waits for ever."""
    until = run.starts[0]["seq"]
    return any(
        event["ev"] == "arm" and event["run"] != run.id and event["due"] < due
        and event["t_store"] >= since and event["seq"] < until
        for event in history.events
    )  # fmt: skip


def _freed_seats(history: History, run: Run, job: Job | None) -> list[tuple[int, int]]:
    """When (line and store time) a seat came free after all living nodes that could run it had been full."""
    seats = history.settings.get("seats")
    if seats is None:
        return []
    able = {inc for inc in history.incarnations if _is_able(history.joined.get(inc), run, job)}
    moves = {event["seq"]: (before, after) for event, _, before, after in history.moves}
    taken: Counter[str] = Counter()
    seated: dict[int, tuple[str, int]] = {}  # run → the incarnation whose seat it has, and its fence
    freed: list[tuple[int, int]] = []
    was_full = False
    for event in history.events:
        if event["seq"] in moves:
            before, after = moves[event["seq"]]
            taken[seated.pop(event["run"], ("", 0))[0]] -= before.name == RunState.RUNNING
            if after.name == RunState.RUNNING:
                taken[after.inc] += 1
                seated[event["run"]] = after.inc, event.get("fence", 0)
        elif event["ev"] == "end" and seated.get(event["run"], ("", 0))[1] == event["fence"]:
            taken[seated.pop(event["run"])[0]] -= 1  # its node reuses the seat before the store knows
        else:
            continue
        is_full = any(count >= seats for count in taken.values()) and _all_taken(history, event, taken, seats, able)
        if was_full and not is_full:
            freed.append((event["seq"], event["t_store"]))
        was_full = is_full
    return freed


def _is_able(joined: Event | None, run: Run, job: Job | None) -> bool:
    """Whether the incarnation that joined with this event could run it."""
    if joined is None or "queues" not in joined or job is None:
        return True
    target = "" if run.key is None else run.key[3]
    return can_run(joined, job) and target in ("", joined["node_id"])


def _all_taken(history: History, event: Event, taken: Counter[str], seats: int, able: Set[str]) -> bool:
    """Whether each living node that does not drain is full."""
    living = [
        inc
        for inc in able
        if history.incarnations[inc].until(event["seq"]) > event["t_store"] and not _drains(history, inc, event)
    ]
    return bool(living) and all(taken[inc] >= seats for inc in living)


def _drains(history: History, inc: str, event: Event) -> bool:
    return any(seq < event["seq"] and (until is None or until > event["t_store"]) for seq, until in history.drains[inc])


def _seat_at(freed: list[tuple[int, int]], run: Run) -> int:
    """When the seat came free that this run could take, if all were taken before; else 0."""
    armed = next((event["seq"] for event in run.events if event["ev"] in ("arm", "start")), None)
    place = len(freed) if armed is None else bisect_left(freed, (armed, 0))
    return freed[place - 1][1] if place else 0


def _was_blocked(history: History, run: Run) -> bool:
    """Whether the run met a closed gate or was delayed, so that its start depends on another run."""
    held_back = any(event["ev"] == "block" or event.get("delayed") for event in run.events)
    return held_back or run.id in history.busy


def l4_no_orphans(history: History) -> Iterator[Finding]:
    """No run stays running under a lease that ended two reaper periods ago, and none waits at a free gate."""
    yield from gates.l4_free_gates(history, calm=None if history.healed is None else recovered_by(history))
    if history.healed is None:
        return
    patience = 2 * history.settings["reap_every"] + SLACK
    for run in history.runs.values():
        steps = run.steps()
        following = [event for event, _, _ in steps[1:]] + [history.events[-1]]
        for (event, _, state), after in zip(steps, following, strict=False):
            if state.name != RunState.RUNNING:
                continue
            last_seq, last_time = after["seq"], after["t_store"]
            until = history.incarnations[state.inc].until(last_seq)
            if last_time - max(until, history.healed, event["t_store"]) > patience:
                yield last_seq, f"run {run.id} was running until {last_time} under a lease that ended at {until}"
