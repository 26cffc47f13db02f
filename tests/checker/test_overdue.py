"""S28 passes each cell of overlap and catch-up, and catches each way in which one can be wrong.

There are four slots, at 60, 64, 68 and 72 s. Run 1 is of the first slot, and so on. In most stories no node works
before 80 s.
"""

from typing import Any

import pytest

import onthedot as otd
from onthedot.schedules import schedule_id
from onthedot_verify.checker import check
from tests.checker.stories import SETTINGS, S, Story, definition

RULE = otd.every("4s")
SCHEDULE = schedule_id(RULE)
SLOTS = {1: 60, 2: 64, 3: 68, 4: 72}
GATE: list[Any] = ["overlap:1:", 1, True]


def planned(overlap: Any, catch_up: Any, *, by: str = "planner") -> Story:
    """A job with a slot every four seconds, and four planned slots."""
    story = Story().add(0, "begin", "nemesis", settings=SETTINGS, seed="").add(0, "join", inc="A", ttl=400 * S)
    text = definition(schedule=RULE, overlap=overlap, catch_up=catch_up)
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "start": 57 * S, "end": 75 * S}
    marks = {SCHEDULE: [None, {"origin": 57 * S, "watermark": 57 * S}]}
    story.add(57, "edit", job="job", job_id=1, rev=1, change="created", definition=text, marks=marks)
    if by == "planner":
        story.add(57, "elect", inc="A", term=1, shard=0, until=400 * S)
        return story.add(57, "plan", **plan, slots=[at * S for at in SLOTS.values()], term=1, shard=0)
    story.add(58, "pause", job_id=1, until=None, answer=[0, 0, 0], marks={})
    story.add(79, "plan", **plan, slots=[at * S for at in SLOTS.values()], term=0)
    return story.add(79, "resume", job_id=1, marks={}, slots=[], skips=[], released=0, windows=[])


def _of(run: int) -> dict[str, Any]:
    slot = SLOTS[run] * S
    return {"run": run, "job_id": 1, "trigger": f"schedule:{SCHEDULE}", "slot": slot, "lease": f"l{run}", "inc": "A"}


def began(story: Story, at: float, run: int, **facts: Any) -> Story:
    """The run is armed with all its gates."""
    return story.lease(at, "arm", **_of(run) | {"due": SLOTS[run] * S, "fence": run, "gates": [GATE]} | facts)


def ended(story: Story, at: float, run: int) -> Story:
    return story.verdict(at, run=run, lease=f"l{run}")


def executed(story: Story, *runs: int, since: float = 80) -> Story:
    """These runs execute one after the other, a second each."""
    for number, run in enumerate(runs):
        ended(began(story, since + number, run), since + number + 1, run)
    return story


def waits(story: Story, at: float, run: int, holder: int, **facts: Any) -> Story:
    told: dict[str, Any] = {"gate": GATE[0], "holder": holder, "gates": [GATE]}
    return story.add(at, "block", **_of(run) | told | facts)


def skipped(story: Story, at: float, reason: str, *runs: int, holder: int = 0, **facts: Any) -> Story:
    told: dict[str, Any] = {"state": "skipped", "reason": reason, "ended": round(at * S)}
    if reason == "overlap":
        told |= {"gate": GATE[0], "holder": holder}
    for run in runs:
        story.add(at, "expire", **_of(run) | told | facts)
    return story


def crowded(max_waiting: int, at: float, **facts: Any) -> Story:
    """Run 1 executes, run 2 has waited since its due instant, and run 3 is skipped."""
    story = began(planned(otd.Overlap("wait", max_waiting=max_waiting), "none"), 60, 1)
    return skipped(waits(story, 64, 2, 1), at, "overlap", 3, holder=1, **facts)


def after_an_edit(story: Story, at: float) -> Story:
    text = definition(schedule=RULE, overlap="wait", args={"mark": 1})
    mark = {"origin": 57 * S, "watermark": 75 * S}
    return story.add(at, "aside", run=2).add(
        at, "edit", job="job", job_id=1, rev=2, change="changed", definition=text, marks={SCHEDULE: [mark, mark]}
    )


def late_waiter(reason: str, holder: int) -> Story:
    """Run 2 waits and is caught up. Run 4 is on time."""
    story = began(planned(otd.Overlap("wait", max_waiting=1), "none"), 67, 1)
    return skipped(waits(story, 67, 2, 1), 72, reason, 4, holder=holder)


def range_missed(at: float, last: int, overlap: str = "wait", catch_up: str = "none") -> Story:
    """A late planner skips its slots up to `last` as missed."""
    story = Story()
    story.events = planned(overlap, catch_up).events[:-1]
    told: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "after": 0, "first": 60 * S, "reason": "missed"}
    story.add(at, "skip", **told, last=last * S, count=(last - 60) // 4 + 1)
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "start": 57 * S, "end": (last + 3) * S}
    return story.add(at, "plan", **plan, slots=[], term=1, shard=0)


ALL = otd.CatchUp("all", limit=100)
SHORT = otd.CatchUp("all", limit=100, window="25s")
GOOD = {
    "wait, none: all that are not too late, in order": executed(planned("wait", "none"), 1, 2, 3, 4),
    "wait, none: one is too late": executed(skipped(planned("wait", "none"), 91, "missed", 1), 2, 3, 4, since=92),
    "wait, last: the newest, however late": executed(
        skipped(planned("wait", "last"), 110, "missed", 1, 2, 3), 4, since=110
    ),
    "wait, all: in order": executed(planned("wait", ALL), 1, 2, 3, 4, since=300),
    "wait: a newer slot that asks first waits": executed(waits(planned("wait", "none"), 80, 4, 1), 1, 2, 3, 4),
    "allow: side by side, in any order": began(began(began(planned("allow", ALL), 80, 3), 80, 1), 80, 2),
    "skip, none: the newest": executed(skipped(planned("skip", "none"), 80, "missed", 1, 2, 3), 4),
    "skip, last: the newest": executed(skipped(planned("skip", "last"), 80, "missed", 1, 2, 3), 4),
    "skip, last: the newest skipped for a running one": skipped(
        skipped(began(planned("skip", "last"), 60, 1), 80, "missed", 2, 3), 80, "overlap", 4, holder=1
    ),
    "skip, all: in order": executed(planned("skip", ALL), 1, 2, 3, 4),
    "replace, none: the newest": executed(skipped(planned("replace", "none"), 80, "replaced", 1, 2, 3), 4),
    "replace, last: the newest": executed(skipped(planned("replace", "last"), 80, "replaced", 1, 2, 3), 4),
    "replace, all: in order": executed(planned("replace", ALL), 1, 2, 3, 4),
    "replace, all: a slot on time by another one": skipped(
        waits(began(planned("replace", ALL), 60, 1), 64, 2, 1), 68, "replaced", 2
    ),
    "replace, none: by an unplanned slot": skipped(planned("replace", "none"), 77, "replaced", 4),
    "a slot whose window is over": skipped(planned("skip", SHORT), 91, "missed", 1),
    "a slot on time is skipped for a waiting one": crowded(1, 68),
    "a slot nearly on time is skipped for a waiting one": crowded(1, 68.9),
    "a slot that asked on time over a slow network is skipped": crowded(1, 75, sent=round(68.2 * S)),
    "a slot that waited on time asks again after an edit": skipped(
        waits(after_an_edit(waits(began(planned("wait", "none"), 60, 1), 64, 2, 1), 66), 68, 3, 1),
        80, "overlap", 2, holder=1,
    ),
    "the slots of a resume": executed(planned("skip", "last", by="resume"), 1, 2),
    "a range that is over": range_missed(100, 68),
    "skip: a missed range without its newest slot": range_missed(75, 68, "skip"),
}  # fmt: skip
BAD = {
    ("S28", "wait: skipped for the catch-up"): skipped(
        waits(began(planned("wait", "none"), 80, 1), 80, 2, 1), 80, "overlap", 3, 4, holder=1
    ),
    ("S28", "wait: a late slot skipped for a run from before the outage"): skipped(
        began(planned("wait", "last"), 60, 1), 80, "overlap", 4, holder=1
    ),
    ("S28", "wait: the newest first"): began(planned("wait", "none"), 80, 4),
    ("S28", "wait, all: out of order"): executed(planned("wait", ALL), 1, 3, 2, 4),
    ("S28", "wait: a caught-up slot counts for max_waiting"): late_waiter("overlap", 1),
    ("S28", "wait: skipped with room for one more"): crowded(2, 68),
    ("S28", "allow: skipped for an overlap"): skipped(
        began(planned("allow", "none"), 64, 1), 68, "overlap", 3, holder=1
    ),
    ("S28", "skip: the oldest runs"): began(planned("skip", "none"), 80, 1),
    ("S28", "skip: the newest skipped for the catch-up"): skipped(
        began(planned("skip", "last"), 80, 1), 80, "overlap", 4, holder=1
    ),
    ("S28", "skip, all: skipped for the catch-up"): skipped(
        began(planned("skip", ALL), 80, 1), 80, "overlap", 2, holder=1
    ),
    ("S28", "skip: the newest missed"): skipped(planned("skip", "none"), 75, "missed", 4),
    ("S28", "replace: the oldest runs"): began(planned("replace", "last"), 80, 2),
    ("S28", "replace: an older one is missed"): skipped(planned("replace", "none"), 80, "missed", 1),
    ("S28", "replace: no newer slot is due"): skipped(planned("replace", "none"), 75, "replaced", 4),
    ("S28", "replace: skipped for an overlap"): skipped(
        began(planned("replace", "none"), 60, 1), 64, "overlap", 2, holder=1
    ),
    ("S28", "replace, all: replaced while it is caught up"): skipped(
        waits(began(planned("replace", ALL), 80, 1), 80, 2, 1), 80, "replaced", 2
    ),
    ("S28", "replace, all: stopped for the next one"): waits(
        began(planned("replace", ALL), 80, 1), 80, 2, 1, stops=True
    ),
    ("S28", "wait: replaced"): skipped(planned("wait", "none"), 80, "replaced", 1),
    ("S28", "missed before its time"): skipped(planned("wait", "none"), 80, "missed", 1),
    ("S28", "the newest is missed under last"): skipped(planned("wait", "last"), 75, "missed", 4),
    ("S28", "missed within its window"): skipped(planned("wait", ALL), 120, "missed", 1),
    ("S28", "a range missed before its time"): range_missed(80, 68),
    ("S28", "a range missed with its newest slot"): range_missed(75, 72, "skip"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name):
    assert check(GOOD[name].events, only=["S28"]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].events, only=[rule])}


def test_nothing_is_judged_after_the_clock_was_set():
    step: dict[str, Any] = {"fault": "step", "on": "a", "kind": "step", "length": 0}
    events = [*BAD["S28", "skip: the oldest runs"].events, *Story().add(90, "nemesis", "nemesis", **step).events]
    assert check(events, only=["S28"]) == []
