"""What a store must do, as a small pure model: no queues, no indexes, every rule as one comparison.

Instants are microseconds. The machine beside it makes the same call on a store and on the model and compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onthedot.run import TERMINAL, RunState, is_slot
from onthedot.verdict import Verdict

Key = tuple[str, int]  # trigger and slot: there is one job only


@dataclass
class Run:
    key: Key
    due_at: int
    expires_at: int | None
    state: RunState = RunState.SCHEDULED
    lease: str = ""
    holder: str = ""
    lapses_at: int = 0
    attempts: int = 0
    failures: int = 0
    recoveries: int = 0
    recorded: dict[str, str] = field(default_factory=dict)  # lease id -> outcome

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def free(self, now: int) -> bool:
        lapsed = self.state is RunState.RESERVED and self.lapses_at <= now
        return self.state is RunState.SCHEDULED or lapsed

    def held_under(self, lease: str, state: RunState) -> bool:
        return self.state is state and self.lease == lease

    def reserve(self, lease: str, holder: str, lapses_at: int) -> None:
        self.state, self.lease, self.holder, self.lapses_at = RunState.RESERVED, lease, holder, lapses_at

    def arm(self) -> None:
        self.state, self.expires_at = RunState.RUNNING, None
        self.attempts += 1

    def let_go(self) -> None:
        self.state, self.lease, self.holder = RunState.SCHEDULED, "", ""

    def end_attempt(self, verdict: Verdict) -> None:
        self.recorded[self.lease] = verdict.outcome
        self.failures += verdict.failed
        self.recoveries += verdict.recovered
        self.let_go()
        self.state = verdict.state
        if verdict.state is RunState.SCHEDULED:
            self.due_at = verdict.due_at


@dataclass
class Node:
    lease_until: int
    ttl: int = 0
    ended: bool = False

    def alive(self, now: int) -> bool:
        return not self.ended and now < self.lease_until


class Model:
    """The runs of one job and the nodes that work on them."""

    def __init__(self, start: int) -> None:
        self.runs: dict[int, Run] = {}
        self.keys: dict[Key, int] = {}
        self.nodes: dict[str, Node] = {}
        self.pruned: dict[int, Run] = {}
        self.watermark = start
        self.given: dict[int, tuple[str, int | None]] = {}  # slots with a fate given ahead: the reason, and the run

    def add(self, run_id: int, key: Key, expires_at: int | None) -> None:
        """A new run under this id; or the one that had the key already, and then the id must be the same."""
        known = self.keys.setdefault(key, run_id)
        assert known == run_id, f"{key}: expected run {known}, got {run_id}"
        if run_id not in self.runs:
            self.runs[run_id] = Run(key, key[1], expires_at)
        assert self.runs[run_id].key == key, f"run {run_id} was given out for two keys"

    def due(self, now: int) -> set[int]:
        """What may be taken and armed."""
        return {i for i, run in self.runs.items() if run.due_at <= now and run.free(now) and not run.expired(now)}

    def ahead(self, now: int, horizon: int) -> set[int]:
        """What may be reserved."""
        near = [i for i, run in self.runs.items() if now < run.due_at <= now + horizon]
        return {i for i in near if self.runs[i].state is RunState.SCHEDULED and not self.runs[i].expired(now)}

    def orphans(self, now: int) -> set[int]:
        running = [i for i, run in self.runs.items() if run.state is RunState.RUNNING]
        return {i for i in running if not self.nodes[self.runs[i].holder].alive(now)}

    def held(self, incarnation: str) -> dict[int, str]:
        return {i: run.lease for i, run in self.runs.items() if run.lease and run.holder == incarnation}

    def finish(self, run_id: int, lease: str, verdict: Verdict) -> bool:
        if run_id in self.pruned:
            return False
        run = self.runs[run_id]
        if run.held_under(lease, RunState.RUNNING):
            run.end_attempt(verdict)
            return True
        return run.recorded.get(lease) == verdict.outcome

    def reap(self, run_id: int, lease: str, verdict: Verdict, now: int) -> bool:
        run = self.run(run_id)
        if not run.held_under(lease, RunState.RUNNING) or self.nodes[run.holder].alive(now):
            return False
        self.nodes[run.holder].ended = True
        run.end_attempt(verdict)
        return True

    def release(self, run_id: int, lease: str) -> bool:
        run = self.run(run_id)
        if not run.held_under(lease, RunState.RESERVED):
            return False
        run.let_go()
        return True

    def leave(self, incarnation: str) -> None:
        self.nodes[incarnation].ended = True
        for run in self.runs.values():
            if run.state is RunState.RESERVED and run.holder == incarnation:
                run.let_go()

    def expire(self, now: int) -> set[int]:
        missed = {i for i, run in self.runs.items() if run.expired(now) and run.free(now)}
        for run_id in missed:
            self.runs[run_id].let_go()
            self.runs[run_id].state = RunState.SKIPPED
        return missed

    def may_except(self, trigger: str, slot: int, reason: str, asked: Key | None, now: int) -> bool:
        """Whether a slot may be given this fate; `asked` is the key of the run in its place."""
        if slot in self.given:
            return self.given[slot] == (reason, None if asked is None else self.keys.get(asked, 0))
        run = self.runs.get(self.keys.get((trigger, slot), 0))
        if run is not None and run.state not in TERMINAL:
            return not run.attempts
        return slot > max(self.watermark, now)

    def except_slot(self, trigger: str, slot: int, reason: str, run_id: int | None) -> None:
        if slot not in self.given and (trigger, slot) in self.keys:
            skipped = self.runs[self.keys[trigger, slot]]
            skipped.let_go()
            skipped.state = RunState.SKIPPED
        self.given[slot] = (reason, run_id)

    def run(self, run_id: int) -> Run:
        """A run, also one that was pruned: a lease may be older."""
        return self.runs.get(run_id) or self.pruned[run_id]

    def prune(self, ended: set[int], states: frozenset[RunState], now: int) -> set[int]:
        """Of runs that ended long enough ago, those in these states go; slots only at or below the watermark."""
        going = {i for i in ended if self.runs[i].state in states}
        settled = min(now, self.watermark)
        going = {i for i in going if not is_slot(self.runs[i].key[0]) or self.runs[i].key[1] <= settled}
        for run_id in going:
            self.pruned[run_id] = self.runs.pop(run_id)
            del self.keys[self.pruned[run_id].key]
        return going

    def ended(self) -> set[int]:
        return {i for i, run in self.runs.items() if run.state in TERMINAL}
