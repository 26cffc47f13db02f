"""S26 and L8 pass right histories of jobs that run after others, and catch wrong ones."""

from copy import deepcopy
from typing import Any, Self

import pytest

from onthedot.model.after import After, On
from onthedot_verify.checker import check
from tests.checker.stories import S, Story, definition

PARENTS = ("a", "b")


class Family(Story):
    """Jobs a and b, with ids 1 and 2, and their child, with id 3."""

    def define(self, at: float, job_id: int, name: str, rev: int = 1, after: After | None = None, **more: Any) -> Self:
        text = definition(name=name, schedule=None, after=after, **more)
        change = "created" if rev == 1 else "changed"
        return self.add(at, "edit", job=name, job_id=job_id, rev=rev, change=change, definition=text, marks={})

    def ends(self, at: float, run: int, job_id: int, state: str = "succeeded", ev: str = "finish") -> Self:
        """A run of a parent, from its submit to its end."""
        of: dict[str, Any] = {"run": run, "job_id": job_id, "trigger": f"submit:{run}", "slot": 0, "due": 0}
        lease = {"lease": f"l{run}", "fence": run}
        self.add(at, "submit", **of, body=None, key="", expires=None)
        self.lease(at, "arm", **of, **lease)
        self.verdict(at, ev, run=run, lease=f"l{run}", state=state, outcome="failed" if state == "dead" else state)
        return self

    def follows(self, at: float, parent: int, run: int = 100, due: float | None = None) -> Self:
        when = round((at if due is None else due) * S)
        self.add(at, "follow", run=run, job_id=3, trigger=f"after:{parent}", slot=when, due=when)
        return self

    def over(self) -> Self:
        """The same story with its last line."""
        return deepcopy(self).add(90, "pass", shard=0).add(90, "heal", "nemesis").add(90, "over", "nemesis")


def family(*, any: bool = False, on: On = "success", parents: tuple[str, ...] = PARENTS) -> Family:
    story = Family()
    for number, name in enumerate(PARENTS, start=1):
        story.define(1, number, name)
    story.define(1, 3, "child", after=After(*parents, any=any, on=on))
    return story


def edited(story: Family, at: float = 15, **after: Any) -> Family:
    story.define(at, 3, "child", 2, After(*after.pop("parents", PARENTS), **after))
    return story


def tried(story: Family, at: float = 10) -> Family:
    """Run 7 of a fails, and will be retried."""
    return story.ends(at, 7, 1, "scheduled")


def tried_again(story: Family) -> Family:
    """Run 7 succeeds at its second attempt."""
    story.lease(11, "arm", run=7, job_id=1, lease="again", attempt=2, fence=8)
    return story.verdict(12, run=7, lease="again", attempt=2)


GOOD = {
    "all have ended": family().ends(10, 7, 1).ends(20, 8, 2).follows(20, 8),
    "all have ended, in the other order": family().ends(10, 7, 2).ends(20, 8, 1).follows(20, 8),
    "one batch ends both": family().ends(10, 7, 1).ends(10, 8, 2).follows(10, 8),
    "any of them": family(any=True).ends(10, 7, 1).follows(10, 7).ends(20, 8, 1).follows(20, 8, 101),
    "the next set is not complete": family().ends(10, 7, 1).ends(20, 8, 2).follows(20, 8).ends(30, 9, 2),
    "one parent runs more often": family().ends(10, 7, 1).ends(11, 8, 1).ends(20, 9, 2).follows(20, 9),
    "a failure that does not count": family().ends(10, 7, 1).ends(20, 8, 2, "dead"),
    "a failure that counts": family(any=True, on="failure").ends(10, 7, 1, "dead").follows(10, 7),
    "lost with its node": family(any=True, on="failure").ends(10, 7, 1, "lost", "reap").follows(10, 7),
    "either": family(on="either").ends(10, 7, 1, "dead").ends(20, 8, 2).follows(20, 8),
    "a cancelled run does not count": family(any=True, on="either").ends(10, 7, 1, "cancelled"),
    "a failed attempt is no end": tried_again(tried(family(any=True, on="either"))).follows(12, 7),
    "a repeated finish": family(any=True).ends(10, 7, 1).follows(10, 7)
    .verdict(11, run=7, lease="l7", ended=10 * S),
    "an edit keeps noted parents": family().ends(10, 7, 1).define(15, 3, "child", 2, After(*PARENTS), owner="another")
    .ends(20, 8, 2).follows(20, 8),
    "an edit with another parent waits for it": edited(family().ends(10, 7, 1), parents=("a", "b", "c")).ends(20, 8, 2),
    "an edit with fewer parents completes no set": edited(family().ends(10, 7, 1), parents=("a",)),
    "an edit of what counts clears the set": edited(family().ends(10, 7, 1), on="either").ends(20, 8, 2),
    "a deleted child gets no run": family(any=True).add(5, "delete", job_id=3, answer=0).ends(10, 7, 1),
    "a parent that was deleted": family().ends(10, 7, 1).add(15, "delete", job_id=1, answer=0).ends(20, 8, 2)
    .follows(20, 8),
}  # fmt: skip
BAD = {
    ("S26", "nothing follows"): family().ends(10, 7, 1).ends(20, 8, 2),
    ("S26", "nothing follows with any"): family(any=True).ends(10, 7, 1),
    ("S26", "a run follows in another write"): family(any=True).ends(10, 7, 1).add(11, "pass").follows(12, 7, due=10),
    ("S26", "all treated as any"): family().ends(10, 7, 1).follows(10, 7),
    ("S26", "any treated as all"): family(any=True).ends(10, 7, 1).ends(20, 8, 2).follows(20, 8),
    ("S26", "the set is not cleared"): family().ends(10, 7, 1).ends(20, 8, 2).follows(20, 8)
    .ends(30, 9, 2).follows(30, 9, 101),
    ("S26", "twice for one set"): family().ends(10, 7, 1).ends(20, 8, 2).follows(20, 8).follows(20, 8, 101),
    ("S26", "twice with a repeated finish"): family(any=True).ends(10, 7, 1).follows(10, 7)
    .verdict(11, run=7, lease="l7").follows(11, 7, 101),
    ("S26", "after a failure"): family(any=True).ends(10, 7, 1, "dead").follows(10, 7),
    ("S26", "after a success, when failures count"): family(any=True, on="failure").ends(10, 7, 1).follows(10, 7),
    ("S26", "nothing follows a loss"): family(any=True, on="failure").ends(10, 7, 1, "lost", "reap"),
    ("S26", "after a cancelled run"): family(any=True, on="either").ends(10, 7, 1, "cancelled").follows(10, 7),
    ("S26", "after a failed attempt"): tried(family(any=True, on="either")).follows(10, 7),
    ("S26", "after an unknown run"): family().follows(10, 7),
    ("S26", "not due at the end"): family(any=True).ends(10, 7, 1).follows(10, 7, due=12),
    ("S26", "nothing follows a second attempt"): tried_again(tried(family(any=True, on="either"))),
    ("S26", "an edit drops noted parents"): family().ends(10, 7, 1)
    .define(15, 3, "child", 2, After(*PARENTS), owner="another").ends(20, 8, 2),
    ("S26", "an edit keeps runs that count no more"): edited(family().ends(10, 7, 1), on="either").ends(20, 8, 2)
    .follows(20, 8),
    ("S26", "of a deleted child"): family(any=True).add(5, "delete", job_id=3, answer=0).ends(10, 7, 1).follows(10, 7),
    ("L8", "nothing ever follows"): family(any=True).ends(10, 7, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name):
    assert check(GOOD[name].over().events, only=["S26", "L8"]) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].over().events, only=[rule])}


def test_l8_finds_a_missing_run_and_not_a_late_one():
    missing = family(any=True).ends(10, 7, 1).over()
    [violation] = check(missing.events, only=["L8"])
    assert "job child is to run after run 7" in violation.what
    assert check(BAD["S26", "a run follows in another write"].over().events, only=["L8"]) == []


def test_l8_finds_nothing_before_the_faults_are_over():
    assert check(family(any=True).ends(10, 7, 1).add(11, "pass").events, only=["L8"]) == []


def test_a_follower_is_a_phantom_only_if_it_was_not_recorded():
    story = family(any=True).ends(10, 7, 1).follows(10, 7)
    of: dict[str, Any] = {"run": 100, "job_id": 3, "trigger": "after:7", "slot": 10 * S, "lease": "x", "fence": 99}
    assert check(story.lease(11, "arm", **of).events, only=["S1", "S2"]) == []
    unrecorded = family(any=True).ends(10, 7, 1).lease(11, "arm", **of)
    assert [violation.rule for violation in check(unrecorded.events, only=["S2"])] == ["S2"]
