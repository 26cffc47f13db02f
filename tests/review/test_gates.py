"""Gates stay correct when edits, pauses and ends happen to the same runs at nearly the same time."""

from __future__ import annotations

from onthedot.model.job import Limit, Overlap
from onthedot.model.run import Armed, Blocked, Busy, Gate
from onthedot_verify.contract.workbench import Workbench, every, retry, window
from tests.review.asking import SKIP, WAIT, X, ask, overlap, reserved, with_answer


async def test_a_lowered_limit_applies_from_the_next_run(bench: Workbench):
    """The limit 2 becomes 1. Runs that waited under the old limit pass only when the new one has room."""
    record, node = await bench.define(concurrency=Limit(2)), await bench.node()
    for _ in range(4):
        await bench.submit(record)
    leases, two = await reserved(bench, node), Gate("limit:job:1:", 2)
    answers = await ask(bench, *((lease, [two], WAIT) for lease in leases))
    assert [type(answer) for answer in answers] == [Armed, Armed, Blocked, Blocked]
    running = [with_answer(lease, answer) for lease, answer in zip(leases[:2], answers[:2], strict=True)]
    await bench.put(bench.job(concurrency=Limit(1)))
    one = Gate("limit:job:1:", 1)
    assert await bench.finish(running[0])
    asked = await reserved(bench, node)
    answers = await ask(bench, *((lease, [one], WAIT) for lease in asked))
    assert [type(answer) for answer in answers] == [Blocked, Blocked]  # one runs, and the new limit is 1
    assert await bench.finish(running[1])
    [lease] = await reserved(bench, node)
    assert isinstance((await ask(bench, (lease, [one], WAIT)))[0], Armed)
    assert await bench.store.recount_gates(now=bench.now) == 0


async def test_with_a_lowered_limit_no_run_waits_for_itself(bench: Workbench):
    """A run got a place under Limit(2). The job is edited to Limit(1) before the run is armed."""
    record, node = await bench.define(concurrency=Limit(2)), await bench.node()
    for _ in range(3):
        await bench.submit(record)
    leases, two = await reserved(bench, node), Gate("limit:job:1:", 2)
    answers = await ask(bench, *((lease, [two], WAIT) for lease in leases))
    first, second = (with_answer(lease, answer) for lease, answer in zip(leases[:2], answers[:2], strict=True))
    assert await bench.finish(first)  # its place passes to the third
    await bench.put(bench.job(concurrency=Limit(1)))
    assert await bench.finish(second)
    [lease] = await reserved(bench, node)
    assert isinstance((await ask(bench, (lease, [Gate("limit:job:1:", 1)], WAIT)))[0], Armed)


async def test_an_edit_that_adds_a_gate_causes_no_deadlock(bench: Workbench):
    """One run has the limit, the other the new overlap gate, and each needs what the other has."""
    record, node = await bench.define(concurrency=Limit(1, name="x")), await bench.node()
    for due in (0, 1, 2):
        await bench.submit(record, due)
    bench.turn(3)
    leases = await reserved(bench, node, 2)
    one, two = await ask(bench, *((lease, [X], WAIT) for lease in leases))
    assert isinstance(two, Blocked)
    assert await bench.finish(with_answer(leases[0], one))  # the limit passes to the second
    edited = (await bench.put(bench.job(concurrency=Limit(1, name="x"), overlap=Overlap("wait")))).record
    second, third = await reserved(bench, node)
    gates = [overlap(edited), X]
    await ask(bench, (third, gates, WAIT))
    await ask(bench, (second, gates, WAIT))
    done = set()
    for _ in range(4):
        for lease in await reserved(bench, node):
            [answer] = await ask(bench, (lease, gates, WAIT))
            if isinstance(answer, Armed):
                assert await bench.finish(with_answer(lease, answer))
                done.add(lease.run_id)
        for lease in await bench.store.recover(node):
            if lease.fence:
                assert await bench.finish(lease)
                done.add(lease.run_id)
    assert {second.run_id, third.run_id} <= done


async def test_a_paused_job_takes_no_place_from_others(bench: Workbench):
    """Its run was the next at a shared limit, and is held now. The place goes to a run that can use it."""
    mine, others = await bench.define("mine", concurrency=Limit(1, name="x")), None
    others = await bench.define("others", concurrency=Limit(1, name="x"))
    node = await bench.node()
    await bench.submit(others, 0)
    await bench.submit(mine, 1)
    await bench.submit(others, 2)
    bench.turn(3)
    leases = await reserved(bench, node)
    answers = await ask(bench, *((lease, [X], WAIT) for lease in leases))
    assert [type(answer) for answer in answers] == [Armed, Blocked, Blocked]
    await bench.store.pause_job(mine.id, reason="", now=bench.now)
    assert await bench.finish(with_answer(leases[0], answers[0]))
    [free] = await reserved(bench, node)
    assert free.run_id == leases[2].run_id
    [answer] = await ask(bench, (free, [X], WAIT))
    assert await bench.finish(with_answer(free, answer))
    await bench.store.resume_job(mine.id, now=bench.now)
    [held] = await reserved(bench, node)
    assert held.run_id == leases[1].run_id
    assert isinstance((await ask(bench, (held, [X], WAIT)))[0], Armed)


async def test_a_job_that_is_paused_while_it_has_a_place_gives_it_up(bench: Workbench):
    """The limit has passed to its run, which is not armed yet."""
    mine = await bench.define("mine", concurrency=Limit(1, name="x"))
    others = await bench.define("others", concurrency=Limit(1, name="x"))
    node = await bench.node()
    await bench.submit(others, 0)
    await bench.submit(mine, 1)
    bench.turn(3)
    leases = await reserved(bench, node)
    answers = await ask(bench, *((lease, [X], WAIT) for lease in leases))
    assert await bench.finish(with_answer(leases[0], answers[0]))
    await bench.store.pause_job(mine.id, reason="", now=bench.now)
    await bench.submit(others, 3)
    [free] = await reserved(bench, node)
    assert isinstance((await ask(bench, (free, [X], WAIT)))[0], Armed)


async def test_jobs_that_share_a_limit_name_each_obey_their_own_number(bench: Workbench):
    """A run passes only if its own number has room, even if the place was released by a job with a higher number."""
    many = await bench.define("many", concurrency=Limit(3, name="x"))
    few = await bench.define("few", concurrency=Limit(1, name="x"))
    node = await bench.node()
    for due in (0, 1, 2):
        await bench.submit(many, due)
    await bench.submit(few, 3)
    bench.turn(4)
    leases = await reserved(bench, node)
    three = Gate(X.key, 3)
    answers = await ask(bench, *((lease, [three], WAIT) for lease in leases[:3]), (leases[3], [X], WAIT))
    assert [type(answer) for answer in answers] == [Armed, Armed, Armed, Blocked]
    running = [with_answer(lease, answer) for lease, answer in zip(leases[:3], answers[:3], strict=True)]
    assert await bench.finish(running[0])
    assert await reserved(bench, node) == []  # two still run, and this job allows one
    assert await bench.finish(running[1])
    assert await reserved(bench, node) == []
    assert await bench.finish(running[2])
    assert [lease.run_id for lease in await reserved(bench, node)] == [leases[3].run_id]


async def test_a_withdrawn_run_releases_its_gate(bench: Workbench):
    """The gate has passed to a slot. Then the clock is set back, and an edit withdraws that slot."""
    record, node = await bench.define(slots=(10, 20), overlap=Overlap("skip")), await bench.node()
    bench.turn(20)
    first, second = await reserved(bench, node)
    one, two = await ask(bench, (first, [overlap(record)], WAIT), (second, [overlap(record)], WAIT))
    assert isinstance(two, Blocked)
    assert await bench.finish(with_answer(first, one))
    bench.turn(15)
    edited = bench.job(every(), overlap=Overlap("skip"), owner="ops")
    record = (await bench.put(edited, window(15, 45, [20, 30, 40], next_at=50))).record
    bench.turn(20)
    [again] = await reserved(bench, node)
    assert isinstance((await ask(bench, (again, [overlap(record)], SKIP)))[0], Armed)


async def test_an_edit_that_removes_a_gate_releases_the_waiting_run(bench: Workbench):
    """The run waits at a gate that the new definition no longer has."""
    record, node = await bench.define(overlap=Overlap("wait")), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    leases = await reserved(bench, node)
    answers = await ask(bench, *((lease, [overlap(record)], WAIT) for lease in leases))
    assert isinstance(answers[1], Blocked)
    await bench.put(bench.job(overlap=Overlap("allow")))
    assert [lease.run_id for lease in await bench.take(node, 9)] == [leases[1].run_id]


async def test_a_busy_answer_releases_only_the_gates_that_the_call_took(bench: Workbench):
    """The run is not due yet, so that `arm` answers `Busy` at a closed gate."""
    record, node = await bench.define(concurrency=Limit(1, name="x"), overlap=Overlap("wait")), await bench.node()
    await bench.submit(record)
    await bench.submit(record)
    one, two = await reserved(bench, node)
    [first] = await ask(bench, (one, [overlap(record), X], WAIT))
    assert isinstance((await ask(bench, (two, [overlap(record), X], None)))[0], Busy)
    assert await bench.finish(with_answer(one, first), retry(0))
    assert isinstance((await ask(bench, (two, [overlap(record), X], None)))[0], Busy)
