"""S27: a planner has the newest zone data, and computes again the slots of other zone data."""

from typing import Any

import pytest

from onthedot_verify.checker import check
from tests.checker.stories import S, Story


def nodes(**versions: str) -> Story:
    story = Story()
    for name, version in versions.items():
        story.add(1, "join", inc=name, ttl=15 * S, node_id=name, queues=[], labels=[], tzdata=version)
    return story


def elect(story: Story, at: float, inc: str, term: int, tzdata: str, zones: str | None = None) -> Story:
    of: dict[str, Any] = {"inc": inc, "term": term, "shard": 0, "layout": 1, "until": round((at + 10) * S)}
    return story.add(at, "elect", **of, tzdata=tzdata, zones=tzdata if zones is None else zones)


def plan(story: Story, at: float, term: int) -> Story:
    return story.add(at, "plan", job_id=1, schedule="s", rev=1, start=0, end=0, slots=[], term=term, shard=0)


def computed(story: Story, at: float, term: int, zones: str) -> Story:
    return story.add(at, "zones", term=term, shard=0, layout=1, zones=zones)


GOOD = {
    "the newest wins": elect(nodes(a="2025b", b="2026a"), 2, "b", 1, "2026a"),
    "an equally new one wins": elect(nodes(a="2026a", b="2026a"), 2, "a", 1, "2026a"),
    "the newer one is dead": elect(nodes(a="2025b", b="2026a"), 20, "a", 1, "2025b"),
    "the newer one has left": elect(nodes(a="2025b", b="2026a").add(2, "leave", inc="b"), 3, "a", 1, "2025b"),
    "the newer one drains": elect(
        nodes(a="2025b", b="2026a").add(2, "drain", inc="b", draining=True), 3, "a", 1, "2025b"
    ),
    "the newer one is only a worker": elect(nodes(a="2025b", b=""), 2, "a", 1, "2025b"),
    "renewed after a newer one joined": elect(
        elect(nodes(a="2025b"), 2, "a", 1, "2025b")
        .add(3, "join", inc="b", ttl=15 * S, node_id="b", queues=[], labels=[], tzdata="2026a"),
        4, "a", 1, "2025b",
    ),
    "planned after all is computed": plan(
        computed(elect(nodes(a="2026a"), 2, "a", 1, "2026a", "2025b"), 3, 1, "2026a"), 4, 1
    ),
}  # fmt: skip
BAD = {
    ("S27", "an older one wins"): elect(nodes(a="2025b", b="2026a"), 2, "a", 1, "2025b"),
    ("S27", "the newer one drains no longer"): elect(
        nodes(a="2025b", b="2026a").add(2, "drain", inc="b", draining=True).add(3, "drain", inc="b", draining=False),
        4, "a", 1, "2025b",
    ),
    ("S27", "planned before all is computed"): plan(elect(nodes(a="2026a"), 2, "a", 1, "2026a", "2025b"), 3, 1),
    ("S27", "computed with older zone data"): plan(
        computed(elect(nodes(a="2026a"), 2, "a", 1, "2026a", "2025b"), 3, 1, "2025b"), 4, 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name):
    assert check(GOOD[name].events, only=["S27"]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert [violation.rule for violation in check(BAD[rule, name].events, only=[rule])] == [rule]
