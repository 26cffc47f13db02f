"""When to ask again: no worker that sleeps until `look_again_at` comes too late for anything."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.job import Call, Limit, Rate
from onthedot.model.rate import RateGate
from onthedot.model.run import Delayed, GateAsk, OnBusy
from onthedot_verify.contract.register import check
from onthedot_verify.contract.workbench import Workbench, at


@check
async def check_nothing_is_waiting(bench: Workbench) -> None:
    """None: in an empty store, and when everything has been taken or has ended."""
    record = await bench.define()
    node = await bench.node()
    assert (await bench.reserve(node, seats=1, ahead=1, horizon=5)).look_again_at is None
    await bench.submit(record)
    got = await bench.reserve(node, seats=1, ahead=1, horizon=5)
    assert got.look_again_at is None
    await bench.finish(got.armed[0])
    assert (await bench.reserve(node, seats=1, ahead=1, horizon=5)).look_again_at is None


@check
async def check_the_next_run_enters_the_horizon(bench: Workbench) -> None:
    """A run beyond the horizon can be reserved when the horizon reaches it, and not a moment later."""
    record = await bench.define()
    await bench.submit(record, due=30)
    await bench.submit(record, due=20)
    node = await bench.node()
    got = await bench.reserve(node, seats=1, ahead=2, horizon=5)
    assert got.look_again_at == at(15)
    bench.turn(15)
    assert len((await bench.reserve(node, seats=1, ahead=2, horizon=5)).held) == 1


@check
async def check_due_work_is_left(bench: Workbench) -> None:
    """When due work was left for want of a seat, it can be asked for at any time: now."""
    record = await bench.define()
    for _ in range(3):
        await bench.submit(record)
    bench.turn(2)
    got = await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)
    assert (len(got.armed), got.look_again_at) == (1, at(2))


@check
async def check_a_worker_that_reserves_nothing_ahead(bench: Workbench) -> None:
    """Without room ahead a worker is told the due instant: neither later, nor so early that it would spin."""
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
async def check_no_room_ahead_is_left(bench: Workbench) -> None:
    """A run within the horizon for which there was no room ahead is not slept past."""
    record = await bench.define()
    await bench.submit(record, due=3)
    await bench.submit(record, due=4)
    got = await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)
    assert [lease.due_at for lease in got.held] == [at(3)]
    assert got.look_again_at is not None
    assert at(0) < got.look_again_at <= at(4)


@check
async def check_anothers_reservation_lapses(bench: Workbench) -> None:
    """A run that another worker reserved may become free when that lapses, within the horizon or beyond; who
    asks at that instant gets it."""
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
async def check_the_earlier_of_both(bench: Workbench) -> None:
    """Of a reservation that lapses and a run that comes, the earlier one counts."""
    record = await bench.define()
    await bench.submit(record, due=5)
    one, two = await bench.node("one"), await bench.node("two")
    await bench.hold(one, lapse=2)
    await bench.submit(record, due=8)
    assert (await bench.reserve(two, seats=1, ahead=1, horizon=0.5)).look_again_at == at(7)
    assert (await bench.reserve(two, seats=1, ahead=1, horizon=3)).look_again_at == at(5)


@check
async def check_anothers_reservation_lapses_in_a_queue_that_is_shared_fairly(bench: Workbench) -> None:
    """A run that has had its turn may become free as well. The holder itself is not told of it."""
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
async def check_a_run_is_delayed_in_a_queue_that_is_shared_fairly(bench: Workbench) -> None:
    """A rate has given it a later instant, and it has had its turn: it is taken at that instant, and not before."""
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
async def check_what_others_must_do_is_not_waited_for(bench: Workbench) -> None:
    """A due run that this worker cannot do gives it no instant to come back at."""
    other = await bench.define("other", task=Call(handler="other"))
    await bench.submit(other)
    assert (await bench.reserve(await bench.node(), seats=1, ahead=1, horizon=5)).look_again_at is None
