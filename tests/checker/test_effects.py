"""S10 passes right histories of jobs under exactly_once, and catches wrong ones."""

from typing import Any

import pytest

from onthedot_verify.checker import check
from tests.checker.stories import S, Story, beginning, good

EXACT: dict[str, Any] = {"guarantee": "exactly_once"}
DEAD: dict[str, Any] = {"state": "dead", "outcome": "failed", "failed": True}
GATE = [["overlap:1:", 1, True]]


def effect(story: Story, at: float, run: int = 1, fence: int = 1) -> Story:
    return story.add(at, "effect", run=run, fence=fence)


def committed(**options: Any) -> Story:
    """One run whose commit has an effect and ends the run."""
    story = beginning(**EXACT | options).lease(59.9, "arm").job(60, "start").job(61, "end", outcome="done")
    return effect(story, 61).verdict(61)


def recovered() -> Story:
    """A node dies with its transaction, and another node commits."""
    story = beginning(**EXACT).lease(59.9, "arm").job(60, "start")
    story.verdict(74, "reap", state="scheduled", outcome="lost", recovered=True).add(74, "join", inc="B", ttl=15 * S)
    story.lease(75, "arm", lease="l2", inc="B", attempt=2, fence=2, recoveries=1)
    story.job(75, "start", attempt=2, fence=2).job(76, "end", attempt=2, fence=2, outcome="done")
    return effect(story, 77, fence=2).verdict(77, lease="l2", attempt=2, inc="B")


def two_of_a_gate(first: int, second: int) -> Story:
    """Two runs of a job that does not overlap itself, and the fences of their effects in the order of arrival."""
    story = beginning(**EXACT).lease(59.9, "arm", gates=GATE).lease(60.0, "arm", run=2, lease="l2", fence=2, gates=GATE)
    for fence in (first, second):
        effect(story, 61, run=fence, fence=fence)
    return story


GOOD = {
    "one effect, one success": committed(),
    "a commit and a repeated finish": committed().verdict(62),
    "a failure without an effect": beginning(**EXACT).lease(59.9, "arm").job(60, "start").verdict(61, **DEAD),
    "still running": beginning(**EXACT).lease(59.9, "arm").job(60, "start"),
    "a run recovered from a dead node": recovered(),
    "a refused commit": recovered().verdict(78, ok=False),
    "a success without an effect under at_least_once": good(),
}
BAD = {
    ("S10", "a success without its effect"): good(**EXACT),
    ("S10", "an effect of a failed run"): effect(
        beginning(**EXACT).lease(59.9, "arm").job(60, "start"), 61
    ).verdict(61, **DEAD),
    ("S10", "an effect without a recorded end"): effect(beginning(**EXACT).lease(59.9, "arm").job(60, "start"), 61),
    ("S10", "the effect of a refused commit"): effect(recovered(), 78),
    ("S10", "two effects"): effect(committed(), 61),
    ("S10", "a decreasing fence"): two_of_a_gate(2, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name: str):
    assert check(GOOD[name].events, only=["S10"]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule: str, name: str):
    assert check(BAD[rule, name].events, only=[rule]) != []


def test_only_decreasing_fences_are_found():
    found = check(two_of_a_gate(2, 1).events, only=["S10"])
    assert any("follows one of 2, at overlap:1:" in one.what for one in found)
    found = check(two_of_a_gate(1, 2).events, only=["S10"])
    assert not any("follows" in one.what for one in found)
