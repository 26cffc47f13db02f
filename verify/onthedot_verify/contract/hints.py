"""Checks of hints: each write that gives a sleeping service work sends a hint before it answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from onthedot.clock import SECOND
from onthedot.model.after import After
from onthedot.model.job import Limit, Rate
from onthedot.model.rate import RateGate
from onthedot.model.run import Armed, Blocked, Delayed, Gate, GateAsk, NewRun, OnBusy, submit_trigger
from onthedot.stores.hints import Hint
from onthedot.stores.values import Placement
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, fixed_delay, retry, window


@contextmanager
def hinted(bench: Workbench, *kinds: str) -> Iterator[list[Hint]]:
    """The body sends hints of all these kinds. Yields the list that receives them."""
    heard: list[Hint] = []
    bench.store.hints.listen(heard.append)
    yield heard
    missing = set(kinds) - {hint.kind for hint in heard}
    assert not missing, f"expected hints of {sorted(missing)}"


@check
async def check_a_definition_sends_hints(bench: Workbench) -> None:
    """A put, an edit and a resume wake planners and workers."""
    with hinted(bench, "schedules", "runs"):
        record = await bench.define(slots=(10,))
    with hinted(bench, "schedules", "runs"):
        await bench.put(replace(record.job, owner="ops"), window(0, 60, [10], next_at=70))
    bare = await bench.define("bare")
    with hinted(bench, "runs"):  # other workers may run its waiting runs now
        await bench.put(replace(bare.job, owner="ops"))
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    with hinted(bench, "schedules", "runs"):
        await bench.store.resume_job(record.id, now=bench.now)


@check
async def check_new_runs_send_a_hint_with_their_instant(bench: Workbench) -> None:
    """Submitted, planned, or run after another: a worker that sleeps longer wakes up."""
    record, node = await bench.define(slots=(10,)), await bench.node()
    term = await bench.term(node)
    child = await bench.define("child", after=After("job"))
    new = [NewRun(record.id, submit_trigger(str(due)), at(due)) for due in (9, 5, 7)]
    with hinted(bench, "runs") as heard:
        await bench.store.submit(new, now=bench.now)
    assert min(hint.ready_at for hint in heard if hint.kind == "runs") == at(5)
    with hinted(bench, "runs") as heard:
        await bench.plan(term, record, window(60, 90, [70, 80], next_at=100))
    assert min(hint.ready_at for hint in heard if hint.kind == "runs") == at(70)
    bench.turn(5)
    [lease] = await bench.take(node)
    with hinted(bench, "runs", "ends"):
        await bench.finish(lease)
    assert len(await bench.runs(child.job.name)) == 1


@check
async def check_a_run_that_is_ready_again_sends_a_hint(bench: Workbench) -> None:
    """A worker has released it, its node is gone, or it will be retried."""
    record, node = await bench.define(), await bench.node()
    await bench.submit(record, due=1)
    with hinted(bench, "runs"):
        await bench.release(*await bench.hold(node))
    bench.turn(1)
    [lease] = await bench.take(node)
    with hinted(bench, "runs") as heard:
        await bench.finish(lease, retry(8))
    assert Hint("runs", at(8)) in heard
    assert len(await bench.hold(node)) == 1
    with hinted(bench, "runs", "terms"):
        await bench.store.leave(node, now=bench.now)


@check
async def check_an_open_gate_sends_a_hint(bench: Workbench) -> None:
    """The run that receives the gate can start at once."""
    record, node = await bench.define(concurrency=Limit(1)), await bench.node()
    gate, wait = Gate("limit:a", 1), OnBusy("wait")
    for _ in range(2):
        await bench.submit(record)
    one, two = (await bench.reserve(node, seats=2, lapse=1000)).held
    asks = {lease.lease_id: GateAsk((gate,), wait) for lease in (one, two)}
    armed, blocked = await bench.store.arm([replace(one), replace(two)], gates=asks, now=bench.now)
    assert isinstance(armed, Armed)
    assert isinstance(blocked, Blocked)
    with hinted(bench, "runs"):
        await bench.finish(replace(one, fence=armed.fence, armed_at=armed.armed_at))


@check
async def check_a_delayed_run_sends_a_hint(bench: Workbench) -> None:
    """Its rate gave it a later instant. The hint has that instant."""
    record, node = await bench.define(rate=Rate(1, "10s")), await bench.node()
    for _ in range(2):
        await bench.submit(record)
    leases = (await bench.reserve(node, seats=2, lapse=1000)).held
    rate = RateGate("rate:slow", 1, 10 * SECOND)
    asks = {lease.lease_id: GateAsk((), OnBusy("wait"), rate) for lease in leases}
    with hinted(bench, "runs") as heard:
        _, answer = await bench.store.arm(list(map(replace, leases)), gates=asks, now=bench.now)
    assert answer == Delayed("rate:slow", at(10))
    assert Hint("runs", at(10)) in heard


@check
async def check_queues_and_placements_send_hints(bench: Workbench) -> None:
    """A queue that is resumed or shared, and a placement by the leader."""
    await bench.store.pause_queue("default", reason="", now=bench.now)
    with hinted(bench, "runs"):
        await bench.store.resume_queue("default", now=bench.now)
    with hinted(bench, "runs"):
        await bench.store.share_queue("default", {"a": 2}, now=bench.now)
    await bench.store.share_queue("default", None, now=bench.now)
    record, node = await bench.define(assignment="leader"), await bench.node()
    term = await bench.term(node)
    run_id = await bench.submit(record)
    with hinted(bench, "runs"):
        assert await bench.store.assign(term, [Placement(run_id, node)], now=bench.now) == [True]


@check
async def check_cancels_drains_and_probes_send_beat_hints(bench: Workbench) -> None:
    """A node learns with its beat of a cancel or a drain. A probe makes all nodes beat."""
    record, node = await bench.define(), await bench.node("a")
    await bench.submit(record)
    [lease] = await bench.take(node)
    with hinted(bench, "beats"):
        await bench.store.cancel([lease.run_id], why="enough", now=bench.now)
    with hinted(bench, "beats"):
        await bench.store.drain("a", now=bench.now)
    with hinted(bench, "beats"):
        await bench.store.probe(now=bench.now)


@check
async def check_a_free_term_sends_a_hint(bench: Workbench) -> None:
    """After a resign or a new layout, another node campaigns at once."""
    term = await bench.term(await bench.node())
    with hinted(bench, "terms"):
        assert await bench.store.resign(term, now=bench.now)
    with hinted(bench, "terms"):
        await bench.store.set_shards(2, now=bench.now)


@check
async def check_the_next_slot_of_a_fixed_delay_sends_a_hint(bench: Workbench) -> None:
    """Its run has ended or was cancelled ahead, so the planner has a slot to plan."""
    job = bench.job(fixed_delay(30))
    record = (await bench.put(job, window(0, 10, [10], delay=30))).record
    with hinted(bench, "schedules"):
        await bench.store.move_slot(record.id, "s", at(10), reason="cancelled", now=bench.now)
    other = (await bench.put(bench.job(fixed_delay(30), name="other"), window(0, 5, [5], delay=30))).record
    bench.turn(5)
    [lease] = await bench.take(await bench.node())
    assert lease.record.id == other.id
    with hinted(bench, "schedules") as heard:
        await bench.finish(lease)
    assert Hint("schedules", at(35)) in heard
