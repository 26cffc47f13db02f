"""Rules for gates: limits (S5), fences (S6), overlap (S11), and no wait at an open gate (L4).

The holders of a gate follow from the events, not from the store's answers. A run holds the gates that its `arm` names:
a limit while it is running, an overlap gate until its end. A run that its rate delays holds its overlap gate already. A
gate that has passed to a waiting run counts as held only when that run is armed. If another run took it in between,
there is one holder too many then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from onthedot.model.run import RunState, is_slot
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, Run, State, is_step

Finding = tuple[int, str]

PATIENCE = 10_000_000  # µs: how long a run may wait at a free gate
DISTURBING = frozenset({"crash", "freeze", "stop", "cut", "deaf", "flaky", "slow", "late", "skew"})


class Holders:
    """Which runs hold which gate, updated event by event."""

    def __init__(self) -> None:
        self.of_gate: defaultdict[str, set[int]] = defaultdict(set)
        self._of_run: defaultdict[int, dict[str, bool]] = defaultdict(dict)  # key → whether until the end

    def take(self, event: Event, before: State, after: State) -> list[tuple[str, int, bool, set[int]]]:
        """The gates that this event newly takes: key, capacity, whether until the end, and the other holders. A run
        that waits at its second gate, or that its rate delays, keeps its overlap gate."""
        gates = event.get("gates", ())
        if event["ev"] == "block":
            gates = [gate for gate in gates[: [key for key, _, _ in gates].index(event["gate"])] if gate[2]]
        elif before == after or not (event["ev"] == "arm" or event.get("delayed")):
            return []
        run, taken = event["run"], []
        for key, capacity, until_end in gates:
            taken.append((key, capacity, until_end, self.of_gate[key] - {run}))
            self.of_gate[key].add(run)
            self._of_run[run][key] = until_end
        return taken

    def leave(self, event: Event, before: State, after: State) -> list[str]:
        """The gates that open because the run is over, leaves its line, or is delayed by its rate."""
        run = event["run"]
        if run not in self._of_run:
            return []
        out = before.name == RunState.RUNNING and after.name != RunState.RUNNING
        aside = event["ev"] in ("aside", "hold") or event.get("delayed")
        out = out or bool(aside and before.name != RunState.RUNNING)
        opened = [key for key, until_end in self._of_run[run].items() if after.terminal or (out and not until_end)]
        for key in opened:
            self.of_gate[key].discard(run)
            del self._of_run[run][key]
        return opened


def s5_limits(history: History) -> Iterator[Finding]:
    """No limit has more holders than its capacity."""
    holders = Holders()
    for event, run, before, after in history.moves:
        for key, capacity, until_end, others in holders.take(event, before, after):
            if not until_end and len(others) >= capacity:
                yield event["seq"], f"run {run.id} passed {key} of capacity {capacity}, held by {sorted(others)}"
        holders.leave(event, before, after)


def s6_fences(history: History) -> Iterator[Finding]:
    """Fences grow along each overlap gate."""
    newest: defaultdict[str, int] = defaultdict(int)
    for event, run, before, after in history.moves:
        if event["ev"] != "arm" or before == after:
            continue
        for key, _, until_end in event.get("gates", ()):
            if until_end:
                if event["fence"] <= newest[key]:
                    yield event["seq"], f"fence {event['fence']} of run {run.id} follows {newest[key]} at {key}"
                newest[key] = event["fence"]


def s11_overlap(history: History) -> Iterator[Finding]:
    """A job that does not overlap itself has at most one run between its first arm and its end. A run is skipped only
    while another holds the gate. Only slots are replaced. Executions overlap in time only if the older one's node was
    frozen, cut off or killed."""
    holders = Holders()
    waited: defaultdict[str, set[int]] = defaultdict(set)
    no_slots: set[str] = set()  # leases
    ended: set[int] = set()
    for event, run, before, after in history.moves:
        for key, _, until_end, others in holders.take(event, before, after):
            if until_end and others:
                yield event["seq"], f"run {run.id} was armed while {sorted(others)} have not ended, at {key}"
        if event["ev"] == "block":
            waited[event["gate"]].add(run.id)
            if _is_older(history.runs.get(event["holder"]), run):
                waited[event["gate"]].add(event["holder"])  # overdue slots start in order: the older one comes first
        if event["ev"] == "expire" and event["reason"] == "overlap":
            key, named = event.get("gate", ""), event.get("holder", 0)
            asking = [run, *(history.runs[other] for other in waited[key])]
            comes_first = named not in ended and all(_is_older(history.runs.get(named), other) for other in asking)
            if named not in holders.of_gate[key] | waited[key] and not comes_first:  # an open gate goes to the oldest
                yield (
                    event["seq"],
                    f"run {run.id} was skipped, but {key or 'its gate'} was not held by run {named or '(none)'}",
                )
        if event["ev"] == "cancel" and event["why"] == "replaced" and run.key and not is_slot(run.key[1]):
            yield event["seq"], f"run {run.id} was replaced, but it is no slot: {run.key[1]}"
        if event["ev"] == "arm" and not is_slot(event["trigger"]):
            no_slots.add(event["lease"])
        holders.leave(event, before, after)
        if after.terminal:
            ended.add(run.id)
            for waiting in waited.values():
                waiting.discard(run.id)
    for beat in history.by["beat"]:
        for lease, why in beat.get("cancels", ()):
            if why == "replaced" and lease in no_slots:
                yield beat["seq"], f"lease {lease} is asked to stop for a slot, but is of no slot itself"
    yield from _physical(history)


@dataclass(slots=True)
class _Execution:
    """One attempt as the job itself recorded it. Without an end event it ended with its process."""

    run: int
    node: str
    seq: int
    fence: int
    armed: int
    steady: int  # the instant of its arm on the steady clock
    start: int
    end: int


def _is_older(one: Run | None, other: Run) -> bool:
    """Whether both are slots of one job, and `one` is the older."""
    if one is None or one.key is None or other.key is None:
        return False
    (job_id, mine, my_slot, my_target), (other_job, others, slot, target) = one.key, other.key
    alike = (job_id, my_target) == (other_job, target) and is_slot(mine) and is_slot(others)
    return alike and my_slot < slot


def _physical(history: History) -> Iterator[Finding]:
    for key, executions in _executions(history).items():
        executions.sort(key=lambda one: one.seq)
        current: list[_Execution] = []
        for this in executions:
            current = [one for one in current if one.end > this.start]
            for other in current:
                older = min(this, other, key=lambda one: one.fence)
                if not _disturbed(history, older, this):
                    yield this.seq, f"run {this.run} started at {key} while run {other.run} executes on {other.node}"
            current.append(this)


def _executions(history: History) -> dict[str, list[_Execution]]:
    """The executions by overlap gate."""
    exits = {event["node"]: event["t_store"] for event in history.by["exit"]}
    found: defaultdict[str, list[_Execution]] = defaultdict(list)
    for run in history.runs.values():
        ends = {event["fence"]: event["t_store"] for event in run.ends}
        arms = {event["fence"]: event for event in reversed(run.events) if event["ev"] == "arm"}
        for start in run.starts:
            fence = start["fence"]
            end = min(ends.get(fence, history.end), exits.get(start["node"], history.end))
            for key, _, until_end in arms[fence].get("gates", ()) if fence in arms else ():
                if until_end:
                    armed, steady = arms[fence]["t_store"], arms[fence]["t_mono"]
                    one = _Execution(run.id, start["node"], start["seq"], fence, armed, steady, start["t_store"], end)
                    found[key].append(one)
    return found


def _disturbed(history: History, older: _Execution, other: _Execution) -> bool:
    """Whether a fault after the arm can have cost the older execution's node its lease."""
    machine = older.node.partition("#")[0]
    ttl = history.settings["node_ttl"]
    if any(older.steady - ttl <= event["t_mono"] <= other.steady for event in history.by["nemesis"] if is_step(event)):
        return True  # setting the clock may end all leases
    return any(
        event["on"] == machine
        and event["kind"] in DISTURBING
        and event["t_store"] <= other.start
        and event["t_store"] + event["length"] >= older.armed
        for event in history.by["nemesis"]
    )


# ── no wait at an open gate ──────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Waiter:
    """A run that waits at a gate."""

    run: Run
    gate: str
    capacity: int
    since: int


class _Waits:
    """Which runs wait at which gate, and since when gates have room."""

    def __init__(self, history: History, calm: int) -> None:
        self._history = history
        self._calm = calm
        self._waiters: dict[int, _Waiter] = {}
        self._changed: defaultdict[str, int] = defaultdict(int)  # gate → when it last lost a holder
        self._holders = Holders()

    def findings(self) -> Iterator[Finding]:
        for event, run, before, after in self._history.moves:
            if event["ev"] != "prune":
                yield from self._check_wait(self._waiters.pop(run.id, None), event)
            for key, _, _ in event.get("gates", ()) if event["ev"] == "arm" else ():
                for waiter in [waiter for waiter in self._waiters.values() if waiter.gate == key]:
                    yield from self._check_wait(waiter, event)
            self._holders.take(event, before, after)
            for key in self._holders.leave(event, before, after):
                self._changed[key] = event["t_store"]
            if event["ev"] == "block":
                [capacity] = [capacity for key, capacity, _ in event["gates"] if key == event["gate"]]
                self._waiters[run.id] = _Waiter(run, event["gate"], capacity, event["t_store"])
        for waiter in self._waiters.values():
            yield from self._check_wait(waiter, self._history.events[-1])

    def _check_wait(self, waiter: _Waiter | None, event: Event) -> Iterator[Finding]:
        """A wait is over, or another run takes the gate. Report it if the gate was free for too long before."""
        if waiter is None or len(self._holders.of_gate[waiter.gate]) >= waiter.capacity:
            return
        job_id = waiter.run.key[0] if waiter.run.key else 0
        if self._history.is_kept(waiter.run, event["seq"]):
            return
        resumed = max(self._history.resumed_at(job_id, event["seq"]), self._history.opened_at(waiter.run, event["seq"]))
        free = max(self._changed[waiter.gate], waiter.since, self._calm, resumed)
        if event["t_store"] - free > PATIENCE:
            yield (
                event["seq"],
                f"run {waiter.run.id} waited at {waiter.gate}, which was free for {event['t_store'] - free} µs",
            )


def l4_free_gates(history: History, *, calm: int | None) -> Iterator[Finding]:
    """No run waits for long at a gate with room, and the recount never has to free one."""
    for event in history.by["recount"]:
        yield event["seq"], f"{event['freed']} runs waited at gates that had been left closed"
    if calm is not None:
        yield from _Waits(history, calm).findings()
