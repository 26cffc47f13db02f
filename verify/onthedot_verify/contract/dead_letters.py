"""Checks of dead letters: which runs are listed, in which order, and how a run leaves the list."""

from __future__ import annotations

from onthedot.clock import SECOND
from onthedot.model.job import JobRecord
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import RunState
from onthedot.model.verdict import Verdict
from onthedot.stores.values import LAST_MARK
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import DEAD, LOST, VERDICTS, Workbench, at, retry


async def _ended(bench: Workbench, record: JobRecord, node: str, *, when: float, verdict: Verdict = DEAD) -> int:
    """Run a new run to its end at this instant. Returns its id."""
    bench.turn(when)
    run_id = await bench.submit(record)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, verdict)
    return run_id


@check
async def check_only_dead_runs_are_dead_letters(bench: Workbench) -> None:
    """A run is listed from the write that makes it dead. Live runs and other ended ones are not listed."""
    record = await bench.define()
    node, mortal = await bench.node(), await bench.node("mortal", ttl=15)
    assert await bench.store.queries.list_dead() == []
    runs = {state: await _ended(bench, record, node, when=1, verdict=end) for state, end in VERDICTS.items()}
    again = await bench.submit(record)
    [lease] = await bench.take(node)
    assert await bench.finish(lease, retry(99))
    assert await bench.store.queries.list_dead() == [await bench.run(runs[RunState.DEAD])]
    reaped = [await bench.submit(record) for _ in range(2)]
    leases = await bench.take(mortal, seats=2)
    bench.turn(50)
    assert await bench.reap(leases[0], DEAD)
    assert await bench.reap(leases[1], LOST)
    assert [run.id for run in await bench.store.queries.list_dead()] == [reaped[0], runs[RunState.DEAD]]
    assert again not in {run.id for run in await bench.store.queries.list_dead()}


@check
async def check_dead_letters_are_listed_newest_first(bench: Workbench) -> None:
    """They are filtered by job, namespace and time, with a limit. Pages work also for runs that ended at one
    instant."""
    one, two = await bench.define("one"), await bench.define("two")
    other = await bench.define("one", namespace="team")
    node = await bench.node()
    ends = ((one, 1), (two, 2), (one, 3), (one, 3), (one, 3), (two, 4), (other, 5))
    dead = [await _ended(bench, record, node, when=when) for record, when in ends]

    async def found(**filters: object) -> list[int]:
        return [dead.index(run.id) for run in await bench.store.queries.list_dead(**filters)]  # type: ignore[arg-type]

    assert await found() == [5, 4, 3, 2, 1, 0]
    assert await found(job="one") == [4, 3, 2, 0]
    assert await found(job="one", namespace="team") == [6]
    assert await found(job="none") == []
    assert await found(since=at(3)) == [5, 4, 3, 2]
    assert await found(before=Mark(at(3), 0)) == [1, 0]
    assert await found(since=at(2), before=Mark(at(4), 0), job="one") == [4, 3, 2]
    assert await found(limit=2) == [5, 4]
    pages: list[int] = []
    mark = LAST_MARK
    while page := await bench.store.queries.list_dead(limit=2, before=mark):
        pages += [dead.index(run.id) for run in page]
        mark = Mark(page[-1].ended_at or 0, page[-1].id)
    assert pages == [5, 4, 3, 2, 1, 0]


@check
async def check_a_settled_run_stays_in_history(bench: Workbench) -> None:
    """It leaves the list once, with the word of the first caller. The run itself stays dead and unchanged."""
    record, node = await bench.define(), await bench.node()
    first, second = [await _ended(bench, record, node, when=when) for when in (1, 2)]
    before = await bench.run(first)
    assert before.settled == ""
    assert await bench.store.settle_dead([(first, "discarded:old"), (first, "twice")]) == [True, False]
    assert [run.id for run in await bench.store.queries.list_dead()] == [second]
    after = await bench.run(first)
    assert (after.settled, after.state, after.error) == ("discarded:old", RunState.DEAD, before.error)
    assert await bench.store.queries.list_runs(states=[RunState.DEAD]) == [await bench.run(second), after]
    async with bench.nothing_written():
        assert await bench.store.settle_dead([(first, "replayed:9")]) == [False]
    assert await bench.store.settle_dead([]) == []


@check
async def check_only_a_dead_letter_can_be_settled(bench: Workbench) -> None:
    """A live, otherwise ended or unknown run is refused. The rest of the call counts."""
    record, node = await bench.define(), await bench.node()
    others = [await _ended(bench, record, node, when=1, verdict=end) for end in VERDICTS.values() if end is not DEAD]
    live = await bench.submit(record, due=90)
    dead = await _ended(bench, record, node, when=2)
    async with bench.nothing_written():
        asked = [(run_id, "discarded") for run_id in (*others, live, dead + 99)]
        assert await bench.store.settle_dead(asked) == [False] * len(asked)
    assert await bench.store.settle_dead([(live, "x"), (dead, "discarded"), (dead + 99, "y")]) == [False, True, False]


@check
async def check_a_pruned_run_leaves_the_dead_letters(bench: Workbench) -> None:
    """A pruned run is not listed and cannot be settled."""
    record, node = await bench.define(), await bench.node()
    old, young = [await _ended(bench, record, node, when=when) for when in (1, 500)]
    cut = Cut(frozenset({RunState.DEAD}), Mark(at(100), 0))
    pruned = await bench.store.prune_runs(cut, now=at(1000) + SECOND)
    assert pruned.runs == 1
    assert [run.id for run in await bench.store.queries.list_dead()] == [young]
    assert await bench.store.settle_dead([(old, "discarded")]) == [False]
