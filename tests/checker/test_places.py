"""The rules about queues, places, nodes and rates pass what is right and catch what is wrong."""

from typing import Any

import pytest

from onthedot_verify.checker import check
from tests.checker.made_up import SCHEDULE, TRIGGER, S, Story, beginning, definition, good, without

RATE: list[Any] = ["rate:job:1:", 1, 10 * S, 1]
SERVES: dict[str, Any] = {"node_id": "a", "queues": ["default"], "labels": ["gpu"]}


def served(story: Story, **facts: Any) -> Story:
    """The same story, and its node says what it serves."""
    for event in story.events:
        if event["ev"] == "join":
            event.update(SERVES | facts)
    return story


def placed(at: float, inc: str = "A", term: int = 3, until: int = 66) -> Story:
    """A run of a job whose worker the leader chooses."""
    story = beginning(assignment="leader").add(56, "elect", inc="A", term=3, shard=0, until=until * S)
    return story.add(at, "place", run=1, inc=inc, term=term, shard=0).lease(59.9, "arm")


def taken_again(*, placed: bool, edited: bool = False, dead: bool = False) -> Story:
    """A run is reserved, and reserved once more before that lapses, by another node."""
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
    """A slot of a job that runs on every node; `a` is the only one, and lives from the beginning."""
    story = served(beginning(on="all"))
    for second in range(60, beats, 10):
        story.add(second, "beat", inc="A", ttl=15 * S)
    story.add(at, "elect", inc="A", term=3, shard=0, until=round((at + 10) * S))
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1, "start": 66 * S, "end": 165 * S}
    return story.add(at, "plan", **plan, slots=[120 * S], targets=targets, term=3, shard=0, inc="A")


def drained() -> Story:
    """The only node drains, and nothing is planned for it any more."""
    story = everywhere([])
    plan = story.events.pop()
    story.add(100, "drain", inc="A", draining=True).events.append(plan | {"seq": plan["seq"] + 1})
    return story


def targeted(target: str) -> Story:
    return served(beginning()).lease(59.9, "arm", target=target)


def starts(*instants: float, armed: float | None = None) -> Story:
    """Attempts of one rate, each of a run of its own: due then, and armed then or at another instant."""
    story = beginning()
    for number, at in enumerate(instants, start=10):
        of: dict[str, Any] = {"run": number, "trigger": "submit:x", "slot": round(at * S), "due": round(at * S)}
        story.lease(at if armed is None else armed, "arm", **of, lease=f"l{number}", fence=number, rate=RATE)
    return story


def urgent(at: float, priority: str, due: float = 59, **facts: Any) -> Story:
    """A run of a job with this priority was submitted, due then, and run 1 of a normal job is armed `at`."""
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
    ("S21", "a queue that goes on"): stopped(resumed=59.5),
    ("S21", "another queue is paused"): good().add(1, "stop_queue", queue="mail"),
    ("S21", "armed by who serves it"): served(good()),
    ("S21", "an arm that comes again"): beginning().lease(59.8, "arm").add(59.9, "stop_queue", queue="default")
    .lease(60, "arm"),
    ("S22", "armed where it was placed"): placed(58),
    ("S22", "placed anew"): without(placed(58, inc="B"), "arm").add(59, "place", run=1, inc="A", term=3, shard=0)
    .lease(59.9, "arm"),
    ("S5", "placed anew after an edit"): taken_again(edited=True, placed=True),
    ("S5", "placed anew after its holder's lease has ended"): taken_again(dead=True, placed=True),
    ("S23", "every node"): everywhere(["a"]),
    ("S23", "a node that has just died"): everywhere(["a"], beats=110),
    ("S23", "a node that drains"): drained(),
    ("S23", "armed by its own node"): targeted("a"),
    ("S24", "evenly spaced"): starts(60, 70, 80, 90),
    ("S25", "the less urgent waits"): urgent(60.1, "low"),
    ("S25", "the more urgent is not due yet"): urgent(60.1, "critical", due=90),
    ("S25", "taken beyond the seats"): urgent(60.1, "critical", quick=True),
    ("S24", "one within its grace"): starts(60, 79, 80, 90),
    ("S24", "armed ahead, all at once"): starts(60, 70, 80, 90, armed=59.5),
}  # fmt: skip
BAD = {
    ("S21", "armed from a paused queue"): stopped(resumed=None),
    ("S21", "armed by who does not serve it"): served(good(), queues=["mail"]),
    ("S21", "armed by who has not its labels"): served(good(labels=["tape"])),
    ("S22", "armed without a place"): without(placed(58), "place"),
    ("S22", "armed elsewhere"): placed(58, inc="B"),
    ("S22", "placed under another's term"): placed(58, term=2),
    ("S22", "placed under a term that is over"): placed(58, until=57),
    ("S5", "placed anew without an edit"): taken_again(placed=True),
    ("S5", "taken without a place after its holder's lease has ended"): taken_again(dead=True, placed=False),
    ("S5", "edited, and taken without a place"): taken_again(edited=True, placed=False),
    ("S23", "a node left out"): everywhere([]),
    ("S23", "a node that is not there"): everywhere(["a", "z"]),
    ("S23", "armed by another node"): targeted("b"),
    ("S24", "too many at once"): starts(60, 60, 60, 60),
    ("S24", "too many over time"): starts(60, 65, 70, 75, 80, 85, 90),
    ("S24", "armed late, all at once"): starts(60, 70, 80, 90, armed=90),
    ("S25", "the more urgent waits"): urgent(60.1, "critical", due=60),
    ("S25", "the older waits"): urgent(60.1, "normal"),
    ("S1", "one run for two nodes"): beginning().lease(58, "reserve", target="a", until=61 * S)
    .lease(62, "reserve", target="a", run=2, lease="l2", until=63 * S),
    ("S2", "a node for which nothing was planned"): targeted("a"),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "name"), GOOD)
def test_what_is_right_passes(rule, name):
    assert check(GOOD[rule, name].events, only=[rule]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_what_is_wrong_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].events, only=[rule])}


def test_a_slot_may_have_a_run_for_each_node():
    story = everywhere(["a", "b"])
    for number, target in enumerate("ab", start=5):
        facts: dict[str, Any] = {"trigger": TRIGGER, "slot": 120 * S, "due": 120 * S, "target": target}
        story.lease(119, "reserve", **facts, run=number, lease=f"l{number}", until=121 * S)
    assert check(story.events, only=["S1", "S2", "S4"]) == []
