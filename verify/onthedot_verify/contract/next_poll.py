"""Checks of `look_again_at`: a worker that sleeps until this instant is never too late."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.job import Call, Limit, Rate
from onthedot.model.rate import RateGate
from onthedot.model.run import Delayed, GateAsk, OnBusy
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at


@check
async def check_an_empty_store_gives_no_instant(bench: Workbench) -> None:
    """The answer is None in an empty store, and after all runs are taken or have ended."""
    record = await bench.define()
    node = await bench.node()
    assert (await bench.reserve(node, seats=1, ahead=1, horizon=5)).look_again_at is None
    await bench.submit(record)
    got = await bench.reserve(node, seats=1, ahead=1, horizon=5)
    assert got.look_again_at is None
    await bench.finish(got.armed[0])
    assert (await bench.reserve(node, seats=1, ahead=1, horizon=5)).look_again_at is None


@check
async def check_the_instant_is_when_the_next_run_enters_the_horizon(bench: Workbench) -> None:
    """At that instant a run beyond the horizon can be reserved, and not before."""
    record = await bench.define()
    await bench.submit(record, due=30)
    await bench.submit(record, due=20)
    node = await bench.node()
    got = await bench.reserve(node, seats=1, ahead=2, horizon=5)
    assert got.look_again_at == at(15)
    bench.turn(15)
    assert len((await bench.reserve(node, seats=1, ahead=2, horizon=5)).held) == 1


@check
async def check_due_work_without_a_seat_gives_now(bench: Workbench) -> None:
    """Due runs were left because there was no seat. They can be taken at any time."""
    record = await bench.define()
    for _ in range(3):
        await bench.submit(record)
    bench.turn(2)
    got = await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)
    assert (len(got.armed), got.look_again_at) == (1, at(2))


@check
async def check_without_room_ahead_the_instant_is_the_due_instant(bench: Workbench) -> None:
    """It is never later, and not so early that the worker polls again and again."""
    record = await bench.define()
    await bench.submit(record, due=20)
    node = await bench.node()
    assert (await bench.reserve(node, seats=1)).look_again_at == at(20)
    for instant in (0, 17, 19):
        bench.turn(instant)
        got = await bench.reserve(node, seats=1, ahead=0, horizon=5)
        assert got.look_again_at is not None
        assert at(instant) < got.look_again_at <= at(20)


@check
async def check_the_instant_is_not_after_a_run_without_room_ahead(bench: Workbench) -> None:
    """A run within the horizon was left because there was no room ahead. The instant is not after its due instant."""
    record = await bench.define()
    await bench.submit(record, due=3)
    await bench.submit(record, due=4)
    got = await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)
    assert [lease.due_at for lease in got.held] == [at(3)]
    assert got.look_again_at is not None
    assert at(0) < got.look_again_at <= at(4)


@check
async def check_the_instant_is_when_another_reservation_lapses(bench: Workbench) -> None:
    """A run that another worker reserved may become free then, within the horizon or beyond. A worker that asks at that
    instant gets it."""
    record = await bench.define()
    await bench.submit(record, due=5)
    one, two = await bench.node("one"), await bench.node("two")
    await bench.hold(one, lapse=2)
    for instant, horizon in ((0, 0), (0, 3), (0, 60), (4, 60), (6, 60)):
        bench.turn(instant)
        got = await bench.reserve(two, seats=1, ahead=1, horizon=horizon)
        assert (got.armed, got.held, got.look_again_at) == ([], [], at(7))
    bench.turn(7)
    assert len(await bench.take(two)) == 1


@check
async def check_the_earlier_of_lapse_and_due_instant_counts(bench: Workbench) -> None:
    """One run's reservation lapses, and another run becomes due."""
    record = await bench.define()
    await bench.submit(record, due=5)
    one, two = await bench.node("one"), await bench.node("two")
    await bench.hold(one, lapse=2)
    await bench.submit(record, due=8)
    assert (await bench.reserve(two, seats=1, ahead=1, horizon=0.5)).look_again_at == at(7)
    assert (await bench.reserve(two, seats=1, ahead=1, horizon=3)).look_again_at == at(5)


@check
async def check_a_reservation_in_a_fair_queue_lapses_as_well(bench: Workbench) -> None:
    """A run that has had its turn may become free, too. The holder itself does not get this instant."""
    record = await bench.define(concurrency=Limit(1))
    await bench.store.share_queue("default", {}, now=bench.now)
    await bench.submit(record)
    one, two = await bench.node("one"), await bench.node("two")
    assert len((await bench.reserve(one, seats=1, lapse=2)).held) == 1
    for instant, horizon in ((0, 0), (0, 60), (1, 60)):
        bench.turn(instant)
        got = await bench.reserve(two, seats=1, ahead=1, horizon=horizon)
        assert (got.armed, got.held, got.look_again_at) == ([], [], at(2))
    assert (await bench.reserve(one, seats=1, ahead=1, horizon=60)).look_again_at is None
    bench.turn(2)
    assert len((await bench.reserve(two, seats=1)).held) == 1


@check
async def check_the_instant_is_when_a_delayed_run_in_a_fair_queue_is_ready(bench: Workbench) -> None:
    """Its rate gave it a later instant, and it has had its turn. It is taken at that instant, and not before."""
    record, node = await bench.define(rate=Rate(1, "10s")), await bench.node()
    await bench.store.share_queue("default", {}, now=bench.now)
    for _ in range(2):
        await bench.submit(record)
    leases = (await bench.reserve(node, seats=2, lapse=1000)).held
    rate = RateGate("rate:slow", 1, 10 * SECOND)
    asks = {lease.lease_id: GateAsk((), OnBusy("wait"), rate) for lease in leases}
    assert (await bench.store.arm(leases, gates=asks, now=bench.now))[1] == Delayed("rate:slow", at(10))
    for horizon in (0, 60):
        got = await bench.reserve(node, seats=1, ahead=1, horizon=horizon)
        assert (got.armed, got.held, got.look_again_at) == ([], [], at(10))
    bench.turn(10)
    assert len((await bench.reserve(node, seats=1)).held) == 1


@check
async def check_runs_for_other_workers_give_no_instant(bench: Workbench) -> None:
    """A due run that this worker cannot run does not count."""
    other = await bench.define("other", task=Call(handler="other"))
    await bench.submit(other)
    assert (await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)).look_again_at is None
