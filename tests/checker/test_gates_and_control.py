"""The rules for gates, cancels, pauses, keys and retention pass right histories and catch wrong ones."""

import json
from typing import Any

import pytest

import onthedot as otd
from onthedot_verify.checker import check
from tests.checker.stories import SCHEDULE, TRIGGER, S, Story, beginning, changed, good, without
from tests.checker.test_rules import calm, renumbered

OVERLAP: list[Any] = ["overlap:1:", 1, True]
LIMIT: list[Any] = ["limit:job:1:", 1, False]
TWO: dict[str, Any] = {"run": 2, "lease": "l2", "fence": 2, "trigger": "submit:x", "slot": 60 * S}
SUBMIT: dict[str, Any] = {
    "run": 2, "job_id": 1, "trigger": "submit:x", "slot": 60 * S, "due": 60 * S, "body": None, "key": "",
    "expires": None,
}  # fmt: skip


def armed(gate: list[Any]) -> Story:
    """Run 1 holds a gate and executes. Run 2 is submitted."""
    return beginning().lease(59.9, "arm", gates=[gate]).job(60, "start").add(60, "submit", **SUBMIT)


def ended(story: Story, at: float = 61, **facts: Any) -> Story:
    return story.job(at, "end", outcome="done").verdict(at, **facts)


def block(story: Story, at: float, gate: list[Any], **facts: Any) -> Story:
    story.lease(at, "reserve", **TWO | {"fence": 0, "until": round((at + 0.5) * S)})
    of: dict[str, Any] = {"run": 2, "job_id": 1, "trigger": "submit:x", "slot": 60 * S, "lease": "l2", "inc": "A"}
    return story.add(at, "block", **of | {"gate": gate[0], "holder": 1, "gates": [gate]} | facts)


def second(story: Story, at: float, gate: list[Any]) -> Story:
    return story.lease(at, "arm", **TWO | {"lease": "l3"}, gates=[gate]).job(at, "start", run=2, fence=2)


def delayed(story: Story, at: float, gate: list[Any]) -> Story:
    """A rate gives run 2 a later instant."""
    story.lease(at, "reserve", **TWO | {"fence": 0, "until": round((at + 0.5) * S)})
    of: dict[str, Any] = {"run": 2, "job_id": 1, "trigger": "submit:x", "slot": 60 * S, "lease": "l2", "inc": "A"}
    return story.add(at, "release", **of, ok=True, delayed=True, due=90 * S, gates=[gate])


def skipped(story: Story, at: float, holder: int, run: int = 3) -> Story:
    of: dict[str, Any] = {
        "run": run,
        "job_id": 1,
        "trigger": TRIGGER,
        "slot": 120 * S,
        "state": "skipped",
        "reason": "overlap",
    }
    return story.add(at, "expire", **of, gate=OVERLAP[0], holder=holder, ended=round(at * S))


def put_first(slot: int | None) -> Story:
    """Run 1, of the slot at 60 s, is overdue and not taken. Another slot waits for it at the gate, and a third is
    skipped."""
    options = {"overlap": otd.Overlap("wait", max_waiting=0)} if slot is None else {}
    story = beginning(**options).lease(59, "reserve", fence=0, until=round(60.5 * S))
    story.add(70, "beat", inc="A", ttl=80 * S)
    story.add(95, "elect", inc="A", term=3, shard=0, until=150 * S)
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "term": 3, "shard": 0, "inc": "A"}
    story.add(96, "plan", **plan, start=66 * S, end=186 * S, slots=[120 * S, 180 * S])
    if slot is None:
        return changed(skipped(story, 121, 1), "expire", slot=180 * S)
    of: dict[str, Any] = {"run": 2, "lease": "l2", "trigger": TRIGGER, "slot": slot * S}
    story.lease(119, "reserve", **of, due=slot * S, fence=0, until=121 * S)
    story.add(120, "block", **of, job_id=1, inc="A", gate=OVERLAP[0], holder=1, gates=[OVERLAP])
    return changed(skipped(story, 121, 1), "expire", slot=180 * S)


def cancel(story: Story, at: float, kind: str, **facts: Any) -> Story:
    usual: dict[str, Any] = {"run": 1, "kind": kind, "state": "", "why": "by hand", "ended": round(at * S)}
    return story.add(at, "cancel", **usual | facts)


def mark(before: int, after: int) -> dict[str, Any]:
    return {SCHEDULE: [{"origin": S, "watermark": before * S}, {"origin": S, "watermark": after * S}]}


def pause(story: Story, at: float, before: int = 66, after: int = 62, **facts: Any) -> Story:
    return story.add(
        at, "pause", **{"job_id": 1, "until": None, "marks": mark(before, after), "answer": [0, 0, 0]} | facts
    )


def resume(story: Story, at: float, slots: list[int], before: int = 62, after: int = 125, **facts: Any) -> Story:
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "term": 0, "start": S, "end": after * S}
    told = facts.pop("told", slots)
    story.add(at, "plan", **plan, slots=[slot * S for slot in slots])
    answer: dict[str, Any] = {
        "job_id": 1, "marks": mark(before, after), "slots": [slot * S for slot in told], "skips": [], "released": 0,
        "windows": [[SCHEDULE, before * S, after * S]],
    }  # fmt: skip
    return story.add(at, "resume", **answer | facts)


def preview(story: Story, at: float, slots: list[int]) -> Story:
    answer: dict[str, Any] = {"slots": [slot * S for slot in slots], "skips": [], "released": 0}
    return story.add(at, "preview", job_id=1, marks={}, windows=[[SCHEDULE, 62 * S, 125 * S]], **answer)


def pruned(story: Story, at: float, counted: list[Any], **facts: Any) -> Story:
    story.events = [event for event in story.events if event["ev"] != "final"]
    answer: dict[str, Any] = {"answer": 1, "runs": [1], "counted": counted}
    story.add(at, "prune", run=1).add(at, "pruned", **answer | facts)
    return story.add(at, "rollup", "api", counted=counted)


def keyed(at: float, run: int, body: str | None = None, trigger: str = "submit:y") -> Story:
    story = without(good(), "final").add(62, "submit", **SUBMIT | {"key": "k", "trigger": "submit:x"})
    return story.add(at, "submit", **SUBMIT | {"run": run, "key": "k", "trigger": trigger, "body": body})


ONE = [["job", "succeeded", 1]]
FREEZE: dict[str, Any] = {"fault": "freeze", "on": "a", "kind": "freeze", "length": 30 * S}


def overlapping(*faults: dict[str, Any]) -> Story:
    """Run 1 is reaped from a node that still executes it. Run 2 starts elsewhere."""
    story = armed(OVERLAP)
    for fault in faults:
        story.add(61, "nemesis", "nemesis", **fault)
    story.verdict(74, "reap", state="lost", outcome="lost").add(74, "join", inc="B", ttl=15 * S)
    story.lease(75, "arm", **TWO | {"lease": "l3", "inc": "B"}, gates=[OVERLAP])
    seen: dict[str, Any] = {"run": 2, "job": "job", "slot": 60 * S, "attempt": 1, "fence": 2, "mark": 0}
    return story.add(75, "start", "job", node="b#1", **seen).job(80, "end", outcome="done").verdict(80, ok=False)


OTHER: list[Any] = ["limit:name:other:", 1, False]


def between() -> Story:
    """Run 2 passes a limit and waits at its next gate. Another run takes the limit."""
    story = block(beginning().add(59, "submit", **SUBMIT), 59.5, OTHER, gates=[LIMIT, OTHER])
    return story.lease(59.9, "arm", gates=[LIMIT])


def waiting(until: float) -> Story:
    """Without faults: run 1 ends at 105, and run 2 waits at its gate until it is taken."""
    story = calm().add(100, "submit", **SUBMIT).lease(100, "arm", gates=[LIMIT]).job(100, "start")
    ended(block(story, 101, LIMIT), 105)
    second(story, until, LIMIT).job(until + 1, "end", run=2, fence=2, outcome="done")
    story.verdict(until + 1, run=2, lease="l3").add(400, "over", "nemesis")
    return renumbered(story)


def long_wait(*, told: str) -> Story:
    """Without faults: run 2 waits at the gate of a long run. A node that does not know this asks for it again."""
    story = calm().add(100, "submit", **SUBMIT).lease(100, "arm", gates=[LIMIT]).job(100, "start")
    block(story, 101, LIMIT).lease(102, told, **TWO | {"until": 103 * S}, ok=True)
    second(ended(story, 350), 350, LIMIT).job(351, "end", run=2, fence=2, outcome="done")
    story.verdict(351, run=2, lease="l3").add(400, "over", "nemesis")
    return renumbered(story)


def asked_when_calm(until: float) -> Story:
    story = calm().lease(100, "arm").job(100, "start")
    ended(cancel(story, 101, "asked", state="running"), until).add(400, "over", "nemesis")
    return renumbered(story)


GOOD = {
    "a limit passed on": second(ended(block(armed(LIMIT), 60.5, LIMIT)), 61.1, LIMIT),
    "a limit left by a run that waits at its next gate": between(),
    "an overlap gate passed on": second(ended(block(armed(OVERLAP), 60.5, OVERLAP)), 61.1, OVERLAP),
    "a slot skipped at a held gate": skipped(armed(OVERLAP), 60.5, 1),
    "a slot skipped for a delayed run": skipped(delayed(ended(armed(OVERLAP)), 62, OVERLAP), 63, 2),
    "a slot skipped for a run at its next gate": skipped(
        block(beginning().add(59, "submit", **SUBMIT), 60, LIMIT, gates=[OVERLAP, LIMIT]), 61, 2, run=1
    ),
    "a slot skipped for an overdue slot with waiters": put_first(120),
    "a slot skipped for an overdue slot at an open gate": put_first(None),  # seed 4200023
    "overlapping after a freeze": overlapping(FREEZE),
    "a run cancelled while it waits": cancel(
        beginning().lease(59, "reserve", fence=0, until=61 * S), 59.5, "cancelled"
    ),
    "a run asked to stop": cancel(
        beginning().lease(59.9, "arm").job(60, "start"), 60.5, "asked", state="running"
    ).job(61, "end", outcome="cancelled").verdict(61, state="cancelled", outcome="cancelled"),
    "a late cancel": cancel(good(), 63, "ended", state="succeeded"),
    "paused and resumed": resume(pause(good(), 62), 70, [120]),
    "a resume that equals its preview": resume(preview(pause(good(), 62), 70, [120]), 70, [120]),
    "pruned and counted": pruned(good(), 700, ONE),
    "the same key again": keyed(63, 2),
    "another body refused": keyed(63, 2).add(64, "conflict", job_id=1, key="k", body="{}"),
    "a key whose run was pruned": cancel(keyed(63, 2), 63, "cancelled", run=2).add(700, "prune", run=2).add(
        701, "submit", **SUBMIT | {"run": 3, "key": "k", "trigger": "submit:z"}
    ),
}  # fmt: skip
BAD = {
    ("S5", "two at a limit of one"): second(armed(LIMIT), 60.5, LIMIT),
    ("S6", "a decreasing fence at a gate"): ended(
        second(changed(armed(OVERLAP), "arm", fence=7), 60.5, OVERLAP)
    ),
    ("S11", "two runs of one job"): second(armed(OVERLAP), 60.5, OVERLAP),
    ("S11", "two runs, one of them in back-off"): second(
        armed(OVERLAP).verdict(61, state="scheduled", outcome="failed", failed=True), 62, OVERLAP
    ),
    ("S11", "a delayed run takes a held gate"): delayed(armed(OVERLAP), 60.5, OVERLAP),
    ("S11", "a slot skipped at an open gate"): skipped(ended(armed(OVERLAP)), 62, 1),
    ("S11", "a slot skipped for a newer slot that has not asked"): put_first(54),
    ("S11", "overlapping without a fault"): overlapping(),
    ("S11", "a submitted run replaced"): cancel(
        armed(OVERLAP), 61, "cancelled", run=2, job_id=1, trigger="submit:x", slot=60 * S, why="replaced"
    ),
    ("S13", "cancelled while it runs"): cancel(armed(LIMIT), 60.5, "cancelled"),
    ("S13", "asked while it waits"): cancel(beginning().lease(59, "reserve", fence=0, until=61 * S), 59.5, "asked"),
    ("S13", "a cancel with another state"): cancel(good(), 63, "ended", state="dead"),
    ("S13", "unknown although it exists"): cancel(good(), 63, "unknown"),
    ("S13", "armed after it was asked to stop"): cancel(armed(LIMIT), 60.5, "asked")
    .verdict(61, state="scheduled", outcome="failed", failed=True)
    .lease(62, "arm", lease="l9", attempt=2, fence=9, failures=1),
    ("S13", "asked, and stopped too late"): asked_when_calm(110),
    ("S13", "a changed verdict"): changed(good(), "finish", state="cancelled", sent="scheduled"),
    ("S14", "planned while paused"): pause(good(), 62).add(63, "elect", inc="A", term=3, shard=0, until=72 * S).add(
        63, "plan", job_id=1, schedule=SCHEDULE, rev=1, start=62 * S, end=125 * S, slots=[120 * S], term=3, shard=0
    ),
    ("S14", "armed while paused"): pause(beginning(), 59).lease(59.9, "arm"),
    ("S14", "a resume that does less than its answer"): resume(pause(good(), 62), 70, [120], told=[120, 180]),
    ("S14", "a resume that differs from its preview"): resume(preview(pause(good(), 62), 70, []), 70, [120]),
    ("S14", "a pause that does less than its answer"): pause(good(), 62, answer=[1, 0, 0]),
    ("S4", "a pause that loses a slot"): pause(
        good().add(62, "withdraw", run=1, job_id=1, trigger=TRIGGER, slot=60 * S), 62
    ),
    ("S4", "a resume that leaves out a slot"): resume(pause(good(), 62), 70, []),
    ("S4", "a pause that moves the watermark too far back"): pause(good(), 62, after=40),
    ("S17", "pruned and not counted"): pruned(good(), 700, []),
    ("S17", "counted in another state"): pruned(good(), 700, [["job", "dead", 1]]),
    ("S17", "pruned while it runs"): pruned(armed(LIMIT), 700, ONE),
    ("S17", "pruned too early"): changed(
        pruned(good(), 100, ONE), "begin", settings=beginning().events[0]["settings"] | {"kept": 600 * S}
    ),
    ("S17", "counted twice"): changed(pruned(good(), 700, ONE), "rollup", counted=[["job", "succeeded", 2]]),
    ("S17", "pruned above its watermark"): pruned(pause(good(), 62, after=59), 700, ONE),
    ("S18", "vanished without being pruned"): without(pruned(good(), 700, ONE), "prune").add(
        701, "final", "api", run=9, recorded=0
    ),
    ("S19", "another run for a key"): keyed(63, 3),
    ("S19", "another body for a key"): keyed(63, 2, body=json.dumps({"mark": 1})),
    ("S19", "refused without a reason"): keyed(63, 2).add(64, "conflict", job_id=1, key="k", body=None),
    ("L4", "waiting at a free gate"): waiting(120),
    ("L4", "freed by the recount"): good().add(63, "recount", freed=1).add(64, "heal", "nemesis"),
}  # fmt: skip


def test_a_second_ask_does_not_end_the_wait_at_a_gate():
    asked, taken = (check(long_wait(told=told).events, only=["L1"]) for told in ("gone", "reserve"))
    assert not [one for one in asked if one.what.startswith("run 2 ")]
    assert [one for one in taken if one.what.startswith("run 2 ")]


def test_a_run_that_waits_at_a_second_gate_does_not_fill_a_limit():
    """Run 1 waits at its second gate for 20 s, and run 2 at the first one."""
    story = calm().add(100, "submit", **SUBMIT).lease(100, "reserve", fence=0, until=101 * S)
    of: dict[str, Any] = {"run": 1, "job_id": 1, "trigger": TRIGGER, "slot": 60 * S, "lease": "l1", "inc": "A"}
    story.add(100, "block", **of, gate=OTHER[0], holder=9, gates=[LIMIT, OTHER])
    second(block(story, 101, LIMIT), 121, LIMIT).add(400, "over", "nemesis")
    found = [one.what for one in check(renumbered(story).events, only=["L4"])]
    assert [what for what in found if what.startswith(f"run 2 waited at {LIMIT[0]}")]


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name):
    assert check(GOOD[name].events) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].events, only=[rule])}


def test_a_history_without_faults_passes():
    assert check(waiting(105.1).events, only=["L4", "S5"]) == []
    assert check(asked_when_calm(103).events, only=["S13"]) == []
