"""Gates, in dictionaries: who holds them, who waits, and to whom an open one passes."""

from __future__ import annotations

from itertools import takewhile

from onthedot.clock import Micros
from onthedot.policy.gates import giving_way, kept_while_waiting
from onthedot.rate import RateGate, next_start, wait_reason
from onthedot.run import (
    ArmAnswer,
    Blocked,
    Busy,
    Delayed,
    Gate,
    GateAsk,
    OnBusy,
    RunRecord,
    RunState,
    Skipped,
    is_slot,
    schedule_of,
    why_skipped,
)
from onthedot.stores.hints import Hint
from tests.review.dictionaries.tables import Run, Tables


class Gates(Tables):
    """What `arm` does at gates."""

    def pass_gates(self, run: Run, ask: GateAsk, now: Micros) -> ArmAnswer | None:
        """Take the run's gates in order; None if it has them all, or what became of it."""
        taken: list[Gate] = []
        for place, gate in enumerate(ask.gates):
            if any(held.key == gate.key for held in run.gates):
                continue
            earlier = self._earlier(run) if gate.until_end and ask.on_busy is None else None
            if earlier is not None:
                self.open_gates(taken, run)
                return Busy(gate.key, earlier)
            if gate.until_end and ask.on_busy is not None and ask.on_busy.overdue:
                skipped, ask = self._catch_up(run, gate, ask, ask.on_busy, now)
                if skipped is not None:
                    return skipped
            if len(self.holders[gate.key]) >= gate.capacity and ask.on_busy is not None and gate.until_end:
                self._clear_the_way(run, gate, ask.on_busy, now)
            if len(self.holders[gate.key]) >= gate.capacity and ask.on_busy is not None and not gate.until_end:
                self.take_back(gate.key, now, wanted=True)
            others = self.holders[gate.key]
            displaced = len(others) >= gate.capacity and ask.on_busy and self._displace(run, ask.gates[place:])
            if len(others) < gate.capacity:
                others.add(run.id)
                run.gates.append(gate)
                taken.append(gate)
                if displaced:
                    self.pass_on(gate.key)
            elif ask.on_busy is None:
                self.open_gates(taken, run)
                return Busy(gate.key, min(others))
            else:
                return self._wait_or_skip(run, ask, place, now)
        closed = None if ask.rate is None else self._keep_rate(run, ask.rate, now, due=ask.on_busy is not None)
        if isinstance(closed, Busy):
            self.open_gates(taken, run)
        else:
            self._keep_only(run, ask.gates)
        return closed

    def _earlier(self, run: Run) -> int | None:
        """A run of the same job that is due before this one, and has not begun: it is first at their gate."""
        earlier = [
            (other.due_at, other.id)
            for other in self.of_job[run.key.job_id].values()
            if other.due_at < run.due_at and other.key.target == run.key.target and other.state is not RunState.RUNNING
        ]
        return min(earlier)[1] if earlier else None

    def _catch_up(
        self, run: Run, gate: Gate, ask: GateAsk, answer: OnBusy, now: Micros
    ) -> tuple[Skipped | None, GateAsk]:
        """Apply the rule for overdue slots: skip the run, or let it wait behind the slots that are due before it."""
        newer = self._newer(run, now)
        if answer.overdue != "wait":
            if newer is None:
                return None, ask
            self.skip(run, answer.overdue, now, error=why_skipped(answer.overdue, newer))
            return Skipped(gate.key, newer, answer.overdue), ask
        older = self.first_older(run, now)
        if older is not None and len(self.holders[gate.key]) < gate.capacity:
            self.put_first(older, gate, now)
        if not answer.late and newer is None and older is None and not self._is_caught_up(run, gate):
            return None, ask
        run.caught_up_at = now
        return None, ask._replace(on_busy=OnBusy("wait"))

    def _newer(self, run: Run, now: Micros) -> int | None:
        """The newest slot of the same schedule that had its turn and has ended, or that is due.

        Its run, or 0 if it is not planned yet.
        """
        since = takewhile(lambda ended: (ended.ended_at or 0) >= run.due_at, reversed(self.finished.values()))
        newer = [(ended.slot_at, ended.id) for ended in since if self._has_passed(run, ended)] or [
            (other.key.slot_at, other.id)
            for other in self.runs_of(run.key.job_id, run.key.trigger)
            if other.key.slot_at > run.key.slot_at and other.due_at <= now and other.key.target == run.key.target
        ]
        if newer:
            return max(newer)[1]
        state = self.schedules[run.key.job_id].get(schedule_of(run.key.trigger))
        return 0 if state is not None and state.next_at is not None and state.next_at <= now else None

    def _has_passed(self, run: Run, ended: RunRecord) -> bool:
        """Whether a run that has ended was for a newer slot of the same schedule, and had its turn."""
        key, mine = self.finished_keys[ended.id], run.key
        alike = (key.job_id, key.trigger, key.target) == (mine.job_id, mine.trigger, mine.target)
        had_turn = ended.attempts > 0 or (ended.state is RunState.SKIPPED and ended.reason == "overlap")
        return alike and had_turn and key.slot_at > mine.slot_at

    def _is_caught_up(self, run: Run, gate: Gate) -> bool:
        """Whether the run was due already when slots at this gate were caught up: it is one of them."""
        others = [self.runs[run_id] for run_id in self.holders[gate.key]] + [one for one, _ in self.waiters(gate.key)]
        return any(other.caught_up_at is not None and other.caught_up_at >= run.due_at for other in others)

    def _displace(self, run: Run, gates: tuple[Gate, ...]) -> bool:
        """Take places at the first of these gates from younger runs that do not run, if the run can pass them all then.
        Those are ready, and ask again when they are armed."""
        going = [self._giving_way(run, gate) for gate in gates]
        if not going[0] or None in going:
            return False
        for holder in going[0]:
            self.drop_place(gates[0].key, self.runs[holder])
        return True

    def _giving_way(self, run: Run, gate: Gate) -> list[int] | None:
        holders = self.holders.get(gate.key, set())
        if run.id in holders:
            return []
        idle = [(other.due_at, other.id) for other in self.idle_holders(gate.key)]
        return giving_way((run.due_at, run.id), idle, holders=len(holders), capacity=gate.capacity)

    def _not_missed(self, run: Run) -> None:
        """A slot that waits at a gate, or was granted an instant, is not missed. An expiry that somebody asked for
        counts whatever keeps the run waiting."""
        if is_slot(run.key.trigger):
            run.expires_at = None

    def _keep_only(self, run: Run, gates: tuple[Gate, ...]) -> None:
        """Give up all other gates: those of another definition, and limits that a run which waits does not use."""
        kept = {gate.key for gate in gates}
        self.open_gates([gate for gate in run.gates if gate.key not in kept], run)

    def _keep_rate(self, run: Run, gate: RateGate, now: Micros, *, due: bool) -> ArmAnswer | None:
        """None if the run may start at its instant; else, once it is due, it is given another one."""
        start = max(now, run.due_at)  # armed ahead, it starts when it is due
        granted_at = run.granted_at if run.granted_by == gate.key else None
        instant, tat = next_start(gate, self.rates.get(gate.key), start=start, granted_at=granted_at)
        if instant > start and not due:
            return Busy(gate.key, 0)
        if tat is not None:
            self.rates[gate.key] = tat
        return None if instant <= start else self._delay(run, gate, instant)

    def _delay(self, run: Run, gate: RateGate, until: Micros) -> ArmAnswer:
        """Let a run start at another instant. It gives its places in limits to others meanwhile."""
        run.delayed_under = run.lease.lease_id if run.lease else ""
        run.state = RunState.SCHEDULED
        run.lease = None
        self._not_missed(run)
        run.reason = wait_reason(gate, until)
        run.due_at = run.granted_at = until
        run.granted_by = gate.key
        self.wait(run, until)
        self.open_gates([held for held in run.gates if not held.until_end], run)
        self.hints.send(Hint("runs", until))
        return Delayed(gate.key, until)

    def _clear_the_way(self, run: Run, gate: Gate, answer: OnBusy, now: Micros) -> None:
        """Replace: end slots that wait or back off, and ask one that runs to stop. What somebody asked for stays.

        Who is ended leaves the instant that a rate gave it to the run: slots that come faster than the rate would
        otherwise replace each other for ever, and none would start.
        """
        if answer.action != "replace":
            return
        for waiting in self._waiting_slots(gate):
            self.skip(waiting, "replaced", now, error=why_skipped("replaced", run.id))
        holders = [self.runs[run_id] for run_id in self.holders[gate.key]]
        for holder in [one for one in holders if is_slot(one.key.trigger) and one.caught_up_at is None]:
            if holder.state is RunState.RUNNING:
                self.ask_to_stop(holder, "replaced", now)
            else:
                if run.granted_at is None:
                    run.granted_at, run.granted_by = holder.granted_at, holder.granted_by
                holder.reason = "replaced"
                self.end_run(holder, RunState.CANCELLED, now)

    def _wait_or_skip(self, run: Run, ask: GateAsk, place: int, now: Micros) -> ArmAnswer:
        gate, answer = ask.gates[place], ask.on_busy
        holder = min(self.holders[gate.key])
        if gate.until_end and answer is not None:
            full = answer.max_waiting is not None and len(self._waiting_slots(gate)) >= answer.max_waiting
            if answer.action == "skip" or full:
                self.skip(run, "overlap", now, error=why_skipped("overlap", holder))
                return Skipped(gate.key, holder)
        self._keep_only(run, kept_while_waiting(ask.gates[:place]))
        run.state = RunState.SCHEDULED
        run.lease = None
        self._not_missed(run)
        run.reason = f"waits for run {holder}"
        self.block(run, gate)
        return Blocked(gate.key, holder)

    def _waiting_slots(self, gate: Gate) -> list[Run]:
        """The slots that wait at a gate and came at their time."""
        return [run for run, _ in self.waiters(gate.key) if is_slot(run.key.trigger) and run.caught_up_at is None]
