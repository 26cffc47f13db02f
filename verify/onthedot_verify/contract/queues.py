"""Checks of queues: priorities, labels, fair shares, targets, draining nodes, and placement by the leader."""

from __future__ import annotations

import json
from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.errors import TermLost
from onthedot.model.job import Job, JobRecord, Limit
from onthedot.model.route import BONUS, Priority
from onthedot.model.run import Gone, RunState
from onthedot.stores.values import Node, Placement
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, every, raises, retry, window

# ── queues and labels ────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_run_waits_in_its_jobs_queue(bench: Workbench) -> None:
    """Workers of other queues do not get it. The run and its lease name the queue."""
    record = await bench.define("mailer", queue="mail")
    run_id = await bench.submit(record)
    node = await bench.node()
    assert await bench.take(node) == []
    assert (await bench.reserve(node, seats=1, queues=("mail-eu", "mai"))).armed == [], "names must be equal"
    [lease] = (await bench.reserve(node, seats=1, queues=("mail",))).armed
    assert (lease.run_id, lease.queue) == (run_id, "mail")
    assert (await bench.run(run_id)).queue == "mail"
    await bench.finish(lease)
    assert (await bench.run(run_id)).queue == "mail"


@check
async def check_a_run_needs_a_worker_with_its_labels(bench: Workbench) -> None:
    """It goes to a worker that offers all of them, and blocks no other worker."""
    needy = await bench.define("needy", labels=frozenset({"gpu", "region=eu"}))
    plain = await bench.define("plain")
    wanted = await bench.submit(needy)
    other = await bench.submit(plain, due=1)
    bench.turn(2)
    node = await bench.node()
    for labels in (frozenset[str](), frozenset({"gpu"})):
        got = await bench.reserve(node, seats=0, labels=labels, ahead=9, horizon=60)
        assert got.held == []
    [lease] = (await bench.reserve(node, seats=1, labels=frozenset({"gpu"}))).armed
    assert lease.run_id == other
    [lease] = (await bench.reserve(node, seats=9, labels=frozenset({"gpu", "region=eu", "more"}))).armed
    assert lease.run_id == wanted


@check
async def check_an_edit_moves_waiting_runs_to_the_new_queue(bench: Workbench) -> None:
    """They get the queue, priority and labels of the new definition. So does a run that will be retried."""
    record = await bench.define()
    node = await bench.node()
    first, second = await bench.submit(record), await bench.submit(record)
    [lease] = await bench.take(node)
    assert lease.run_id == first
    await bench.put(bench.job(queue="other", priority="high"))
    await bench.finish(lease, retry(0))
    assert await bench.take(node, seats=9) == []
    got = await bench.reserve(node, seats=9, queues=("other",))
    assert {lease.run_id for lease in got.armed} == {first, second}
    assert (await bench.run(second)).priority == "high"


@check
async def check_a_paused_queue_gives_out_no_run(bench: Workbench) -> None:
    """After the answer nothing of it is reserved or armed, and running attempts continue. A resume ends this."""
    record = await bench.define()
    node = await bench.node()
    running = await bench.submit(record)
    [lease] = await bench.take(node)
    waiting = await bench.submit(record, due=1)
    [held] = await bench.hold(node, lapse=2)
    queue = await bench.store.pause_queue("default", reason="lunch", now=bench.now)
    assert (queue.name, queue.paused_at, queue.reason) == ("default", at(0), "lunch")
    bench.turn(1)
    [answer] = await bench.arm(held)
    assert isinstance(answer, Gone)
    bench.turn(20)
    got = await bench.reserve(node, seats=9, ahead=9, horizon=60)
    assert (got.armed, got.held) == ([], [])
    assert await bench.finish(lease)
    assert (await bench.run(running)).state is RunState.SUCCEEDED
    again = await bench.store.pause_queue("default", reason="still", now=bench.now)
    assert (again.paused_at, again.reason) == (at(0), "still")
    assert (await bench.store.resume_queue("default", now=bench.now)).paused_at is None
    assert [lease.run_id for lease in await bench.take(node, seats=9)] == [waiting]


@check
async def check_a_pause_stops_only_its_own_queue(bench: Workbench) -> None:
    """A worker of several queues takes runs from the others."""
    one, two = await bench.define("one", queue="one"), await bench.define("two", queue="two")
    await bench.submit(one)
    run_id = await bench.submit(two)
    await bench.store.pause_queue("one", reason="", now=bench.now)
    got = await bench.reserve(await bench.node(), seats=9, queues=("one", "two"))
    assert [lease.run_id for lease in got.armed] == [run_id]


@check
async def check_queues_are_listed_with_their_counts(bench: Workbench) -> None:
    """Each queue with a live run or a pause is listed. Waiting, due and running are counted separately."""
    record = await bench.define()
    node = await bench.node()
    await bench.submit(record)
    await bench.take(node)
    await bench.submit(record, due=3)
    await bench.submit(record, due=50)
    await bench.store.pause_queue("empty", reason="", now=bench.now)
    bench.turn(10)
    default, empty = await bench.store.queries.list_queues(now=bench.now)
    assert (default.name, default.waiting, default.due, default.running) == ("default", 2, 1, 1)
    assert (default.oldest_due, default.paused_at) == (at(3), None)
    assert (empty.name, empty.waiting, empty.running, empty.paused_at) == ("empty", 0, 0, at(0))


@check
async def check_a_queue_shows_its_current_pause(bench: Workbench) -> None:
    """A run counts as due from its instant on. A resumed queue has no reason."""
    await bench.submit(await bench.define(), due=3)
    await bench.store.pause_queue("default", reason="by hand", now=bench.now)
    bench.turn(3)
    [queue] = await bench.store.queries.list_queues(now=bench.now)
    assert (queue.due, queue.oldest_due, queue.paused_at, queue.reason) == (1, at(3), at(0), "by hand")
    await bench.store.resume_queue("default", now=bench.now)
    [queue] = await bench.store.queries.list_queues(now=bench.now)
    assert (queue.paused_at, queue.reason) == (None, "")


# ── priorities ───────────────────────────────────────────────────────────────────────────────────────────────


async def submit_levels(bench: Workbench, *wanted: tuple[Priority, float]) -> dict[int, tuple[Priority, float]]:
    runs = {}
    for priority, due in wanted:
        record = await bench.store.queries.get_job(priority) or await bench.define(priority, priority=priority)
        runs[await bench.submit(record, due=due)] = (priority, due)
    return runs


@check
async def check_a_higher_priority_goes_first(bench: Workbench) -> None:
    """Due runs go in the order critical, high, normal, low, in whatever order they were submitted."""
    wanted: list[tuple[Priority, float]] = [("low", 0), ("normal", 1), ("critical", 3), ("high", 2), ("critical", 4)]
    runs = await submit_levels(bench, *wanted)
    bench.turn(10)
    got = await bench.reserve(await bench.node(), seats=9)
    order = [runs[lease.run_id] for lease in got.armed]
    assert order == [("critical", 3), ("critical", 4), ("high", 2), ("normal", 1), ("low", 0)]
    assert {(await bench.run(run_id)).priority for run_id in runs} == {"low", "normal", "high", "critical"}


@check
async def check_an_old_run_goes_before_a_new_urgent_one(bench: Workbench) -> None:
    """A run grows older, but the bonus of a priority is fixed. So no run waits for ever."""
    age = BONUS[3] / SECOND
    runs = await submit_levels(bench, ("low", 0), ("critical", age - 1), ("critical", age + 1))
    bench.turn(age + 2)
    got = await bench.reserve(await bench.node(), seats=9)
    assert [runs[lease.run_id][0] for lease in got.armed] == ["critical", "low", "critical"]


@check
async def check_runs_ahead_are_reserved_by_due_instant(bench: Workbench) -> None:
    """Priority does not matter before the due instant: no run starts early."""
    runs = await submit_levels(bench, ("low", 1), ("critical", 2))
    got = await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=60)
    assert [runs[lease.run_id] for lease in got.held] == [("low", 1)]


# ── fair shares ──────────────────────────────────────────────────────────────────────────────────────────────


async def fill(bench: Workbench, record: JobRecord, tenant: str, count: int, due: float = 0) -> None:
    args = json.dumps({"tenant": tenant}, separators=(",", ":"))
    for _ in range(count):
        await bench.submit(record, due=due, args=args)


async def taken(bench: Workbench, node: str, seats: int) -> list[str]:
    got = await bench.reserve(node, seats=seats)
    return [json.loads(lease.args or "{}")["tenant"] for lease in got.armed]


@check
async def check_a_busy_share_does_not_block_others(bench: Workbench) -> None:
    """In a fair queue a share with many runs does not delay a share with few."""
    record = await bench.define("shared", share="tenant")
    await bench.store.share_queue("default", {}, now=bench.now)
    node = await bench.node()
    await fill(bench, record, "flood", 12)
    await fill(bench, record, "small", 2)
    order = await taken(bench, node, 4)
    assert sorted(order) == ["flood", "flood", "small", "small"]
    await fill(bench, record, "late", 1)
    assert "late" in await taken(bench, node, 2), "expected no catch-up on past virtual time"


@check
async def check_weights_divide_the_turns(bench: Workbench) -> None:
    """A share with weight three gets three turns for one."""
    record = await bench.define("shared", share="tenant")
    await bench.store.share_queue("default", {"big": 3}, now=bench.now)
    node = await bench.node()
    await fill(bench, record, "big", 30)
    await fill(bench, record, "one", 30)
    order = await taken(bench, node, 24)
    assert abs(order.count("big") - 18) <= 1
    assert abs(order[:8].count("big") - 6) <= 1


@check
async def check_a_run_takes_its_turn_when_it_is_due(bench: Workbench) -> None:
    """Runs that become due later, retries and high priorities get turns, too. No run is left out."""
    record = await bench.define("shared", share="tenant")
    urgent = await bench.define("urgent", share="tenant", priority="critical")
    await bench.store.share_queue("default", {}, now=bench.now)
    node = await bench.node()
    await fill(bench, record, "early", 6)
    await fill(bench, record, "later", 3, due=10)
    assert await taken(bench, node, 2) == ["early", "early"]
    bench.turn(20)
    await fill(bench, urgent, "early", 1)
    got = await bench.reserve(node, seats=3)
    assert [lease.record.job.name for lease in got.armed].count("urgent") == 1
    await bench.finish(got.armed[0], retry(20))
    rest = [lease.run_id for lease in (await bench.reserve(node, seats=99)).armed]
    assert len(set(rest)) == 10 - 2 - 3 + 1


@check
async def check_a_queue_can_stop_being_shared(bench: Workbench) -> None:
    """Without weights the oldest run comes first again, also among runs that had their turns."""
    record = await bench.define("shared", share="tenant")
    await bench.store.share_queue("default", {}, now=bench.now)
    node = await bench.node()
    await fill(bench, record, "a", 3)
    await fill(bench, record, "b", 3, due=1)
    bench.turn(2)
    await taken(bench, node, 1)
    assert (await bench.store.share_queue("default", None, now=bench.now)).weights is None
    assert await taken(bench, node, 9) == ["a", "a", "b", "b", "b"]


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


@check
async def check_a_draining_node_gets_no_run(bench: Workbench) -> None:
    """This holds from the answer on. The node learns of it with its beat and keeps its runs. It can be undrained."""
    record = await bench.define()
    await bench.submit(record)
    one, two = await bench.node("one"), await bench.node("two")
    [lease] = await bench.take(one)
    await bench.submit(record)
    assert await bench.store.drain("one", now=bench.now) == 1
    assert await bench.store.drain("nobody", now=bench.now) == 0
    assert await bench.take(one) == []
    assert (await bench.store.beat(one, ttl=SECOND, now=bench.now)).draining is True
    assert (await bench.store.beat(two, ttl=SECOND, now=bench.now)).draining is False
    assert {node.id: node.draining for node in await bench.store.queries.list_nodes()} == {"one": True, "two": False}
    assert await bench.finish(lease)
    await bench.store.drain("one", draining=False, now=bench.now)
    assert len(await bench.take(one)) == 1


@check
async def check_a_beat_can_begin_the_drain(bench: Workbench) -> None:
    """It drains this incarnation only: another one of the same node takes work."""
    record = await bench.define()
    await bench.submit(record)
    old, new = (Node("one", incarnation, seats=4) for incarnation in ("one-1", "one-2"))
    await bench.store.register(old, ttl=SECOND, now=bench.now)
    assert (await bench.store.beat("one-1", ttl=SECOND, draining=True, now=bench.now)).draining is True
    assert (await bench.store.beat("one-1", ttl=SECOND, now=bench.now)).draining is True
    assert (await bench.store.register(new, ttl=SECOND, now=bench.now)).draining is False
    found = {node.incarnation: node.draining for node in await bench.store.queries.list_nodes()}
    assert found == {"one-1": True, "one-2": False}
    assert await bench.take("one-1") == []
    assert len(await bench.take("one-2")) == 1


@check
async def check_a_node_shows_what_it_serves(bench: Workbench) -> None:
    """Queues, labels, tasks and seats are stored as registered."""
    node = Node("n", "n-1", queues=("a", "b"), labels=("gpu",), tasks=("call:x",), seats=7)
    await bench.store.register(node, ttl=SECOND, now=bench.now)
    [shown] = await bench.store.queries.list_nodes()
    assert (shown.queues, shown.labels, shown.tasks, shown.seats) == (("a", "b"), ("gpu",), ("call:x",), 7)


@check
async def check_a_slot_has_one_run_for_each_target(bench: Workbench) -> None:
    """A window with targets makes one run of each slot for each node. Each node gets only its own."""
    job = bench.job(every(), on="all")
    planned = window(0, 30, [10])
    planned.targets = ("one", "two")
    put = await bench.put(job, planned)
    assert put.planned == 2
    bench.turn(10)
    nodes = [await bench.node(name) for name in ("one", "two", "three")]
    taken_by = [[lease.target for lease in await bench.take(node, seats=9)] for node in nodes]
    assert taken_by == [["one"], ["two"], []]


@check
async def check_an_edit_keeps_a_runs_target(bench: Workbench) -> None:
    """The run still goes to its own node only."""
    job = bench.job(every(), on="all")
    planned = window(0, 30, [10], next_at=40)
    planned.targets = ("one", "two")
    await bench.put(job, planned)
    bench.turn(10)
    one, two = await bench.node("one"), await bench.node("two")
    await bench.put(replace(job, owner="ops"), window(10, 30, [], next_at=40))
    assert [lease.target for lease in await bench.take(two, seats=9)] == ["two"]
    assert [lease.target for lease in await bench.take(one, seats=9)] == ["one"]


@check
async def check_a_run_whose_target_is_gone_is_skipped(bench: Workbench) -> None:
    """At its expiry it is skipped(node_gone). A run for a living node is skipped(missed)."""
    job = bench.job(every(), on="all")
    planned = window(0, 30, [10], late=5)
    planned.targets = ("alive", "gone")
    await bench.put(job, planned)
    await bench.node("alive")
    bench.turn(16)
    runs = await bench.store.expire(limit=9, now=bench.now)
    assert {run.target: run.reason for run in runs} == {"alive": "missed", "gone": "node_gone"}


# ── placement by the leader ──────────────────────────────────────────────────────────────────────────────────


def led(bench: Workbench) -> Job:
    return bench.job(assignment="leader")


@check
async def check_an_unplaced_run_is_not_reserved(bench: Workbench) -> None:
    """It waits for the leader. After the placement it goes to the chosen worker only."""
    record = (await bench.put(led(bench))).record
    run_id = await bench.submit(record)
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    assert await bench.take(one) == []
    [unplaced] = await bench.store.queries.list_unassigned(until=bench.now, limit=9, now=bench.now)
    assert (unplaced.run_id, unplaced.record.id, unplaced.due_at, unplaced.place) == (run_id, record.id, at(0), "")
    assert await bench.store.assign(term, [Placement(run_id, two)], now=bench.now) == [True]
    assert await bench.store.queries.count_loads() == {two: 1}
    assert await bench.store.assign(term, [Placement(run_id, one)], now=bench.now) == [False], "it is placed already"
    assert await bench.store.queries.list_unassigned(until=bench.now, limit=9, now=bench.now) == []
    assert await bench.take(one) == []
    [lease] = await bench.take(two)
    assert lease.run_id == run_id
    assert await bench.store.queries.count_loads() == {two: 1}


@check
async def check_a_placement_needs_the_term(bench: Workbench) -> None:
    """A node that has lost its term cannot place runs."""
    record = (await bench.put(led(bench))).record
    run_id = await bench.submit(record)
    one, two = await bench.node("one"), await bench.node("two")
    old = await bench.term(one, ttl=5)
    bench.turn(6)
    await bench.term(two)
    async with bench.nothing_written():
        with raises(TermLost):
            await bench.store.assign(old, [Placement(run_id, one)], now=bench.now)


@check
async def check_an_unused_placement_is_made_again(bench: Workbench) -> None:
    """Its worker has died, or has not armed the run within a second of its due instant."""
    record = (await bench.put(led(bench))).record
    run_id = await bench.submit(record, due=3)
    one, short = await bench.node("one"), await bench.node("short", ttl=2)
    term = await bench.term(one)
    assert await bench.store.queries.list_unassigned(until=at(2), limit=9, now=bench.now) == []
    assert await bench.store.assign(term, [Placement(run_id, short)], now=bench.now) == [True]
    bench.turn(1)
    assert await bench.store.queries.list_unassigned(until=at(9), limit=9, now=bench.now) == []
    bench.turn(2)
    [unplaced] = await bench.store.queries.list_unassigned(until=at(9), limit=9, now=bench.now)
    assert (unplaced.run_id, unplaced.place) == (run_id, short)
    assert await bench.store.assign(term, [Placement(run_id, one)], now=bench.now) == [True]
    bench.turn(3.9)
    assert await bench.store.queries.list_unassigned(until=at(9), limit=9, now=bench.now) == []
    bench.turn(4)
    assert [run.run_id for run in await bench.store.queries.list_unassigned(until=at(9), limit=9, now=bench.now)] == [
        run_id
    ]
    assert await bench.store.assign(term, [Placement(run_id, one)], now=bench.now) == [True]
    assert await bench.store.queries.list_unassigned(until=at(9), limit=9, now=bench.now) == [], (
        "expected a second for the new placement"
    )


@check
async def check_a_lapsed_reservation_keeps_its_placement(bench: Workbench) -> None:
    """No other worker may take the run before it is placed again. Then the old lease is `Gone`."""
    record = (await bench.put(led(bench))).record
    run_id = await bench.submit(record, due=1)
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    await bench.store.assign(term, [Placement(run_id, two)], now=bench.now)
    [old] = await bench.hold(two, lapse=1)
    bench.turn(9)
    assert await bench.take(one) == []
    assert await bench.store.assign(term, [Placement(run_id, one)], now=bench.now) == [True]
    assert isinstance((await bench.arm(old))[0], Gone)
    [lease] = await bench.take(one)
    assert lease.run_id == run_id


@check
async def check_only_waiting_runs_of_the_leader_are_placed(bench: Workbench) -> None:
    """Runs that any worker may take, held runs and running ones are refused. Each run is placed and counted once."""
    record, plain = (await bench.put(led(bench))).record, await bench.define("plain")
    paused = (await bench.put(replace(led(bench), name="paused"))).record
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    await bench.store.pause_job(paused.id, reason="", now=bench.now)
    placed = await bench.submit(record, due=1)
    others = [await bench.submit(plain, due=1), await bench.submit(paused)]
    wanted = [Placement(run_id, two) for run_id in (placed, placed, *others)]
    assert await bench.store.assign(term, wanted, now=bench.now) == [True, False, False, False]
    [lease] = [lease for lease in await bench.hold(two, 9) if lease.run_id == placed]
    assert (await bench.store.queries.count_loads())[two] == 2
    lease = await bench.armed(lease)
    bench.turn(1)
    await bench.store.drain("two", now=bench.now)
    await bench.store.leave(two, now=bench.now)
    assert await bench.store.assign(term, [Placement(placed, one)], now=bench.now) == [False]
    assert await bench.finish(lease)


@check
async def check_a_full_worker_does_not_hide_a_lapsed_run(bench: Workbench) -> None:
    """In a fair queue a worker without a free seat learns that there is more. After the lapse another worker gets the
    run."""
    await bench.store.share_queue("default", {}, now=bench.now)
    record = await bench.define(concurrency=Limit(9), share="tenant")
    dying, other = await bench.node("dying"), await bench.node("other")
    run_ids = {await bench.submit(record) for _ in range(2)}
    [lease] = (await bench.reserve(dying, seats=1)).held
    assert (await bench.reserve(other, seats=0)).look_again_at == bench.now
    bench.turn(1)
    got = await bench.reserve(other, seats=9)
    assert {lease.run_id for lease in got.held} == run_ids, f"run {lease.run_id} had lapsed"


@check
async def check_a_late_placement_lasts_a_second(bench: Workbench) -> None:
    """An overdue run is placed once, and not again until its worker has had the time to take it."""
    record = await bench.define(assignment="leader")
    one, two = await bench.node("one"), await bench.node("two")
    term = await bench.term(one)
    run_id = await bench.submit(record)
    bench.turn(30)
    assert await bench.store.assign(term, [Placement(run_id, one)], now=bench.now) == [True]
    bench.turn(30.9)
    assert await bench.store.queries.list_unassigned(until=at(60), limit=9, now=bench.now) == []
    assert await bench.store.assign(term, [Placement(run_id, two)], now=bench.now) == [False]
    bench.turn(31)
    [waiting] = await bench.store.queries.list_unassigned(until=at(60), limit=9, now=bench.now)
    assert (waiting.run_id, waiting.place) == (run_id, one)


@check
async def check_runs_of_a_paused_queue_are_not_placed(bench: Workbench) -> None:
    """No worker could take them. After the resume they are listed again."""
    record = await bench.define(assignment="leader")
    run_id = await bench.submit(record)
    await bench.store.pause_queue("default", reason="", now=bench.now)
    assert await bench.store.queries.list_unassigned(until=at(60), limit=9, now=bench.now) == []
    await bench.store.resume_queue("default", now=bench.now)
    assert [one.run_id for one in await bench.store.queries.list_unassigned(until=at(60), limit=9, now=bench.now)] == [
        run_id
    ]


@check
async def check_a_cancel_for_one_target_keeps_the_others(bench: Workbench) -> None:
    """A slot cancelled ahead for one node still runs on the others, also after an edit."""
    job = bench.job(every(), on="all")
    planned = window(0, 30, [10], next_at=40)
    planned.targets = ("one", "two")
    await bench.put(job, planned)
    runs = {run.target: run.id for run in await bench.store.queries.list_runs()}
    await bench.store.cancel([runs["one"]], why="by hand", now=bench.now)
    bench.turn(1)
    anew = window(1, 30, [10], next_at=40)
    anew.targets = ("one", "two")
    await bench.put(bench.job(every(), on="all", priority="high"), anew)
    bench.turn(10)
    [lease] = await bench.take(await bench.node("two"), seats=9)
    assert (lease.target, lease.slot_at) == ("two", at(10))
