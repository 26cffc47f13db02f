"""Rules for the fates of slots: unique (S1), no phantoms (S2), no silent miss (S4).

They compute the slots again from the stored definitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from onthedot.model.duration import micros
from onthedot.model.job import FixedDelay, Schedule
from onthedot.model.run import slot_trigger
from onthedot.model.window import NO_NODE
from onthedot.schedules import schedule_id, slots
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, Key, key_of

Finding = tuple[int, str]

_AHEAD = frozenset({"moved", "cancelled"})  # the fates that users give to slots ahead


def s1_unique(history: History) -> Iterator[Finding]:
    """Two plans with the same key are the same run. A slot is planned once, unless it was withdrawn in between. An
    instant of a dropped schedule that was due or armed is not planned again by the schedule that replaces it."""
    planned: set[Key] = set()
    armed: set[Key] = set()
    ids: dict[Key, int] = {}
    told: defaultdict[int, list[Event]] = defaultdict(list)  # per job: plans of the edit that comes next
    for event in history.events:
        match event["ev"]:
            case "edit":
                for seq, slot in _planned_again(event, told.pop(event["job_id"], []), planned, armed):
                    yield seq, f"instant {slot} of job {event['job_id']} was planned under two definitions"
            case "plan":
                if not event["term"]:
                    told[event["job_id"]].append(event)
                for key in _planned(event):
                    if key in planned:
                        yield event["seq"], f"slot {key[2]} of {key[0]}/{event['schedule']} was planned twice"
                    planned.add(key)
            case "withdraw":
                planned.discard(key_of(event))
                ids.pop(key_of(event), None)
            case "submit" | "follow" | "reserve" | "arm" | "expire":
                key = key_of(event)
                if event["ev"] == "arm":
                    armed.add(key)
                if ids.setdefault(key, event["run"]) != event["run"]:
                    yield event["seq"], f"key {key} is run {ids[key]} and run {event['run']}"


def _planned_again(edit: Event, plans: list[Event], planned: set[Key], armed: set[Key]) -> Iterator[Finding]:
    """The instants of an edit's new schedules for which dropped schedules have runs."""
    dropped = [slot_trigger(name) for name, (before, after) in edit["marks"].items() if before and not after]
    begun = [name for name, (before, after) in edit["marks"].items() if after and not before]
    for plan in [plan for plan in plans if dropped and plan["schedule"] in begun]:
        for slot in plan["slots"]:
            kept = planned if slot <= edit["t_store"] else armed
            keys = {(plan["job_id"], trigger, slot, to) for trigger in dropped for to in plan.get("targets", [""])}
            if keys & kept:
                yield plan["seq"], slot


def _planned(event: Event) -> list[Key]:
    """The keys of the runs of a plan: one for each slot and target."""
    trigger = slot_trigger(event["schedule"])
    return [(event["job_id"], trigger, slot, to) for slot in event["slots"] for to in event.get("targets", [""])]


def s2_no_phantom(history: History) -> Iterator[Finding]:
    """User code starts only for a run that was planned or submitted before, or that follows another."""
    known: set[Key] = set()
    seen: set[int] = set()
    for event in history.events:
        match event["ev"]:
            case "plan":
                known |= set(_planned(event))
            case "submit" | "follow":
                known.add(key_of(event))
            case "reserve" | "arm":
                if key_of(event) not in known:
                    yield event["seq"], f"run {event['run']} was never planned or submitted, and follows none"
                seen.add(event["run"])
            case "start":
                if event["run"] not in seen:
                    yield (
                        event["seq"],
                        f"attempt {event['attempt']} of run {event['run']} started, but was never reserved",
                    )


@dataclass(slots=True)
class _Ledger:
    """One schedule: its rule, its watermark, and the fates of its slots."""

    rule: Schedule
    origin: int
    watermark: int
    fates: dict[int, str] = field(default_factory=dict)
    last_end: int | None = None
    withdrawn: list[int] = field(default_factory=list)  # by the change that comes next
    ahead: set[int] = field(default_factory=set)  # slots whose fate was given ahead: it stays

    def slots(self, after: int, until: int) -> list[int]:
        return list(takewhile(until.__ge__, slots(self.rule, after, origin=self.origin)))


class _Ledgers:
    """The ledgers of all schedules, updated event by event."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ledgers: dict[tuple[int, str], _Ledger] = {}
        self._skips: defaultdict[tuple[int, str], list[Event]] = defaultdict(list)
        self._newest_armed: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._dropped_with: defaultdict[tuple[int, str], set[int]] = defaultdict(
            set
        )  # slots that had a fate when their schedule was dropped

    def findings(self) -> Iterator[Finding]:
        for event in self._history.events:
            match event["ev"]:
                case "plan" if event["term"]:
                    for what in self._plan(event):
                        yield event["seq"], what
                case "plan" | "skip" | "withdraw":
                    self._note(event)
                case "edit":
                    for what in self._edit(event):
                        yield event["seq"], what
                case "arm" if event["trigger"].startswith("schedule:"):
                    name = event["job_id"], event["trigger"].partition(":")[2]
                    self._newest_armed[name] = max(self._newest_armed[name], event["slot"])
                case "pause":
                    for what in self._pause(event):
                        yield event["seq"], what
                case "resume":
                    for what in self._resume(event):
                        yield event["seq"], what
                case "delete":
                    for name in [name for name in self._ledgers if name[0] == event["job_id"]]:
                        del self._ledgers[name]
                case "finish" | "reap" | "expire" | "cancel" if event.get("ok", True):
                    self._end(event)

    # ── fates ────────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, event: Event) -> None:
        """Keep part of an edit. It is judged when the edit itself comes."""
        if event["ev"] == "withdraw":
            ledger = self._ledgers.get((event["job_id"], event["trigger"].partition(":")[2]))
            if ledger is not None and event["slot"] in ledger.fates:
                del ledger.fates[event["slot"]]
                ledger.withdrawn.append(event["slot"])
            return
        self._skips[event["job_id"], event["schedule"]].append(event)

    def _end(self, event: Event) -> None:
        run = self._history.runs.get(event["run"])
        if (
            run is None
            or run.key is None
            or event["state"] == "scheduled"
            or event.get("kind", "cancelled") != "cancelled"
        ):
            return
        ledger = self._ledgers.get((run.key[0], run.key[1].partition(":")[2]))
        if ledger is None:
            return
        if run.key[2] > event["t_store"] and (event["ev"] == "cancel" or event.get("reason") in _AHEAD):
            ledger.ahead.add(run.key[2])
        ended = next((one for one, _, after in run.steps() if after.terminal), None)
        if isinstance(ledger.rule, FixedDelay) and event is ended:  # not for a repeated event
            ledger.last_end = event["ended"]

    def _record(self, ledger: _Ledger, name: tuple[int, str], planned: list[int]) -> Iterator[str]:
        """Record planned slots and the skips that came with them. Two fates for one slot are a violation."""
        for slot in planned:
            if slot in ledger.fates:
                yield f"slot {slot} of {name[0]}/{name[1]} was planned, but was {ledger.fates[slot]} before"
            ledger.fates[slot] = "planned"
        for skip in self._skips.pop(name, []):
            if skip["ev"] == "plan":
                yield from self._record(ledger, name, skip["slots"])
                continue
            covered = ledger.slots(skip["first"] - 1, skip["last"])
            covered = [slot for slot in covered if slot > skip["after"]]
            if len(covered) != skip["count"]:
                yield f"a skip of {skip['count']} slots of {name[0]}/{name[1]} covers {len(covered)}"
            ledger.ahead.update(covered if skip["reason"] in _AHEAD else ())
            if skip["reason"] == NO_NODE:  # it may be ahead, and sets the edge then
                self._newest_armed[name] = max(self._newest_armed[name], skip["last"])
            for slot in covered:
                if slot in ledger.fates:
                    yield f"slot {slot} of {name[0]}/{name[1]} was skipped, but was {ledger.fates[slot]} before"
                ledger.fates[slot] = "skipped"

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, event: Event) -> Iterator[str]:
        name = event["job_id"], event["schedule"]
        ledger = self._ledgers.get(name)
        if ledger is None:
            yield f"a plan was accepted for {name[0]}/{name[1]}, which does not exist"
            return
        if event["start"] != ledger.watermark:
            yield f"a plan for {name[0]}/{name[1]} continues from {event['start']}, not from {ledger.watermark}"
        if isinstance(ledger.rule, FixedDelay):
            yield from self._fixed_delay(ledger, event)
            return
        known = set(ledger.fates)
        yield from self._record(ledger, name, event["slots"])
        expected = ledger.slots(ledger.watermark, event["end"])
        yield from _compare(name, expected, [slot for slot in ledger.fates if slot not in known], ledger.ahead)
        ledger.watermark = event["end"]

    def _fixed_delay(self, ledger: _Ledger, event: Event) -> Iterator[str]:
        if len(event["slots"]) != 1:
            yield f"a fixed delay got {len(event['slots'])} slots at once"
        [slot] = event["slots"][:1] or [event["end"]]
        if not isinstance(ledger.rule, FixedDelay):
            raise TypeError(f"expected a fixed delay, got {ledger.rule!r}")
        earliest = 0 if ledger.last_end is None else ledger.last_end + micros(ledger.rule.delay)
        if slot < earliest:
            yield f"the slot {slot} of a fixed delay lies before {earliest}"
        ledger.fates[slot] = "planned"
        ledger.watermark = event["end"]

    # ── edits ────────────────────────────────────────────────────────────────────────────────────────────────

    def _edit(self, event: Event) -> Iterator[str]:
        [(_, _, job)] = [entry for entry in self._history.revisions[event["job_id"]] if entry[0] == event["seq"]]
        rules = {schedule_id(schedule): schedule for schedule in job.schedules}
        for schedule, (before, after) in event["marks"].items():
            name = event["job_id"], schedule
            if after is None:
                yield from self._dropped(name, event)
            elif before is None:
                if event["change"] == "changed" and not isinstance(rules[schedule], FixedDelay):
                    yield from self._check_start(name, event)
                ledger = self._ledgers[name] = _Ledger(rules[schedule], after["origin"], after["origin"])
                ledger.ahead |= self._dropped_with[name]  # a delayed edit adds it again
                yield from self._moved(ledger, name, ledger.origin, after["watermark"])
            else:
                yield from self._survived(name, rules[schedule], before["watermark"], after["watermark"], event)

    def _check_start(self, name: tuple[int, str], event: Event) -> Iterator[str]:
        """A new schedule starts with its edit: the old schedules count up to then."""
        plans = [one for one in self._skips[name] if one["ev"] == "plan"]
        past = [slot for plan in plans for slot in plan["slots"] if slot <= event["t_store"]]
        if past:
            yield f"an edit started {name[0]}/{name[1]} with {len(past)} slots before the edit, first {past[0]}"

    def _lost(self, ledger: _Ledger, name: tuple[int, str], edge: int) -> Iterator[str]:
        """An edit must not withdraw due slots."""
        lost = [slot for slot in ledger.withdrawn if slot <= edge]
        if lost and not isinstance(ledger.rule, FixedDelay):
            yield f"an edit withdrew {len(lost)} slots of {name[0]}/{name[1]} that were due, first {lost[0]}"

    def _survived(self, name: tuple[int, str], rule: Schedule, before: int, after: int, event: Event) -> Iterator[str]:
        """The old rule counts up to `edge`, and the new one after it. If the planner was behind, it stays behind."""
        ledger = self._ledgers[name]
        if before != ledger.watermark:
            yield f"the watermark of {name[0]}/{name[1]} was {before}, not {ledger.watermark}"
        edge = max(event["t_store"], self._newest_armed[name])
        yield from self._lost(ledger, name, edge)
        if after < min(before, edge):
            yield f"an edit moved the watermark of {name[0]}/{name[1]} from {before} back to {after}, below {edge}"
        if not isinstance(ledger.rule, FixedDelay):
            hidden = [slot for slot in ledger.slots(before, min(edge, after)) if slot not in ledger.fates]
            if hidden:
                yield f"an edit left {len(hidden)} slots of {name[0]}/{name[1]} without a fate, first {hidden[0]}"
        ledger.rule = rule
        yield from self._moved(ledger, name, edge, after)

    def _moved(self, ledger: _Ledger, name: tuple[int, str], start: int, end: int) -> Iterator[str]:
        """By this edit, each slot in (start, end] has its fate by the new rule, and no later slot has one."""
        yield from self._record(ledger, name, [])
        ledger.withdrawn.clear()
        ledger.watermark = end
        if not isinstance(ledger.rule, FixedDelay):
            fated = [slot for slot in ledger.fates if slot > start]
            yield from _compare(name, ledger.slots(start, end), fated, ledger.ahead)

    # ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────

    def _pause(self, event: Event) -> Iterator[str]:
        """The watermark goes back to now, or to the newest armed slot. Later slots have no fate any more."""
        for schedule, (before, after) in event["marks"].items():
            name = event["job_id"], schedule
            ledger, mark = self._ledgers[name], after["watermark"]
            if before["watermark"] != ledger.watermark:
                yield f"the watermark of {name[0]}/{schedule} was {before['watermark']}, not {ledger.watermark}"
            edge = max(event["t_store"], self._newest_armed[name])
            if not min(before["watermark"], edge) <= mark <= before["watermark"]:
                yield f"a pause moved the watermark of {name[0]}/{schedule} from {before['watermark']} to {mark}"
            lost = [slot for slot in ledger.withdrawn if slot <= mark]
            if lost and not isinstance(ledger.rule, FixedDelay):
                yield f"a pause withdrew {len(lost)} slots of {name[0]}/{schedule} for good, first {lost[0]}"
            ledger.withdrawn.clear()
            ledger.watermark = mark
            if not isinstance(ledger.rule, FixedDelay):
                yield from _compare(name, [], [slot for slot in ledger.fates if slot > mark], ledger.ahead)

    def _resume(self, event: Event) -> Iterator[str]:
        """By this resume, each slot of the pause and of its windows has its fate."""
        for schedule, (before, after) in event["marks"].items():
            name = event["job_id"], schedule
            ledger = self._ledgers[name]
            known = set(ledger.fates)
            yield from self._record(ledger, name, [])
            if before["watermark"] != ledger.watermark:
                yield f"a resume of {name[0]}/{schedule} continued from {before['watermark']}, not {ledger.watermark}"
            if not isinstance(ledger.rule, FixedDelay):
                expected = ledger.slots(ledger.watermark, after["watermark"])
                yield from _compare(name, expected, [slot for slot in ledger.fates if slot not in known], ledger.ahead)
            ledger.watermark = after["watermark"]

    def _dropped(self, name: tuple[int, str], event: Event) -> Iterator[str]:
        ledger = self._ledgers.pop(name)
        yield from self._lost(ledger, name, event["t_store"])
        yield from self._record(ledger, name, [])
        self._dropped_with[name] |= ledger.fates.keys()
        if not isinstance(ledger.rule, FixedDelay):
            now = event["t_store"]
            owed = [slot for slot in ledger.slots(ledger.watermark, now) if slot not in ledger.fates]
            if owed:
                yield f"an edit dropped {name[0]}/{name[1]} with {len(owed)} slots without a fate, first {owed[0]}"


def _compare(name: tuple[int, str], expected: list[int], found: list[int], ahead: set[int]) -> Iterator[str]:
    missing, strange = set(expected) - set(found) - ahead, set(found) - set(expected) - ahead
    if missing:
        yield f"{len(missing)} slots of {name[0]}/{name[1]} have no fate, first {min(missing)}"
    if strange:
        yield f"{len(strange)} fates of {name[0]}/{name[1]} are of no slot, first {min(strange)}"


def s4_no_silent_miss(history: History) -> Iterator[Finding]:
    """Each slot up to the watermark has one fate: planned, skipped with a reason, or withdrawn by an edit. An edit
    withdraws no due slot, and its new schedules start after it. The watermark only grows, except by an edit or a pause,
    and never goes below now or an armed slot."""
    yield from _Ledgers(history).findings()
