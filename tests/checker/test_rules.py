"""Each rule passes right histories and catches wrong ones."""

import subprocess
import sys
from typing import Any

import pytest

import onthedot as otd
from onthedot.model.errors import DefinitionError
from onthedot.schedules import schedule_id
from onthedot_verify.checker import RULES, check, read, write
from tests.checker.stories import SCHEDULE, TRIGGER, S, Story, beginning, changed, definition, good, without

GOOD = {
    "one run": good(),
    "a repeated finish": good().verdict(62),
    "a repeated arm": beginning().lease(58.5, "reserve", fence=0, until=61 * S).lease(59.8, "arm")
    .lease(59.9, "arm").job(60, "start").job(61, "end", outcome="done").verdict(61),
    "a reservation that lapsed": beginning().lease(58.5, "reserve", fence=0, until=round(60.5 * S))
    .lease(60.6, "reserve", fence=0, lease="l2", until=61 * S).lease(60.6, "arm", lease="l2"),
    "a run recovered from a dead node": beginning().lease(59.9, "arm").job(60, "start")
    .verdict(74, "reap", state="scheduled", outcome="lost", recovered=True)
    .add(74, "join", inc="B", ttl=15 * S)
    .lease(75, "arm", lease="l2", inc="B", attempt=2, fence=2, recoveries=1).verdict(76, ok=False)
    .verdict(77, lease="l2", attempt=2, inc="B").job(75, "start", attempt=2, fence=2)
    .job(76, "end", attempt=2, fence=2, outcome="done"),
    "skipped slots": beginning().add(
        250, "skip", job_id=1, schedule=SCHEDULE, after=0, first=120 * S, last=180 * S, count=2, reason="missed"
    ).add(250, "elect", inc="A", term=3, shard=0, until=260 * S)
    .add(250, "plan", job_id=1, schedule=SCHEDULE, rev=1, start=66 * S, end=280 * S, slots=[240 * S], term=3, shard=0),
}  # fmt: skip


def replanned(**facts) -> Story:
    plan: dict[str, Any] = {
        "job_id": 1,
        "schedule": SCHEDULE,
        "rev": 1,
        "start": 66 * S,
        "end": 125 * S,
        "slots": [120 * S],
    }
    return (
        good()
        .add(62, "elect", inc="A", term=3, shard=0, until=72 * S)
        .add(63, "plan", **plan | {"term": 3, "shard": 0, "inc": "A"} | facts)
    )


def edited(before: int, after: int, at: float = 62, slots=(), withdrawn=()) -> Story:
    story = good()
    for slot in withdrawn:
        story.add(at, "withdraw", run=9, job_id=1, trigger=TRIGGER, slot=slot * S)
    story.add(
        at, "plan", job_id=1, schedule=SCHEDULE, rev=2, start=S, end=after * S, slots=[s * S for s in slots], term=0
    )
    marks = {SCHEDULE: [{"origin": S, "watermark": before * S}, {"origin": S, "watermark": after * S}]}
    text = definition(args={"mark": 1})
    return story.add(at, "edit", job="job", job_id=1, rev=2, change="changed", definition=text, marks=marks)


def exchanged(slots, *, at: float = 62, origin: float = 62, withdrawn=(), story: Story | None = None) -> Story:
    """An edit drops the schedule after its slot at 60 s has run, and adds one of every 30 s."""
    rule = otd.every("30s")
    name, story = schedule_id(rule), good() if story is None else story
    for slot in withdrawn:
        story.add(at, "withdraw", run=9, job_id=1, trigger=TRIGGER, slot=slot * S)
    begins, ends = round(origin * S), (round(origin) + 30) * S
    plan: dict[str, Any] = {"job_id": 1, "schedule": name, "rev": 2, "start": begins, "end": ends, "term": 0}
    story.add(at, "plan", **plan, slots=[slot * S for slot in slots])
    marks = {SCHEDULE: [{"origin": S, "watermark": 66 * S}, None], name: [None, {"origin": begins, "watermark": ends}]}
    text = definition(schedule=rule, args={"mark": 1})
    return story.add(at, "edit", job="job", job_id=1, rev=2, change="changed", definition=text, marks=marks)


GOOD["the next slot planned"] = replanned()
GOOD["an edit that replaces a schedule"] = exchanged([90])
GOOD["an edit that plans a withdrawn slot again"] = exchanged(
    [60, 90], at=59.5, origin=59.5, withdrawn=[60], story=beginning()
)
GOOD["a delayed edit that replaces a schedule"] = exchanged([90], at=64, origin=64)
GOOD["an edit that plans further slots"] = edited(66, 125, slots=[120])
SUBMIT: dict[str, Any] = {"run": 5, "job_id": 1, "trigger": "submit:x", "slot": 62 * S, "due": 62 * S, "body": None}
BACKFILL: dict[str, Any] = SUBMIT | {"trigger": f"backfill:{SCHEDULE}", "slot": 1 * S}
GOOD["a backfill of two slots, asked for twice"] = (
    beginning().add(62, "submit", **BACKFILL).add(62, "submit", **BACKFILL | {"run": 6, "slot": 2 * S})
    .add(63, "submit", **BACKFILL)
)  # fmt: skip
AMO: dict[str, Any] = {"guarantee": "at_most_once"}
DEAD: dict[str, Any] = {"state": "dead", "outcome": "failed", "failed": True}


def calm(end: float = 400, **options: Any) -> Story:
    """A history without faults, which the liveness rules judge from the beginning."""
    story = Story()
    story.events = good().events[:1]
    story.add(0, "heal", "nemesis").add(0, "join", inc="A", ttl=15 * S)
    story.events += [event | {"seq": 0} for event in good(**options).events[3:5]]
    for at in range(0, int(end), 4):
        story.add(at, "elect", inc="A", term=1, shard=0, until=(at + 10) * S).add(at, "pass").add(
            at, "beat", inc="A", ttl=15 * S
        )
    for number, event in enumerate(story.events):
        event["seq"] = number + 1
    return story


def run_at(story: Story, at: float, start: float, end: float | None) -> Story:
    due = round(at * S)
    story.lease(at - 1, "reserve", due=due, slot=due, fence=0, until=due + S // 2)
    story.lease(at, "arm", due=due, slot=due).job(start, "start", slot=due)
    if end is not None:
        story.job(end, "end", slot=due, outcome="done").verdict(end)
    story.add(max(400, end or 0), "over", "nemesis")
    return renumbered(story)


def renumbered(story: Story) -> Story:
    story.events.sort(key=lambda event: event["t_store"])
    for number, event in enumerate(story.events):
        event["seq"] = number + 1
    return story


def divided(shards: int = 2, won=(2, 1), planned=(2, 1)) -> Story:
    """The layout changes, and a shard (the job's is 1 of 2) is won and planned, with these values of `layout` and
    `shard`."""
    story = without(without(good(), "elect", 1), "plan", 1).add(34, "layout", version=2, shards=shards)
    story.add(35, "elect", inc="A", term=1, layout=won[0], shard=won[1], until=45 * S)
    story.add(
        36, "plan", job_id=1, schedule=SCHEDULE, rev=1, start=31 * S, end=66 * S, slots=[60 * S], term=1, inc="A",
        layout=planned[0], shard=planned[1],
    )  # fmt: skip
    return renumbered(story)


def handed_round(shard: int, until: float) -> Story:
    """A history without faults, in which a shard is won again every ten seconds."""
    story = calm()
    for term, at in enumerate(range(100, int(until), 10)):
        story.add(at, "elect", inc="AB"[term % 2], term=term + 2, shard=shard, until=(at + 10) * S)
    return renumbered(story.add(400, "over", "nemesis"))


GOOD["a plan of one shard of two"] = divided()
BAD = {
    ("S1", "a slot planned twice"): replanned(start=31 * S, end=66 * S, slots=[60 * S]),
    ("S1", "two runs of one key"): good().lease(63, "reserve", run=2, lease="l2", fence=0, until=64 * S),
    ("S1", "an instant planned under two definitions"): exchanged([60, 90], origin=59),
    ("S1", "an instant armed ahead and planned under two definitions"): exchanged(
        [60], at=59.95, origin=59.95, story=beginning().lease(59.9, "arm")
    ),
    ("S4", "a new schedule that starts before its edit"): exchanged([90], at=95, origin=62),
    ("S4", "an edit that withdraws a due slot"): exchanged([90], withdrawn=[60]),
    ("S4", "an edit that keeps the schedule and withdraws a due slot"): edited(66, 125, slots=[120], withdrawn=[60]),
    ("S2", "a run that was never planned"): beginning().lease(59.9, "arm", slot=61 * S),
    ("S2", "a start that was never reserved"): beginning().job(60, "start", run=7),
    ("S3", "a start before its due instant"): changed(good(), "start", t_store=round(59.9 * S)),
    ("S4", "a slot without a fate"): replanned(slots=[]),
    ("S4", "a slot that the rule does not yield"): replanned(slots=[120 * S, 121 * S]),
    ("S4", "a watermark that jumps"): replanned(start=70 * S),
    ("S4", "a watermark that jumps over a slot"): replanned(start=121 * S, end=125 * S, slots=[]),
    ("S4", "an edit that withdraws a slot and plans none"): edited(66, 125, slots=[]),
    ("S4", "an edit that moves the watermark too far back"): edited(66, 40),
    ("S4", "an edit that hides missed slots"): edited(66, 205, at=200, slots=[]),
    ("S4", "a skip with a wrong count"): changed(GOOD["skipped slots"], "skip", count=3),
    ("S5", "taken while reserved"): beginning().lease(58.5, "reserve", fence=0, until=round(60.5 * S))
    .lease(59, "reserve", fence=0, lease="l2", until=61 * S),
    ("S5", "taken while running"): beginning().lease(59.9, "arm").lease(60, "arm", lease="l2", attempt=2, fence=2),
    ("S5", "armed without a living lease"): without(good(), "beat"),
    ("S5", "a lease renewed after its end"): GOOD["a run recovered from a dead node"].__class__.add(
        good().verdict(90, "reap", ok=True), 91, "beat", inc="A", ttl=15 * S
    ),
    ("S5", "an attempt that starts twice"): good().job(61, "start"),
    ("S6", "a fence drawn twice"): good().lease(63, "arm", run=2, lease="l2", slot=120 * S),
    ("S6", "a lease used twice"): good().lease(63, "reserve", run=2, fence=0, slot=120 * S, until=64 * S),
    ("S6", "an attempt left out"): changed(good(), "arm", attempt=2),
    ("S6", "reaped while its lease was alive"): beginning().lease(59.9, "arm").verdict(
        61, "reap", state="scheduled", outcome="lost", recovered=True
    ),
    ("S7", "a finish under a foreign lease"): beginning().lease(59.9, "arm").verdict(61, lease="l0"),
    ("S7", "a finish with nothing running"): beginning().lease(58.5, "reserve", fence=0, until=61 * S).verdict(61),
    ("S7", "a right finish refused"): changed(good(), "finish", ok=False),
    ("S7", "an attempt recorded twice"): changed(good(), "final", recorded=2),
    ("S8", "armed after its end"): good().lease(63, "arm", lease="l2", attempt=2, fence=2),
    ("S8", "a second end"): good().verdict(63, lease="l2", **DEAD),
    ("S8", "expired after its end"): good().add(
        63, "expire", run=1, job_id=1, trigger=TRIGGER, slot=60 * S, state="skipped", reason="missed", ended=63 * S
    ),
    ("S9", "started twice"): good(**AMO).job(62, "start", fence=2, attempt=2),
    ("S9", "armed twice"): beginning(**AMO).lease(59, "arm").verdict(60, state="scheduled", outcome="released")
    .lease(61, "arm", lease="l2", attempt=2, fence=2),
    ("S12", "a decreasing term"): good().add(63, "elect", inc="A", term=1, shard=0, until=70 * S),
    ("S12", "two leaders"): good().add(40, "elect", inc="B", term=3, shard=0, until=50 * S),
    ("S12", "a plan of an old term"): replanned(term=2),
    ("S12", "a plan of an old revision"): replanned(rev=7),
    ("S12", "a plan of an old layout"): divided(planned=(1, 1)),
    ("S12", "a plan of a term that ended with its layout"): good().add(40, "layout", version=2, shards=1).add(
        41, "plan", job_id=1, schedule=SCHEDULE, rev=1, start=66 * S, end=70 * S, slots=[], term=2, shard=0, layout=2
    ),
    ("S12", "a plan for a job of another shard"): divided(won=(2, 0), planned=(2, 0)),
    ("S12", "a term of an old layout"): divided(won=(1, 1)),
    ("S12", "an unknown shard"): divided(won=(2, 2), planned=(2, 2)),
    ("S12", "a decreasing layout"): divided().add(64, "layout", version=2, shards=3),
    ("S15", "an old revision armed"): changed(good(), "arm", rev=0),
    ("S15", "another definition executed"): changed(good(), "start", mark=4),
    ("S15", "arguments of no revision"): changed(good(), "arm", body='{"mark":9}'),
    ("S16", "more failures than attempts"): beginning().lease(59, "arm").verdict(60, **DEAD | {"state": "scheduled"})
    .lease(61, "arm", lease="l2", attempt=2, fence=2, failures=1).verdict(62, lease="l2", attempt=2, **DEAD),
    ("S16", "a retry at once"): beginning(retry=otd.Retry(3, delay="10s")).lease(59, "arm").verdict(
        60, **DEAD | {"state": "scheduled", "due": 64 * S}
    ),
    ("S16", "a lease with a wrong count"): changed(good(), "arm", failures=1),
    ("S16", "recovered without a limit"): beginning(max_recoveries=0).lease(59.9, "arm").verdict(
        74, "reap", state="scheduled", outcome="lost", recovered=True
    ),
    ("S18", "an answer without a write"): good().add(63, "ack", "api", key="1/submit:x", run=5),
    ("S18", "another state than the written one"): changed(good(), "final", state="dead"),
    ("S18", "a lost run"): without(good(), "final").add(62, "final", "api", run=3, recorded=0),
    ("S18", "a stale read"): good().add(63, "read", "api", run=1, state="running"),
    ("S19", "two runs for one key"): good().add(62, "submit", **SUBMIT).add(63, "submit", **SUBMIT | {"run": 6}),
    ("S19", "two runs for one slot of a backfill"): good().add(62, "submit", **BACKFILL)
    .add(63, "submit", **BACKFILL | {"run": 6}),
    ("S19", "another body"): good().add(62, "submit", **SUBMIT).add(63, "submit", **SUBMIT | {"body": "{}"}),
    ("matching by key", "a success without an end"): without(good(), "end"),
    ("matching by key", "another slot"): changed(good(), "start", slot=0),
    ("matching by time", "a success without an execution"): without(without(good(), "end"), "start"),
    ("matching by time", "an execution after the end"): changed(good(), "start", t_store=90 * S),
    ("no bugs", "a broken service"): good().add(63, "broken", "worker", error="TypeError"),
    ("L1", "a run that never ends"): run_at(calm(), 60, 60, None),
    ("L2", "no leader"): renumbered(Story.add(calm(40), 100, "over", "nemesis")),
    ("L2", "no leader of the second shard"): renumbered(calm().add(50, "layout", version=2, shards=2)),
    ("L7", "a shard that is handed round"): handed_round(0, until=140),
    ("L3", "late without a fault"): run_at(calm(), 120, 120.5, 121),
    ("L4", "running under a dead lease"): renumbered(
        Story.add(calm(100), 60, "join", inc="Z", ttl=15 * S).lease(61, "arm", inc="Z").add(300, "over", "nemesis")
    ),
    ("L6", "no planner of the second shard"): renumbered(calm().add(50, "layout", version=2, shards=2)),
    ("L6", "a stopped planner"): renumbered(Story.add(calm(100), 200, "over", "nemesis")),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_right_history_passes(name):
    assert check(GOOD[name].events) == []


@pytest.mark.parametrize(("rule", "name"), BAD)
def test_a_wrong_history_is_caught(rule, name):
    assert rule in {violation.rule for violation in check(BAD[rule, name].events, only=[rule])}


def test_a_history_without_faults_keeps_all_liveness_rules():
    assert check(run_at(calm(), 120, 120, 121).events, only=[rule for rule in RULES if rule.startswith("L")]) == []


@pytest.mark.parametrize(("due", "judged"), [(119, False), (121, True)])
def test_a_run_behind_older_runs_may_start_late(due, judged):
    """A resume releases more runs than there are seats, and the oldest are taken first."""
    other: dict[str, Any] = {"run": 77, "lease": "l77", "fence": 77, "trigger": "submit:x"}
    story = run_at(calm(), 120, 125, 126).lease(124, "arm", **other, slot=due * S, due=due * S)
    assert bool(check(renumbered(story).events, only=["L3"])) == judged


@pytest.mark.parametrize(("seats", "judged"), [(1, False), (2, True)])
def test_a_run_may_start_late_while_all_seats_are_taken(seats, judged):
    """Younger runs may have the seats: they were taken before this one was due."""
    for story in (behind_a_seat(seats), behind_a_seat(seats, written=125.2)):  # the node knows the end before the store
        found = check(story.events, only=["L3"])
        assert [violation.rule for violation in found] == (["L3"] if judged else [])


@pytest.mark.parametrize(("free_at", "start", "judged"), [(126, 131, False), (126, 132, True), (119.5, 126, True)])
def test_a_run_that_the_leader_places_may_find_a_seat_elsewhere(free_at, start, judged):
    """Seed 1700006: the seat came free on another node than the chosen one, so the leader places the run again."""
    story = behind_a_seat(1, free_at=free_at, start=start, assignment="leader")
    found = check(story.events, only=["L3"])
    assert [violation.rule for violation in found] == (["L3"] if judged else [])


@pytest.mark.parametrize(("seats", "judged"), [(1, False), (2, True)])
def test_a_run_may_end_late_while_all_seats_are_taken(seats, judged):
    found = check(behind_a_seat(seats, free_at=900, overlap=otd.Overlap("allow")).events, only=["L1"])
    late = [violation for violation in found if "run 77 " not in violation.what]  # run 77 has the seat for too long
    assert [violation.rule for violation in late] == (["L1"] if judged else [])


@pytest.mark.parametrize(
    ("able", "judged"),
    [
        ({"queues": ["default"], "labels": ["gpu"]}, True),
        ({"queues": ["mail"], "labels": ["gpu"]}, False),
        ({"queues": ["default"], "labels": []}, False),
    ],
)
def test_seats_of_nodes_that_cannot_run_the_job_do_not_count(able, judged):
    """Seed 200274: the only node with the label was full, and other nodes were not."""
    story = behind_a_seat(1, labels=["gpu"])
    story.events.insert(1, story.events[1] | {"ev": "join", "inc": "B", "node_id": "b", "ttl": 1_000 * S, **able})
    found = check(renumbered(story).events, only=["L3"])
    assert [violation.rule for violation in found] == (["L3"] if judged else [])


def behind_a_seat(
    seats: int, *, free_at: float = 124.9, written: float = 0.0, start: float = 0.0, **options: Any
) -> Story:  # fmt: skip
    """A run starts when another run's seat comes free, five seconds after it was due."""
    other: dict[str, Any] = {"run": 77, "lease": "l77", "fence": 77, "trigger": "submit:x", "slot": 130 * S}
    story = calm(**options).lease(119, "arm", **other, due=119 * S).job(119, "start", **other)
    story.job(free_at, "end", **other, outcome="done")
    if not written:
        story.verdict(free_at, **other)
    due, at = 120 * S, start or free_at + 0.1
    story.lease(at, "arm", due=due, slot=due).job(at, "start", slot=due)
    if written:
        story.verdict(written, **other)
    story.job(at + 1, "end", slot=due, outcome="done").verdict(at + 1).add(at + 300, "over", "nemesis")
    settings = story.events[0]["settings"]
    story.events[0] = story.events[0] | {"settings": settings | {"seats": seats}}
    return renumbered(story)


def test_each_rule_has_a_wrong_history():
    from tests.checker.test_dependencies import BAD as AFTER
    from tests.checker.test_effects import BAD as EFFECTS
    from tests.checker.test_gates_and_control import BAD as MORE  # it builds on the stories here
    from tests.checker.test_overdue import BAD as OVERDUE
    from tests.checker.test_placement import BAD as STILL_MORE
    from tests.checker.test_zone_data import BAD as ZONES

    assert {rule for rule, _ in (*BAD, *MORE, *STILL_MORE, *AFTER, *EFFECTS, *ZONES, *OVERDUE)} == set(RULES)


def test_each_rule_has_a_docstring():
    assert all(rule.__doc__ for rule in RULES.values())


@pytest.mark.slow
def test_a_written_history_can_be_checked_by_command(tmp_path):
    path = tmp_path / "history.jsonl"
    write(path, good().events)
    assert read(path) == good().events
    write(path, BAD["S3", "a start before its due instant"].events)
    done = subprocess.run([sys.executable, "-m", "onthedot_verify.checker", path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "S3 at line" in done.stdout


def test_an_unknown_rule_is_reported_with_a_suggestion():
    with pytest.raises(DefinitionError, match="expected names of RULES, got 'no bug', did you mean 'no bugs'"):
        check([], only=["S1", "no bug"])
