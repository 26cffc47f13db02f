"""Rule S28: which of several overdue slots runs, in which order, and whether the reason of each skip is true.

Slots of one schedule are overdue together after an outage of nodes or of the store, and when no seat was free:

| overlap | catch-up none, last | catch-up all |
|---|---|---|
| wait | those less than `late_after` late, one after the other in order; under last the newest | all, in order |
| allow | the same slots, side by side | all |
| skip | only the newest; older ones are skipped(missed) | all, in order |
| replace | only the newest; older ones are skipped(replaced) | all, in order |

A slot is on time if its worker first asked for its gates less than `TOLERANCE` after its due instant. Otherwise it is
caught up. Near that limit both are right. S14 judges the slots of a resume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from onthedot.model.duration import micros
from onthedot.model.job import FixedDelay, Job, Schedule, overlap_of
from onthedot.model.run import is_slot, schedule_of, slot_trigger
from onthedot.schedules import due_of, schedule_id, slots
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, Key, Run, State, key_of

Finding = tuple[int, str]
Line = tuple[int, str, str]
"""(job id, trigger, target): a sequence of slots."""

Name = tuple[int, str]
"""(job id, schedule id)"""

TOLERANCE = 1_000_000  # µs: a slot that asks this late may count as on time or as caught up
LATE_AFTER = 30_000_000  # µs: the default of the settings


@dataclass(slots=True)
class _Slot:
    """A planned slot whose run has neither started nor ended."""

    key: Key
    due: int
    planned: int  # when it was planned, by the store's clock
    resumed: bool = False  # whether a resume planned it
    asked: int | None = None  # when its worker first asked for its gates

    def came_late(self, now: int) -> bool:
        """Whether it is surely caught up. Without an earlier ask, `now` is its first."""
        return (now if self.asked is None else self.asked) > self.due + TOLERANCE

    def may_be_on_time(self) -> bool:
        return self.asked is not None and self.asked <= self.due + TOLERANCE


class _Overdue:
    """All open slots, updated event by event."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._moves = {event["seq"]: (run, before, after) for event, run, before, after in history.moves}
        self._lines: defaultdict[Line, dict[int, _Slot]] = defaultdict(dict)
        self._rules: defaultdict[Name, list[tuple[Job, Schedule, int]]] = defaultdict(list)
        self._origins: dict[Name, int] = {}
        self._skips: defaultdict[Name, list[Event]] = defaultdict(list)
        self._fresh: defaultdict[int, list[_Slot]] = defaultdict(list)  # by job: planned by the change that comes next
        self._changed: defaultdict[int, int] = defaultdict(int)  # job → when it was last changed
        self._armed: dict[int, int] = {}  # run → when it first asked for its gates, or else its first arm
        self._newest: defaultdict[Line, int] = defaultdict(int)  # the newest slot that has started
        self._waiting: defaultdict[str, dict[int, _Slot]] = defaultdict(dict)  # gate → run → its slot
        self._late_after = history.settings.get("late_after", LATE_AFTER)

    def findings(self) -> Iterator[Finding]:
        for event in self._history.events:
            match event["ev"]:
                case "plan":
                    yield from self._plan(event)
                case "skip":
                    self._skips[event["job_id"], event["schedule"]].append(event)
                case "withdraw":
                    self._forget(key_of(event))
                case "edit" | "pause" | "resume" | "delete":
                    self._change(event)
            move = self._moves.get(event["seq"])
            if move is not None:
                yield from self._move(event, *move)

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, event: Event) -> Iterator[Finding]:
        name = event["job_id"], event["schedule"]
        skips = self._skips.pop(name, [])
        trigger, now = slot_trigger(event["schedule"]), event["t_store"]
        for target in event.get("targets", [""]):
            line = self._lines[event["job_id"], trigger, target]
            for instant in event["slots"]:
                slot = line[instant] = _Slot((name[0], trigger, instant, target), self._due(name, instant), now)
                if not event["term"]:
                    self._fresh[event["job_id"]].append(slot)
        for skip in skips if event["term"] else ():  # slots that an edit skips were never due
            if skip["reason"] == "missed" and not self._may_be_missed(name, skip["last"], event):
                yield skip["seq"], f"slots up to {skip['last']} of {name[0]}/{name[1]} were skipped as missed too early"

    def _change(self, event: Event) -> None:
        job_id = event["job_id"]
        self._changed[job_id] = event["t_store"]
        fresh = self._fresh.pop(job_id, [])
        for slot in fresh if event["ev"] == "resume" else ():
            slot.resumed = True
        if event["ev"] != "edit":
            return
        for schedule, (_, after) in event["marks"].items():
            if after is not None:
                self._origins[job_id, schedule] = after["origin"]
        known = self._history.job(job_id, event["seq"] + 1)
        if known is None:
            return
        for rule in known[1].schedules:
            name = job_id, schedule_id(rule)
            self._rules[name].append((known[1], rule, self._origins.get(name, 0)))
        for slot in fresh:  # their rule was unknown before
            slot.due = self._due(_name(slot), slot.key[2])

    def _due(self, name: Name, slot: int) -> int:
        rules = self._rules.get(name)
        return _due(rules[-1][0], rules[-1][1], slot) if rules else slot

    def _forget(self, key: Key) -> None:
        self._lines[key[0], key[1], key[3]].pop(key[2], None)

    # ── starts and skips ─────────────────────────────────────────────────────────────────────────────────────

    def _move(self, event: Event, run: Run, before: State, after: State) -> Iterator[Finding]:
        if run.key is None or not is_slot(run.key[1]):
            return
        slot = self._lines[run.key[0], run.key[1], run.key[3]].get(run.key[2])
        sent: int = event["sent"] if "sent" in event else event["t_store"]
        if slot is not None and run.key[0] not in self._history.deleted:
            known = self._history.job(run.key[0], event["seq"])
            for what in self._check_slot(event, slot, known[1], sent) if known is not None else ():
                yield event["seq"], what
        if event["ev"] in ("aside", "hold", "arm") or after.terminal:
            for line in self._waiting.values():
                line.pop(run.id, None)
        if event["ev"] == "arm" and before != after:
            asked = None if slot is None else slot.asked  # since then it holds its gate or its place in line
            self._armed.setdefault(run.id, event["t_store"] if asked is None else asked)
            name = run.key[0], run.key[1], run.key[3]
            self._newest[name] = max(self._newest[name], run.key[2])
            self._forget(run.key)
        elif after.terminal:
            self._forget(run.key)
        elif slot is not None and (event["ev"] == "block" or event.get("delayed")):
            slot.asked = sent if slot.asked is None else slot.asked
            if event["ev"] == "block":
                self._waiting[event["gate"]][run.id] = slot

    def _check_slot(self, event: Event, slot: _Slot, job: Job, sent: int) -> Iterator[str]:
        told = f"run {event['run']} of {job.name}, slot {slot.key[2]},"
        match event["ev"], event.get("reason"):
            case "arm", _ if event["run"] not in self._armed:
                yield from self._check_start(slot, job, sent, told)
            case "expire", "overlap":
                yield from self._check_overlap(event, slot, job, sent, f"{told} is skipped(overlap)")
            case "expire", "missed":
                if not slot.resumed and not self._may_be_missed(_name(slot), slot.key[2], event):
                    yield f"{told} is skipped(missed) {sent - slot.due} µs after it was due"
            case "expire", "replaced":
                yield from self._check_replaced(event, slot, job, sent, f"{told} is skipped(replaced)")
            case "block", _ if event.get("stops"):
                yield from self._check_stop(event, slot, job, sent, told)

    def _check_start(self, slot: _Slot, job: Job, sent: int, told: str) -> Iterator[str]:
        """A caught-up slot must be the first of its line, or the only one."""
        mode, (job_id, trigger, _, target) = overlap_of(job).mode, slot.key
        if mode == "allow" or slot.resumed or not slot.came_late(sent):
            return
        line = self._lines[job_id, trigger, target].values()
        others = [other for other in line if other is not slot and not other.resumed and other.planned <= sent]
        if any(self._changed[job_id] >= other.due for other in (slot, *others)):
            return
        if mode == "wait" or job.catch_up.mode == "all":
            older = [other.key[2] for other in others if other.due < slot.due and not self._is_over(other, sent)]
            if older and job.assignment != "leader":
                yield f"{told} started before the older slot {min(older)}"
        else:
            asked = sent if slot.asked is None else slot.asked  # it may have waited at a limit since
            newer = [other.key[2] for other in others if slot.due < other.due <= asked - TOLERANCE]
            newer += [begun for begun in [self._newest[job_id, trigger, target]] if begun > slot.key[2]]
            if newer:
                yield f"{told} started although the newer slot {max(newer)} was due or had started"

    def _check_overlap(self, event: Event, slot: _Slot, job: Job, sent: int, told: str) -> Iterator[str]:
        """Only a slot on time is skipped for an overlap, and only under `wait` and `skip`."""
        overlap = overlap_of(job)
        if overlap.mode in ("allow", "replace"):
            yield f"{told}, but its overlap is {overlap.mode}"
        elif not slot.came_late(sent):
            waiting = sum(
                one is not slot and one.may_be_on_time() for one in self._waiting[event.get("gate", "")].values()
            )
            if overlap.mode == "wait" and waiting < overlap.max_waiting:
                yield f"{told}, but only {waiting} of {overlap.max_waiting} slots on time wait"
        elif slot.resumed or self._changed[slot.key[0]] >= slot.due:
            return
        elif overlap.mode == "wait" or job.catch_up.mode == "all":
            yield f"{told} {sent - slot.due} µs after it was due"
        elif self._began_later(event.get("holder", 0), slot):
            yield f"{told} for run {event['holder']}, which is caught up as well"

    def _began_later(self, run_id: int, slot: _Slot) -> bool:
        """Whether a run is of the same schedule and started when this slot was overdue. Then both are caught up."""
        run = self._history.runs.get(run_id)
        alike = run is not None and run.key is not None and run.key[:2] == slot.key[:2]
        return alike and self._armed.get(run_id, 0) > slot.due + TOLERANCE

    def _check_replaced(self, event: Event, slot: _Slot, job: Job, sent: int, told: str) -> Iterator[str]:
        """A slot is replaced only by a newer one that is due. Under catch-up all only a slot on time is replaced."""
        mode, (job_id, _, _, target) = overlap_of(job).mode, slot.key
        if self._changed[job_id] >= slot.due:
            return
        lines = [line for (of, _, to), line in self._lines.items() if (of, to) == (job_id, target)]
        others = [other for line in lines for other in line.values() if other is not slot]
        is_newer = any(slot.due <= other.due <= sent + TOLERANCE for other in others)
        is_newer |= any(
            begun > slot.key[2] for (of, _, to), begun in self._newest.items() if (of, to) == (job_id, target)
        )
        if mode != "replace":
            yield f"{told}, but its overlap is {mode}"
        elif not is_newer and not self._has_newer(_name(slot), slot.key[2], event["t_store"]):
            yield f"{told}, but no newer slot is due"
        elif job.catch_up.mode == "all" and not slot.resumed and slot.came_late(sent):
            yield f"{told}, but its job catches up on all slots"

    def _check_stop(self, event: Event, slot: _Slot, job: Job, sent: int, told: str) -> Iterator[str]:
        """Under catch-up all, a caught-up slot does not stop another one."""
        if job.catch_up.mode != "all" or slot.resumed or self._changed[slot.key[0]] >= slot.due:
            return
        if slot.came_late(sent) and self._began_later(event["holder"], slot):
            yield f"{told} stops run {event['holder']}, but both are caught up, and their job catches up on all slots"

    # ── missed ───────────────────────────────────────────────────────────────────────────────────────────────

    def _may_be_missed(self, name: Name, instant: int, event: Event) -> bool:
        """Whether a slot has expired, or its job skips and a newer slot was due."""
        now, known = event["t_store"], self._history.job(name[0], event["seq"])
        if known is None or self._has_expired(name, instant, now):
            return True
        if overlap_of(known[1]).mode != "skip" or known[1].catch_up.mode == "all":
            return False
        return self._has_newer(name, instant, now)

    def _has_newer(self, name: Name, instant: int, now: int) -> bool:
        """Whether the slot after this one is due by any revision, planned or not."""
        newer = [_nth(job, rule, origin, instant, 1) for job, rule, origin in self._rules[name]]
        return any(due is not None and due <= now for due in newer)

    def _is_over(self, slot: _Slot, now: int) -> bool:
        return self._has_expired(_name(slot), slot.key[2], now)

    def _has_expired(self, name: Name, instant: int, now: int) -> bool:
        """Whether the slot has expired by any revision that may have planned it. True if no revision is known."""
        ends = [self._expires(instant, job, rule, origin) for job, rule, origin in self._rules[name]]
        return not ends or any(end is not None and now + TOLERANCE >= end for end in ends)

    def _expires(self, instant: int, job: Job, rule: Schedule, origin: int) -> int | None:
        """After `late_after`. Under last not before the next slot is due, under all not before the end of its window or
        limit."""
        due = _due(job, rule, instant)
        catch_up, at_least = job.catch_up, due + self._late_after
        if catch_up.mode == "none":
            return at_least
        if catch_up.mode == "last":
            later = _nth(job, rule, origin, instant, 1)
            return None if later is None else max(at_least, later)
        ends, later = due + micros(catch_up.window), _nth(job, rule, origin, instant, catch_up.limit)
        return max(at_least, ends if later is None else min(ends, later))


def _name(slot: _Slot) -> Name:
    return slot.key[0], schedule_of(slot.key[1])


def _due(job: Job, rule: Schedule, instant: int) -> int:
    """When the run of a slot is due. Jitter makes it later than the slot."""
    return instant if isinstance(rule, FixedDelay) else due_of(job, rule)(instant)


def _nth(job: Job, rule: Schedule, origin: int, instant: int, n: int) -> int | None:
    """When the n-th slot after a slot is due."""
    if isinstance(rule, FixedDelay):
        return None
    found = next(islice(slots(rule, instant, origin=origin), n - 1, None), None)
    return None if found is None else _due(job, rule, found)


def s28_overdue(history: History) -> Iterator[Finding]:
    """Overlap and catch-up decide which of several overdue slots run, and in which order. No slot is skipped for an
    overlap that only the catch-up causes. Caught-up slots do not count for `max_waiting`. A missed slot has expired,
    and a newer slot replaced a replaced one."""
    if not history.stepped:  # if the clock was set, lateness cannot be known
        yield from _Overdue(history).findings()
