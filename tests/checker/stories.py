"""`Story`: writes histories for tests of the checker. There is a good one, and there are ways to break it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

import onthedot as otd
from onthedot.define.options import build_job
from onthedot.model.job import Call
from onthedot.model.job_json import encode
from onthedot.schedules import schedule_id

S = 1_000_000
SETTINGS = {
    "node_ttl": 15 * S, "beat_every": 4 * S, "term_ttl": 10 * S, "reap_every": 2 * S, "plan_every": 5 * S,
    "poll_every": S, "lookahead": 30 * S, "lapse": S // 2, "longest": S,
}  # fmt: skip
RULE = otd.every("60s")
SCHEDULE = schedule_id(RULE)
TRIGGER = f"schedule:{SCHEDULE}"


class Story:
    """Writes a history line by line; `at` is in seconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, at: float, ev: str, src: str = "store", node: str = "a#1", **facts: Any) -> Self:
        t = round(at * S)
        line = {"seq": len(self.events) + 1, "src": src, "t_store": t, "t_mono": t, "node": node, "ev": ev}
        self.events.append(line | facts)
        return self

    def lease(self, at: float, ev: str, **facts: Any) -> Self:
        usual: dict[str, Any] = {
            "run": 1, "job_id": 1, "trigger": TRIGGER, "slot": 60 * S, "lease": "l1", "attempt": 1, "fence": 1,
            "inc": "A", "due": 60 * S, "rev": 1, "failures": 0, "recoveries": 0,
        }  # fmt: skip
        return self.add(at, ev, **usual | facts)

    def verdict(self, at: float, ev: str = "finish", **facts: Any) -> Self:
        usual: dict[str, Any] = {
            "run": 1, "lease": "l1", "attempt": 1, "inc": "A", "ok": True, "state": "succeeded",
            "outcome": "succeeded", "due": 0, "failed": False, "recovered": False, "ended": round(at * S),
        }  # fmt: skip
        return self.add(at, ev, **usual | facts)

    def job(self, at: float, ev: str, **facts: Any) -> Self:
        seen: dict[str, Any] = {"run": 1, "job": "job", "slot": 60 * S, "attempt": 1, "fence": 1, "mark": 0}
        return self.add(at, ev, "job", **seen | facts)


def definition(**options: Any) -> str:
    given = {"name": "job", "schedule": RULE, "args": {"mark": 0}} | options
    return encode(build_job(Call(handler="job"), given))


def beginning(**options: Any) -> Story:
    """A node joins, leads, stores a job, and plans its first slot."""
    story = Story().add(0, "begin", "nemesis", settings=SETTINGS, seed="")
    story.add(0, "join", inc="A", ttl=15 * S)
    story.add(0, "elect", inc="A", term=1, shard=0, until=10 * S)
    plan: dict[str, Any] = {"job_id": 1, "schedule": SCHEDULE, "rev": 1}
    story.add(1, "plan", **plan, start=S, end=31 * S, slots=[], term=0)
    marks = {SCHEDULE: [None, {"origin": S, "watermark": 31 * S}]}
    story.add(1, "edit", job="job", job_id=1, rev=1, change="created", definition=definition(**options), marks=marks)
    story.add(35, "elect", inc="A", term=2, shard=0, until=45 * S).add(35, "pass")
    story.add(36, "plan", **plan, start=31 * S, end=66 * S, slots=[60 * S], term=2, shard=0, inc="A")
    return story.add(58, "beat", inc="A", ttl=15 * S)


def good(**options: Any) -> Story:
    """One run, from its plan to its end."""
    story = beginning(**options).lease(58.5, "reserve", fence=0, until=round(60.5 * S)).lease(59.9, "arm")
    story.job(60, "start").job(61, "end", outcome="done").verdict(61)
    final: dict[str, Any] = {
        "run": 1,
        "state": "succeeded",
        "attempts": 1,
        "failures": 0,
        "recoveries": 0,
        "recorded": 1,
    }
    return story.add(62, "final", "api", **final)


def changed(story: Story, ev: str, nth: int = 0, **facts: Any) -> Story:
    """The same story with other fields in one line."""
    other = deepcopy(story)
    [event for event in other.events if event["ev"] == ev][nth].update(facts)
    return other


def without(story: Story, ev: str, nth: int = 0) -> Story:
    """The same story with one line left out."""
    other = deepcopy(story)
    del other.events[other.events.index([event for event in other.events if event["ev"] == ev][nth])]
    return other
