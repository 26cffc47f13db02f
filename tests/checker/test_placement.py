"""The rules for queues, placement, nodes and rates pass right histories and catch wrong ones."""

from typing import Any

import pytest

from onthedot_verify.checker import check
from tests.checker.stories import SCHEDULE, TRIGGER, S, Story, beginning, definition, good, without

RATE: list[Any] = ["rate:job:1:", 1, 10 * S, 1]
SERVES: dict[str, Any] = {"node_id": "a", "queues": ["default"], "labels": ["gpu"]}


def served(story: Story, **facts: Any) -> Story:
    """The same story, whose node joins with what it serves."""
    for event in story.events:
        if event["ev"] == "join":
            event.update(SERVES | facts)
    return story


def placed(at: float, inc: str = "A", term: int = 3, until: int = 66) -> Story:
    """A run of a job whose worker the leader chooses."""
    story = beginning(assignment="leader").add(56, "elect", inc="A", term=3, shard=0, until=until * S)
    return story.add(at, "place", run=1, inc=inc, term=term, shard=0).lease(59.9, "arm")


def taken_again(*, placed: bool, edited: bool = False, dead: bool = False) -> Story:
    """A run is reserved, and another node reserves it before that lapses."""
    story = beginning(assignment="leader").add(58, "join", inc="B", ttl=15 * S)
    story.lease(58.5, "reserve", fence=0, until=round(60.5 * S))
    if dead:
        story.add(58.55, "beat", inc="A", ttl=S // 10)
    if edited:
        text = definition(assignment="leader", priority="high")
        story.add(58.6, "edit", job="job", job_id=1, rev=2, change="changed", definition=text, marks={})
    if placed:
        story.add(58.7, "place", run=1, inc="A", term=3, shard=0)
    return story.lease(59, "reserve", fence=0, lease="l2", rev=1 + edited, until=61 * S, inc="B")


def everywhere(targets: list[str], at: float = 140, beats: int = 140) -> Story:
    """A slot of a job that runs on each node. `a` is the only one, and lives from the beginning."""
    story = served(beginning(on="all"))
    for second in range(60, beats, 10):
        story.add(second, "beat", inc="A", ttl=15 * S)
    story.add(at, "elect", inc="A", term=3, shard=0, until=round((at + 10) * S))
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "start": 66 * S, "end": 165 * S}
    return story.add(at, "plan", **plan, slots=[120 * S], targets=targets, term=3, shard=0, inc="A")


def drained() -> Story:
    """The only node drains, and nothing more is planned for it."""
    story = everywhere([])
    plan = story.events.pop()
    story.add(100, "drain", inc="A", draining=True).events.append(plan | {"seq": plan["seq"] + 1})
    return story


def targeted(target: str) -> Story:
    return served(beginning()).lease(59.9, "arm", target=target)


def starts(*instants: float, armed: float | None = None) -> Story:
    """Attempts of one rate, each of its own run: due at these instants, and armed then or at `armed`."""
    story = beginning()
    for number, at in enumerate(instants, start=10):
        of: dict[str, Any] = {"run": number, "trigger": "submit:x", "slot": round(at * S), "due": round(at * S)}
        story.lease(at if armed is None else armed, "arm", **of, lease=f"l{number}", fence=number, rate=RATE)
    return story


def urgent(at: float, priority: str, due: float = 59, **facts: Any) -> Story:
    """A run with this priority is submitted. Run 1 of a normal job is armed `at`."""
    story = beginning(overlap="allow")
    text = definition(name="other", schedule=None, priority=priority)
    story.add(2, "edit", job="other", job_id=2, rev=1, change="created", definition=text, marks={})
    of: dict[str, Any] = {"run": 2, "job_id": 2, "trigger": "submit:x", "slot": round(due * S), "due": round(due * S)}
    story.add(3, "submit", **of, body=None, key="", expires=None)
    return story.lease(at, "arm", **{"quick": False} | facts)


def stopped(*, resumed: float | None) -> Story:
    story = beginning().add(59, "stop_queue", queue="default")
    if resumed is not None:
        story.add(resumed, "open_queue", queue="default")
    return story.lease(59.9, "arm")


GOOD = {
    ("S21", "a resumed queue"): stopped(resumed=59.5),
    ("S21", "another queue is paused"): good().add(1, "stop_queue", queue="mail"),
    ("S21", "armed by a worker that serves it"): served(good()),
    ("S21", "a repeated arm"): beginning().lease(59.8, "arm").add(59.9, "stop_queue", queue="default")
    .lease(60, "arm"),
    ("S22", "armed where it was placed"): placed(58),
    ("S22", "placed again"): without(placed(58, inc="B"), "arm").add(59, "place", run=1, inc="A", term=3, shard=0)
    .lease(59.9, "arm"),
    ("S5", "placed again after an edit"): taken_again(edited=True, placed=True),
    ("S5", "placed again after its holder's lease has ended"): taken_again(dead=True, placed=True),
    ("S23", "each node"): everywhere(["a"]),
    ("S23", "a node that has just died"): everywhere(["a"], beats=110),
    ("S23", "a node that drains"): drained(),
    ("S23", "armed by its own node"): targeted("a"),
    ("S24", "evenly spaced"): starts(60, 70, 80, 90),
    ("S25", "the less urgent waits"): urgent(60.1, "low"),
    ("S25", "the more urgent is not due yet"): urgent(60.1, "critical", due=90),
    ("S25", "taken beyond the seats"): urgent(60.1, "critical", quick=True),
    ("S24", "one start within the grace"): starts(60, 79, 80, 90),
    ("S24", "armed ahead, all at once"): starts(60, 70, 80, 90, armed=59.5),
}  # fmt: skip
BAD = {
    ("S21", "armed from a paused queue"): stopped(resumed=None),
    ("S21", "armed by a worker that does not serve it"): served(good(), queues=["mail"]),
    ("S21", "armed by a worker without its labels"): served(good(labels=["tape"])),
    ("S22", "armed without a placement"): without(placed(58), "place"),
    ("S22", "armed elsewhere"): placed(58, inc="B"),
    ("S22", "placed under another's term"): placed(58, term=2),
    ("S22", "placed under an ended term"): placed(58, until=57),
    ("S5", "placed again without an edit"): taken_again(placed=True),
    ("S5", "taken without a placement after its holder's lease has ended"): taken_again(dead=True, placed=False),
    ("S5", "edited, and taken without a placement"): taken_again(edited=True, placed=False),
    ("S23", "a node left out"): everywhere([]),
    ("S23", "an unknown node"): everywhere(["a", "z"]),
    ("S23", "armed by another node"): targeted("b"),
    ("S24", "too many at once"): starts(60, 60, 60, 60),
    ("S24", "too many over time"): starts(60, 65, 70, 75, 80, 85, 90),
    ("S24", "armed late, all at once"): starts(60, 70, 80, 90, armed=90),
    ("S25", "the more urgent waits"): urgent(60.1, "critical", due=60),
    ("S25", "the older waits"): urgent(60.1, "normal"),
    ("S1", "one run for two nodes"): beginning().lease(58, "reserve", target="a", until=61 * S)
    .lease(62, "reserve", target="a", run=2, lease="l2", until=63 * S),
    ("S2", "a node without a planned run"): targeted("a"),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "name"), GOOD)
def test_a_right_history_passes(rule, name):
    assert check(GOOD[rule, name].events, only=[rule]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].events, only=[rule])}


def test_a_slot_may_have_a_run_for_each_node():
    story = everywhere(["a", "b"])
    for number, target in enumerate("ab", start=5):
        facts: dict[str, Any] = {"trigger": TRIGGER, "slot": 120 * S, "due": 120 * S, "target": target}
        story.lease(119, "reserve", **facts, run=number, lease=f"l{number}", until=121 * S)
    assert check(story.events, only=["S1", "S2", "S4"]) == []
