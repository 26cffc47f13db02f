"""Checks of `reserve` and `recover`: which runs a worker gets, in which order, and how many."""

from __future__ import annotations

from datetime import timedelta

from onthedot.model.errors import NodeExpired
from onthedot.model.job import Call, JobRecord, Sleep
from onthedot.model.run import Gone, RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import Workbench, at, raises, retry


async def submit_at(bench: Workbench, record: JobRecord, *instants: float) -> list[int]:
    return [await bench.submit(record, due=due) for due in instants]


@check
async def check_reserve_arms_due_runs_at_once(bench: Workbench) -> None:
    """A due run comes armed, with everything its holder needs. It is running from that write on."""
    record = await bench.define()
    run_id = await bench.submit(record, due=2, key="t", args="{}")
    node = await bench.node()
    bench.turn(3)
    got = await bench.reserve(node, seats=1)
    [lease] = got.armed
    assert (got.now, got.held) == (at(3), [])
    assert (lease.run_id, lease.record, lease.trigger, lease.args) == (run_id, record, "submit:t", "{}")
    assert (lease.slot_at, lease.due_at, lease.created_at) == (at(2), at(2), at(0))
    assert (lease.reserved_at, lease.armed_at, lease.attempt) == (at(3), at(3), 1)
    assert (lease.failures, lease.recoveries, lease.incarnation) == (0, 0, node)
    assert lease.fence > 0
    run = await bench.run(run_id)
    assert (run.state, run.attempts, run.armed_at) == (RunState.RUNNING, 1, at(3))


@check
async def check_reserve_holds_future_runs(bench: Workbench) -> None:
    """A run within the horizon is reserved and not armed: it has no fence, and no attempt is counted."""
    record = await bench.define()
    run_id = await bench.submit(record, due=5)
    got = await bench.reserve(await bench.node(), seats=4, ahead=4, horizon=5)
    [lease] = got.held
    assert (got.armed, lease.run_id, lease.due_at) == ([], run_id, at(5))
    assert (lease.reserved_at, lease.armed_at, lease.fence, lease.attempt) == (at(0), 0, 0, 1)
    run = await bench.run(run_id)
    assert (run.state, run.attempts, run.armed_at) == (RunState.RESERVED, 0, None)


@check
async def check_the_earliest_due_run_comes_first(bench: Workbench) -> None:
    """This holds for armed and held runs, in whatever order they were submitted."""
    record = await bench.define()
    ids = dict(zip((8, 2, 6, 4, 14, 12), await submit_at(bench, record, 8, 2, 6, 4, 14, 12), strict=True))
    bench.turn(10)
    got = await bench.reserve(await bench.node(), seats=3, ahead=1, horizon=60)
    assert [lease.run_id for lease in got.armed] == [ids[2], ids[4], ids[6]]
    assert [lease.run_id for lease in got.held] == [ids[12]]


@check
async def check_a_retry_waits_for_its_new_instant(bench: Workbench) -> None:
    """After a failed attempt the run is taken at its new due instant, not at its slot."""
    record = await bench.define()
    node = await bench.node()
    await bench.submit(record)
    [lease] = await bench.take(node)
    await bench.finish(lease, retry(20))
    bench.turn(19)
    assert await bench.take(node) == []
    bench.turn(20)
    [again] = await bench.take(node)
    assert (again.run_id, again.attempt, again.failures, again.due_at) == (lease.run_id, 2, 1, at(20))
    assert again.slot_at == at(0)


@check
async def check_seats_limit_the_armed_runs(bench: Workbench) -> None:
    """A worker gets no more due runs than it has free seats, and each run once."""
    record = await bench.define()
    ids = await submit_at(bench, record, *range(5))
    node = await bench.node()
    bench.turn(10)
    assert (await bench.reserve(node, seats=0, ahead=5, horizon=60)).armed == []
    assert [lease.run_id for lease in await bench.take(node, seats=2)] == ids[:2]
    assert [lease.run_id for lease in await bench.take(node, seats=9)] == ids[2:]
    assert await bench.take(node, seats=9) == []


@check
async def check_extra_seats_are_for_quick_jobs(bench: Workbench) -> None:
    """Beyond the seats only runs of quick jobs are taken, at most `extra`, earliest first."""
    quick, slow = await bench.define("quick"), await bench.define("slow")
    runs = [await bench.submit((slow, quick)[number % 2], due=number) for number in range(8)]
    bench.turn(10)
    got = await bench.reserve(await bench.node(), seats=1, extra=2, quick=frozenset({quick.id}))
    assert [lease.run_id for lease in got.armed] == [runs[0], runs[1], runs[3]]
    assert all(lease.fence for lease in got.armed)


@check
async def check_extra_seats_need_quick_jobs(bench: Workbench) -> None:
    """`extra` alone gives no run of a job that is not named quick."""
    record = await bench.define()
    await submit_at(bench, record, 0, 0, 0)
    got = await bench.reserve(await bench.node(), seats=1, extra=5)
    assert len(got.armed) == 1


@check
async def check_ahead_and_horizon_limit_the_held_runs(bench: Workbench) -> None:
    """At most `ahead` runs are held, none due after the horizon. Both are needed."""
    record = await bench.define()
    ids = await submit_at(bench, record, 1, 2, 3, 4)
    node = await bench.node()
    assert (await bench.reserve(node, seats=9, ahead=0, horizon=60)).held == []
    assert (await bench.reserve(node, seats=9, ahead=9, horizon=0)).held == []
    first = await bench.reserve(node, ahead=2, horizon=3)
    assert [lease.run_id for lease in first.held] == ids[:2]
    second = await bench.reserve(node, ahead=2, horizon=3)
    assert [lease.run_id for lease in second.held] == [ids[2]]


@check
async def check_a_worker_gets_only_its_tasks(bench: Workbench) -> None:
    """A run goes only to a worker that names its task. Other runs stay for other workers."""
    call = await bench.define("call", task=Call(handler="other"))
    sleep = await bench.define("sleep", task=Sleep(duration=timedelta(seconds=1)))
    runs = {"call": await bench.submit(call), "sleep": await bench.submit(sleep)}
    node = await bench.node()
    assert await bench.take(node, seats=9) == []
    got = await bench.reserve(node, seats=9, tasks=frozenset({"sleep", "call:work"}))
    assert [lease.run_id for lease in got.armed] == [runs["sleep"]]
    got = await bench.reserve(node, seats=9, tasks=frozenset({"call:other"}))
    assert [lease.run_id for lease in got.armed] == [runs["call"]]


@check
async def check_runs_of_other_tasks_do_not_block_a_worker(bench: Workbench) -> None:
    """A worker finds its runs behind any number of runs that it cannot run."""
    other = await bench.define("other", task=Call(handler="other"))
    mine = await bench.define("mine")
    await submit_at(bench, other, *range(40))
    run_id = await bench.submit(mine, due=41)
    bench.turn(50)
    [lease] = await bench.take(await bench.node())
    assert lease.run_id == run_id


@check
async def check_a_worker_gets_only_its_queues(bench: Workbench) -> None:
    """A worker takes runs from the queues that it names, and from no other."""
    record = await bench.define()
    run_id = await bench.submit(record)
    node = await bench.node()
    got = await bench.reserve(node, seats=1, queues=("mail",))
    assert (got.armed, got.look_again_at) == ([], None)
    [lease] = (await bench.reserve(node, seats=1, queues=("mail", "default"))).armed
    assert (lease.run_id, lease.queue) == (run_id, "default")


@check
async def check_a_reservation_lasts_until_it_lapses(bench: Workbench) -> None:
    """Until `lapse` after the due instant no other worker gets the run. After that any worker may. Then the old lease
    is refused everywhere: `Gone`, False, False."""
    record = await bench.define()
    run_id = await bench.submit(record, due=5)
    one, two = await bench.node("one"), await bench.node("two")
    [old] = await bench.hold(one, lapse=2)
    for instant in (0, 5, 6.9):
        bench.turn(instant)
        got = await bench.reserve(two, seats=1, ahead=1, horizon=60)
        assert (got.armed, got.held) == ([], [])
    bench.turn(7.1)
    [new] = await bench.take(two)
    assert (new.run_id, new.attempt, new.incarnation) == (run_id, 1, two)
    assert new.lease_id != old.lease_id
    async with bench.nothing_written():
        assert isinstance((await bench.arm(old))[0], Gone)
        assert await bench.release(old) == [False]
        assert await bench.finish(old) is False
    assert await bench.finish(new) is True


@check
async def check_an_expired_run_is_not_given_out(bench: Workbench) -> None:
    """No worker gets a slot whose expiry has passed, nor an instant to come back for it."""
    await bench.define(slots=[10, 20], late=5)
    node = await bench.node()
    bench.turn(21)
    [lease] = await bench.take(node, seats=9)
    assert lease.slot_at == at(20)
    got = await bench.reserve(node, seats=9, ahead=9, horizon=60)
    assert (got.armed, got.held, got.look_again_at) == ([], [], None)


@check
async def check_a_run_expires_at_one_instant(bench: Workbench) -> None:
    """At that instant a run is either given out or expired: never both, never neither."""
    await bench.define(slots=[10], late=5)
    bench.turn(15)
    given = await bench.take(await bench.node())
    assert len(given) + len(await bench.expire()) == 1


@check
async def check_reserve_needs_a_living_node(bench: Workbench) -> None:
    """`NodeExpired` without a lease, after its end, and after leaving. Nothing is taken."""
    record = await bench.define()
    await bench.submit(record)
    short, gone = await bench.node("short", ttl=5), await bench.node("gone")
    bench.turn(6)
    await bench.store.leave(gone, now=bench.now)
    for incarnation in (short, gone, "never registered"):
        async with bench.nothing_written():
            with raises(NodeExpired):
                await bench.reserve(incarnation, seats=1, ahead=1, horizon=60)


@check
async def check_each_lease_has_its_own_id_and_fence(bench: Workbench) -> None:
    """Each id is one of those the worker drew."""
    record = await bench.define()
    await submit_at(bench, record, *range(6))
    bench.turn(2)
    got = await bench.reserve(await bench.node(), seats=3, ahead=3, horizon=60)
    leases = [*got.armed, *got.held]
    assert len({lease.lease_id for lease in leases}) == len({lease.run_id for lease in leases}) == 6
    assert len({lease.fence for lease in got.armed}) == 3


@check
async def check_recover_returns_the_leases_of_a_lost_answer(bench: Workbench) -> None:
    """`recover` returns the same leases that the last `reserve` gave, reserved and running, of this incarnation."""
    record = await bench.define()
    await submit_at(bench, record, 0, 1, 5, 6)
    one, two = await bench.node("one"), await bench.node("two")
    bench.turn(1)
    got = await bench.reserve(one, seats=1, ahead=1, horizon=60)
    other = await bench.reserve(two, seats=1, ahead=1, horizon=60)
    for node, answer in ((one, got), (two, other)):
        held = sorted(await bench.store.recover(node), key=lambda lease: lease.run_id)
        assert held == [*answer.armed, *answer.held]
    assert await bench.finish(got.armed[0])
    assert await bench.release(*got.held) == [True]
    assert await bench.store.recover(one) == []
    assert await bench.store.recover("never registered") == []


@check
async def check_a_voided_reserve_gives_nothing_out(bench: Workbench) -> None:
    """After a lost answer a worker may declare earlier asks void. They give out no run, even if they arrive late."""
    record, node = await bench.define(), await bench.node()
    await bench.submit(record)
    assert await bench.store.recover(node, void_below=5) == []
    late = await bench.reserve(node, seats=9, ahead=9, horizon=100, number=4)
    assert (late.armed, late.held) == ([], [])
    assert await bench.store.recover(node, void_below=2) == []  # the number only grows
    assert len((await bench.reserve(node, seats=9, number=5)).armed) == 1
    other = await bench.node("other")
    await bench.submit(record)
    assert len((await bench.reserve(other, seats=9, number=1)).armed) == 1
