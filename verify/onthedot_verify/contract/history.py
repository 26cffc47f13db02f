"""Checks of the lists for users: runs in order and filtered, attempts with their instants, skips, and counts."""

from __future__ import annotations

from onthedot.model.run import TERMINAL, AttemptRecord, Gate, GateAsk, NewRun, OnBusy, RunState
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import DEAD, SUCCESS, VERDICTS, Workbench, at, every, retry, skip, window


@check
async def check_live_runs_are_listed_before_ended_ones(bench: Workbench) -> None:
    """Live runs come by due instant, whatever their state. Ended runs come by the instant of their end, newest first,
    in whatever order the store received the verdicts."""
    record = await bench.define()
    node = await bench.node()
    done = [await bench.submit(record) for _ in range(3)]
    leases = {lease.run_id: lease for lease in await bench.take(node, seats=3)}
    live = {due: await bench.submit(record, due=due) for due in (30, 10, 20)}
    bench.turn(9)
    for run_id, ended in zip(done, (6, 8, 7), strict=True):
        finish = bench.finished(leases[run_id])._replace(ended_at=at(ended))
        await bench.store.finish([finish], now=bench.now)
    await bench.hold(node)
    listed = [run.id for run in await bench.runs()]
    assert listed == [live[10], live[20], live[30], done[1], done[2], done[0]]


@check
async def check_list_runs_filters_by_job_namespace_and_state(bench: Workbench) -> None:
    """Filters and `limit` work together."""
    one, two = await bench.define("one"), await bench.define("two")
    other = await bench.define("one", namespace="team")
    first, second = await bench.submit(one, due=0), await bench.submit(one, due=5)
    third, fourth = await bench.submit(two, due=6), await bench.submit(other, due=7)
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease, DEAD)

    async def found(**filters: object) -> list[int]:
        return [run.id for run in await bench.store.queries.list_runs(**filters)]  # type: ignore[arg-type]

    assert await found() == [second, third, first]
    assert await found(job="one") == [second, first]
    assert await found(job="one", namespace="team") == [fourth]
    assert await found(job="none") == []
    assert await found(states=[RunState.DEAD]) == [first]
    assert await found(states=iter([RunState.DEAD, RunState.SCHEDULED])) == [second, third, first]
    assert await found(job="two", states={RunState.DEAD}) == []
    assert await found(states=[]) == []
    assert await found(limit=2) == [second, third]
    assert await found(limit=1, states=[RunState.DEAD]) == [first]


@check
async def check_lists_without_a_limit_are_complete(bench: Workbench) -> None:
    """No list has a hidden limit."""
    record = await bench.define()
    many = 101
    await bench.store.submit([NewRun(record.id, f"api:{number}", at(number)) for number in range(many)], now=bench.now)
    for number in range(many):
        await bench.store.documents.put_document("note", f"{number:03}", "{}", version=0, now=bench.now)
    await bench.store.documents.append_documents("audit", ["{}"] * many, now=bench.now)
    assert len(await bench.store.queries.list_runs()) == many
    assert len(await bench.store.documents.list_documents("note")) == many
    assert len(await bench.store.documents.list_appended("audit")) == many
    assert [node.id for node in await bench.store.queries.list_nodes()] == []
    assert (await bench.store.queries.list_skips(), await bench.store.queries.list_dead()) == ([], [])
    assert [one.revision for one in await bench.store.queries.list_revisions(record.id)] == [1]


@check
async def check_get_run_finds_live_and_ended_runs(bench: Workbench) -> None:
    """It shows them as `list_runs` does. The answer for an unknown id is None."""
    record = await bench.define(namespace="team")
    live, done = await bench.submit(record, due=5), await bench.submit(record)
    [lease] = await bench.take(await bench.node())
    await bench.finish(lease)
    listed = await bench.store.queries.list_runs(namespace="team")
    assert listed == [await bench.run(live), await bench.run(done)]
    assert {run.namespace for run in listed} == {"team"}
    assert await bench.store.queries.get_run(max(live, done) + 99) is None


@check
async def check_a_run_keeps_its_arguments(bench: Workbench) -> None:
    """They are the same while the run lives and after each way into a terminal state."""
    record = await bench.define()
    node, mortal = await bench.node(), await bench.node("mortal", ttl=15)
    expected: dict[int, str] = {}

    async def submit(way: str, due: float = 0, expires: float | None = None) -> int:
        args = f'{{"way":"{way}"}}'
        new = NewRun(record.id, f"submit:{way}", at(due), args, expires_at=None if expires is None else at(expires))
        [run_id] = await bench.store.submit([new], now=bench.now)
        assert (await bench.run(run_id)).args == args
        expected[run_id] = args
        return run_id

    for verdict in VERDICTS.values():
        await submit(f"finished as {verdict.state}")
        [lease] = await bench.take(node)
        assert (await bench.run(lease.run_id)).args == lease.args
        assert await bench.finish(lease, verdict)
    await submit("tried twice")
    for verdict in (retry(0), DEAD):
        [lease] = await bench.take(node)
        assert await bench.finish(lease, verdict)
    for way in ("held a gate", "met it closed"):
        await submit(way, due=1)
    leases = await bench.hold(node, ahead=2)
    bench.turn(1)
    ask = GateAsk((Gate("g", 1, until_end=True),), OnBusy("skip"))
    await bench.store.arm(leases, gates={lease.lease_id: ask for lease in leases}, now=bench.now)
    assert await bench.finish(leases[0])
    await submit("reaped")
    [orphan] = await bench.take(mortal)
    cancelled = await submit("cancelled", 30)
    await submit("missed", 20, expires=21)
    bench.turn(25)
    assert await bench.reap(orphan)
    assert len(await bench.expire()) == 1
    await bench.store.cancel([cancelled], why="enough", now=bench.now)
    await submit("deleted", 40)
    assert await bench.store.delete_job(record.id, now=bench.now) == 1
    ended = await bench.runs()
    assert {run.state for run in ended} == TERMINAL
    assert {run.id: run.args for run in ended} == expected


@check
async def check_a_run_without_own_arguments_has_none(bench: Workbench) -> None:
    """Slots of a schedule without arguments: live, skipped by a pause, and ended."""
    record = await bench.define(slots=[1, 2], args={"n": 1})
    assert {run.args for run in await bench.runs()} == {None}
    bench.turn(1)
    [lease] = await bench.take(await bench.node())
    assert await bench.finish(lease)
    bench.turn(3)
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    assert [(run.state, run.args) for run in await bench.runs()] == [
        (RunState.SKIPPED, None), (RunState.SUCCEEDED, None),
    ]  # fmt: skip


@check
async def check_attempts_are_listed_with_all_their_instants(bench: Workbench) -> None:
    """Each ended attempt comes in order, with node, lease, fence, five instants and outcome. A running attempt is left
    out."""
    record = await bench.define()
    run_id = await bench.submit(record, due=5)
    node = await bench.node("worker")
    [lease] = await bench.hold(node)
    bench.turn(4)
    first = await bench.armed(lease)
    bench.turn(8)
    failed = bench.finished(first, retry(20, error="no route"))._replace(started_at=at(5), ended_at=at(7))
    assert await bench.store.finish([failed], now=bench.now) == [True]
    bench.turn(21)
    [second] = await bench.take(node)
    assert len(await bench.store.queries.list_attempts(run_id)) == 1
    bench.turn(23)
    assert await bench.finish(second, SUCCESS)
    assert await bench.store.queries.list_attempts(run_id) == [
        AttemptRecord(
            run_id, 1, first.lease_id, first.fence, "worker", 1, "failed", "no route",
            due_at=at(5), reserved_at=at(0), armed_at=at(4), started_at=at(5), ended_at=at(7),
        ),
        AttemptRecord(
            run_id, 2, second.lease_id, second.fence, "worker", 1, "succeeded", None,
            due_at=at(20), reserved_at=at(21), armed_at=at(21), started_at=at(23), ended_at=at(23),
        ),
    ]  # fmt: skip
    assert await bench.store.queries.list_attempts(run_id + 99) == []


@check
async def check_skips_are_listed_newest_first(bench: Workbench) -> None:
    """They are filtered by job and namespace, with the newest record first and at most `limit`. A range that grew is as
    new as its growth."""
    node = await bench.node()
    term = await bench.term(node)
    for name, namespace in (("one", "default"), ("two", "default"), ("one", "team")):
        job = bench.job(every(), name=name, namespace=namespace)
        record = (await bench.put(job, window(0, 0, next_at=10))).record
        await bench.plan(term, record, window(0, 10, next_at=20, skips=[skip(10, 10, 1)]))
        bench.now += 1
    one = await bench.store.queries.get_job("one")
    assert one is not None
    await bench.plan(term, one, window(10, 30, next_at=40, skips=[skip(20, 30, 2)]))
    shown = await bench.store.queries.list_skips()
    assert [(one.job, one.last, one.count) for one in shown] == [("one", at(30), 3), ("two", at(10), 1)]
    assert [one.job for one in await bench.store.queries.list_skips(limit=1)] == ["one"]
    assert [one.count for one in await bench.store.queries.list_skips(job="two")] == [1]
    assert [one.count for one in await bench.store.queries.list_skips(job="one", namespace="team")] == [1]
    assert await bench.store.queries.list_skips(job="none") == []


@check
async def check_skips_can_be_limited_to_a_time_range(bench: Workbench) -> None:
    """`since` and `until` find the ranges that reach into that time. `until` itself is outside."""
    node = await bench.node()
    term = await bench.term(node)
    record = (await bench.put(bench.job(every()), window(0, 0, next_at=10))).record
    await bench.plan(term, record, window(0, 20, next_at=30, skips=[skip(10, 20, 2)]))
    await bench.plan(term, record, window(20, 60, next_at=70, skips=[skip(40, 60, 3, "overlap")]))

    async def counts(since: int | None, until: int | None, limit: int = 100) -> list[int]:
        first, end = (None if one is None else at(one) for one in (since, until))
        return [one.count for one in await bench.store.queries.list_skips(since=first, until=end, limit=limit)]

    assert await counts(None, None) == [3, 2]
    assert await counts(20, None) == await counts(None, 41) == await counts(15, 50) == [3, 2]
    assert await counts(21, None) == await counts(45, 46) == [3]
    assert await counts(None, 40) == await counts(0, 11) == [2]
    assert await counts(None, 10) == await counts(61, None) == await counts(21, 40) == []
    assert await counts(None, 50, limit=1) == [3]


@check
async def check_runs_are_counted_by_state(bench: Workbench) -> None:
    """The counts are over all namespaces. A state without runs is left out or 0."""
    assert sum((await bench.store.queries.count_runs()).values()) == 0
    record, other = await bench.define(), await bench.define("other", namespace="team")
    for due in (0, 0, 0, 5, 9):
        await bench.submit(record, due=due)
    await bench.submit(other, due=50)
    node = await bench.node()
    first, second, _ = await bench.take(node, seats=3)
    await bench.finish(first, SUCCESS)
    await bench.finish(second, DEAD)
    await bench.hold(node)
    counts = {state: count for state, count in (await bench.store.queries.count_runs()).items() if count}
    assert counts == {
        RunState.SCHEDULED: 2,
        RunState.RESERVED: 1,
        RunState.RUNNING: 1,
        RunState.SUCCEEDED: 1,
        RunState.DEAD: 1,
    }
