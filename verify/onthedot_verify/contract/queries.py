"""Checks of `find_runs` and the other searches: each filter against a simple one, and pages without gaps or repeats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from onthedot.clock import SECOND
from onthedot.model.errors import DefinitionError
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import LIVE, TERMINAL, RunRecord, RunState
from onthedot.stores.queries import AttemptFilter, JobFilter, RunFilter, SkipCursor, SkipFilter
from onthedot.stores.values import ScheduleCursor
from onthedot_verify.contract.registry import check
from onthedot_verify.contract.workbench import (
    SUCCESS,
    VERDICTS,
    Workbench,
    at,
    every,
    once_at,
    raises,
    retry,
    skip,
    window,
)

T = TypeVar("T")

JOBS: tuple[dict[str, Any], ...] = (
    {"name": "mail", "owner": "ann", "queue": "mail"},
    {"name": "mail", "owner": "bob", "namespace": "team"},
    {"name": "report", "owner": "ann", "labels": frozenset({"gpu", "region=eu"})},
    {"name": "clean", "namespace": "team", "labels": frozenset({"gpu2"}), "queue": "night"},
    {"name": "gpu", "owner": "ann", "namespace": "ops", "queue": "gpu", "assignment": "leader"},
)
QUEUES = ("default", "mail", "night", "gpu")
OFFERED = frozenset({"gpu", "gpu2", "region=eu"})


@dataclass
class World:
    """A store with jobs and runs of every kind, and what the check knows of them."""

    bench: Workbench
    records: dict[int, JobRecord] = field(default_factory=dict)
    job_of: dict[int, int] = field(default_factory=dict)  # by run
    nodes: tuple[str, ...] = ()

    def chance(self, choices: Sequence[T]) -> T:
        return choices[int(self.bench.ids.fraction() * len(choices))]

    async def runs(self) -> list[RunRecord]:
        """All runs, in the order of `find_runs`."""
        found = [await self.bench.run(run_id) for run_id in self.job_of]
        live = sorted((run for run in found if run.ended_at is None), key=lambda run: (run.due_at, run.id))
        ended = sorted((run for run in found if run.ended_at is not None), key=lambda run: (run.ended_at, run.id))
        return live + ended[::-1]

    def is_wanted(self, wanted: RunFilter, run: RunRecord) -> bool:
        """Whether the simple filter finds the run."""
        job, place = self.records[self.job_of[run.id]].job, run.due_at if run.ended_at is None else run.ended_at
        return all(
            (
                wanted.namespaces is None or job.namespace in wanted.namespaces,
                wanted.owner is None or job.owner == wanted.owner,
                wanted.job is None or job.name == wanted.job,
                wanted.job_id is None or self.job_of[run.id] == wanted.job_id,
                wanted.states is None or run.state in wanted.states,
                wanted.queue is None or run.queue == wanted.queue,
                wanted.label is None or wanted.label in job.labels,
                wanted.node is None or run.node == wanted.node,
                wanted.since is None or place >= wanted.since,
                wanted.until is None or place < wanted.until,
            )
        )

    def filters(self) -> RunFilter:
        """A random filter. Most have few conditions."""
        given: dict[str, Callable[[], object]] = {
            "namespaces": lambda: self.chance((("default",), ("team", "ops"), ("none", "team"), ())),
            "owner": lambda: self.chance(("ann", "bob", "", "eve")),
            "job": lambda: self.chance(("mail", "report", "gpu", "none")),
            "job_id": lambda: self.chance((*self.records, 99)),
            "states": lambda: frozenset(self.chance(list(RunState)) for _ in range(self.chance((0, 1, 1, 2, 4)))),
            "queue": lambda: self.chance((*QUEUES, "none")),
            "label": lambda: self.chance(("gpu", "gpu2", "region=eu", "gpu,region=eu", "mail", "")),
            "node": lambda: self.chance(("one", "two", "", "none")),
            "since": lambda: at(self.chance(range(0, 60, 5))),
            "until": lambda: at(self.chance(range(5, 70, 5))),
        }
        names = {self.chance(list(given)) for _ in range(self.chance((0, 1, 1, 2, 2, 3, 4)))}
        return RunFilter(**{name: given[name]() for name in sorted(names)})  # type: ignore[arg-type]


async def make_world(bench: Workbench) -> World:
    """Runs in every state, ended in every way, on two nodes."""
    world = World(bench)
    for fields in JOBS:
        record = (await bench.put(bench.job(**fields))).record
        world.records[record.id] = record
    world.nodes = (await bench.node("one"), await bench.node("two"))
    for second in range(0, 40, 4):
        bench.turn(second)
        for _ in range(6):
            job_id = world.chance(list(world.records))
            run_id = await bench.submit(world.records[job_id], due=second + world.chance((0, 0, 0, 1, 30)))
            world.job_of[run_id] = job_id
        got = await bench.reserve(world.chance(world.nodes), seats=4, queues=QUEUES, labels=OFFERED)
        for lease in got.armed:
            verdict = world.chance((*VERDICTS.values(), SUCCESS, retry(second + 20), None))
            assert verdict is None or await bench.finish(lease, verdict)
        if second % 8 == 0:
            await bench.store.cancel([world.chance(list(world.job_of))], why="enough", now=bench.now)
    await _change(world)
    await bench.reserve(world.nodes[0], seats=20, ahead=3, horizon=100, queues=QUEUES, labels=OFFERED)
    return world


async def _change(world: World) -> None:
    """Give a job another owner, delete another job, and define a new one under its name."""
    bench = world.bench
    mail, _, report, *_ = list(world.records)
    sold = await bench.put(bench.job(**{**JOBS[0], "owner": "bob"}))
    world.records[mail] = sold.record
    await bench.store.delete_job(report, now=bench.now)
    again = (await bench.put(bench.job(**{**JOBS[2], "owner": "bob"}))).record
    world.records[again.id] = again
    for due in (2, 50):
        world.job_of[await bench.submit(again, due=due)] = again.id


async def pages(find: Callable[..., Awaitable[Any]], wanted: object, limit: int = 100) -> AsyncIterator[list[Any]]:
    """Yield all pages of a search."""
    page = await find(wanted, limit=limit)
    yield page.items
    while page.next is not None:
        page = await find(wanted, after=page.next, limit=limit)
        assert len(page.items) <= limit
        yield page.items


async def found(find: Callable[..., Awaitable[Any]], wanted: object, limit: int = 100) -> list[Any]:
    """All items of all pages."""
    return [one async for page in pages(find, wanted, limit) for one in page]


@check
async def check_each_filter_finds_what_a_simple_one_finds(bench: Workbench) -> None:
    """The order is right for pages of any length, and each run is as `get_run` shows it."""
    world = await make_world(bench)
    everything = await world.runs()
    assert {run.state for run in everything} >= {*TERMINAL - {RunState.SKIPPED}, *LIVE}
    assert await found(bench.store.queries.find_runs, RunFilter()) == everything
    for number in range(60):
        wanted = world.filters()
        expected = [run for run in everything if world.is_wanted(wanted, run)]
        limit = world.chance((1, 2, 3, 7, 100))
        assert await found(bench.store.queries.find_runs, wanted, limit) == expected, f"filter {number}: {wanted}"


@check
async def check_pages_show_each_lasting_run_once(bench: Workbench) -> None:
    """Runs are added and end between two pages, and several share an instant."""
    record, node = await bench.define(), await bench.node()
    done = [await bench.submit(record) for _ in range(7)]
    for lease in await bench.take(node, seats=7):
        assert await bench.finish(lease)
    waiting = [await bench.submit(record, due=30) for _ in range(7)]
    bench.turn(1)
    seen: list[int] = []
    async for page in pages(bench.store.queries.find_runs, RunFilter(job="job"), limit=2):
        seen += [run.id for run in page]
        await bench.submit(record, due=20)
        await bench.submit(record, due=1)
        for lease in await bench.take(node):
            assert await bench.finish(lease)
    assert [run_id for run_id in seen if run_id in waiting] == waiting
    assert [run_id for run_id in seen if run_id in done] == done[::-1]
    assert len(set(seen)) == len(seen)


@check
async def check_filters_compare_namespaces_and_owners_exactly(bench: Workbench) -> None:
    """An empty list of namespaces finds nothing."""
    node = await bench.node()
    for namespace, whose in (("team", "ann"), ("team2", "ann b"), ("Team", "Ann"), ("tea", "")):
        await bench.submit(await bench.define("job", namespace=namespace, owner=whose))
        [lease] = await bench.take(node)
        assert await bench.finish(lease)
    asked: tuple[tuple[tuple[str, ...] | None, str | None, set[str]], ...] = (
        (("team",), None, {"team"}), (("tea", "Team"), None, {"tea", "Team"}), ((), None, set()),
        (None, "ann", {"team"}), (None, "Ann", {"Team"}), (None, "", {"tea"}), (None, "an", set()),
        (("team2",), "ann", set()), (("team",), "ann", {"team"}), (("te%",), None, set()), (("",), None, set()),
    )  # fmt: skip
    for namespaces, owner, expected in asked:
        runs = await found(bench.store.queries.find_runs, RunFilter(namespaces=namespaces, owner=owner))
        assert {run.namespace for run in runs} == expected
        jobs = await found(bench.store.queries.find_jobs, JobFilter(namespaces=namespaces, owner=owner))
        assert {record.job.namespace for record in jobs} == expected
        if bench.capabilities.finds_attempts:
            attempts = await found(bench.store.queries.find_attempts, AttemptFilter(namespaces=namespaces, owner=owner))
            assert len(attempts) == len(expected)
        for run in await bench.store.queries.get_runs(range(1, 5)):
            mine = AttemptFilter(namespaces=namespaces, owner=owner, run_id=run.id)
            assert len(await found(bench.store.queries.find_attempts, mine)) == (run.namespace in expected)


@check
async def check_a_run_shows_its_owner_node_and_revision(bench: Workbench) -> None:
    """The owner is the job's current one. Node and revision are those of the current holder, or of the last one."""
    record = await bench.define(owner="ann")
    one, two = await bench.node("one"), await bench.node("two")
    run_id = await bench.submit(record, due=5)

    async def told() -> tuple[str, str, int]:
        run = await bench.run(run_id)
        assert await found(bench.store.queries.find_runs, RunFilter(node=run.node)) == [run]
        return run.owner, run.node, run.revision

    assert await told() == ("ann", "", 0)
    [lease] = await bench.hold(one)
    assert await told() == ("ann", "one", 1)
    assert await bench.release(lease) == [True]
    assert await told() == ("ann", "", 0)
    bench.turn(5)
    [lease] = await bench.take(one)
    assert await told() == ("ann", "one", 1)
    assert await bench.finish(lease, retry(9))
    await bench.put(bench.job(owner="bob"))
    assert await told() == ("bob", "one", 1)
    bench.turn(9)
    [lease] = await bench.take(two)
    assert await told() == ("bob", "two", 2)
    assert await bench.finish(lease, retry(20))
    assert await told() == ("bob", "two", 2)
    await bench.store.cancel([run_id], why="enough", now=bench.now)
    assert await told() == ("bob", "two", 2)
    await bench.put(bench.job(owner="eve"))
    assert await told() == ("eve", "two", 2)


@check
async def check_jobs_are_found_by_their_fields(bench: Workbench) -> None:
    """They come by namespace and name, page by page. Deleted jobs are left out, and exhausted ones are shown as
    such."""
    for fields in JOBS:
        await bench.put(bench.job(**fields))
    gone = await bench.define("gone")
    await bench.store.delete_job(gone.id, now=bench.now)
    paused = await bench.define("paused", owner="eve")
    await bench.store.pause_job(paused.id, reason="", now=bench.now)
    await bench.put(bench.job(once_at(5), name="over", owner="eve"), window(0, 10))
    await bench.put(bench.job(every(), name="on", owner="eve"), window(0, 0, next_at=10))
    names = ["mail", "on", "over", "paused", "report", "ops/gpu", "team/clean", "team/mail"]

    async def names_of(limit: int = 100, **fields: Any) -> list[str]:
        jobs = await found(bench.store.queries.find_jobs, JobFilter(**fields), limit)
        return [f"{one.job.namespace}/{one.job.name}".removeprefix("default/") for one in jobs]

    for limit in (1, 2, 3, 100):
        assert await names_of(limit) == names
        assert await names_of(limit, owner="eve") == ["on", "over", "paused"]
    assert await names_of(namespaces=("team",)) == ["team/clean", "team/mail"]
    assert await names_of(namespaces=("ops", "default"), owner="ann") == ["mail", "report", "ops/gpu"]
    assert await names_of(states=frozenset({JobState.PAUSED, JobState.EXHAUSTED})) == ["over", "paused"]
    assert await names_of(states=frozenset({JobState.ACTIVE}), owner="eve") == ["on"]
    assert await names_of(states=frozenset({JobState.DELETED})) == await names_of(states=frozenset()) == []
    assert await names_of(queue="night") == ["team/clean"]
    assert await names_of(label="gpu") == ["report"]
    assert await names_of(label="region=eu") == ["report"]
    assert await names_of(label="gpu,region=eu") == []
    assert await names_of(name_contains="ai") == ["mail", "team/mail"]
    assert await names_of(name_contains="%") == await names_of(name_contains="M") == []
    listed = [record.job.name for record in await bench.store.queries.list_jobs(limit=3)]
    assert listed == ["mail", "on", "over"]


@check
async def check_attempts_are_found_newest_end_first(bench: Workbench) -> None:
    """They are found by node and time, page by page, for live and ended runs. A store without this search refuses it
    with a reason. The attempts of one run are always found."""
    record = await bench.define()
    nodes = {name: await bench.node(name) for name in ("one", "two", "three")}
    ended: list[tuple[int, str, int]] = []
    for second in range(9):
        bench.turn(second)
        name = list(nodes)[second % 3]
        await bench.submit(record, due=second)
        for lease in await bench.take(nodes[name], seats=2):
            assert await bench.finish(lease, retry(second + 1) if second % 2 else SUCCESS)
            ended.append((second, name, lease.run_id))

    async def tried(limit: int = 100, **fields: Any) -> list[tuple[int, str, int]]:
        attempts = await found(bench.store.queries.find_attempts, AttemptFilter(**fields), limit)
        return [((one.ended_at - at(0)) // SECOND, one.node, one.run_id) for one in attempts]

    newest = sorted(ended, key=lambda one: (one[0], one[2]), reverse=True)
    tried_twice = next(run_id for _, _, run_id in ended if [one[2] for one in ended].count(run_id) == 2)
    for limit in (1, 100):
        assert await tried(limit, run_id=tried_twice) == [one for one in newest if one[2] == tried_twice]
    assert await tried(run_id=10**6) == []
    if not bench.capabilities.finds_attempts:
        for fields in ({}, {"node": "one"}, {"since": at(2)}):
            with raises(DefinitionError):
                await tried(**fields)
        return
    for limit in (1, 2, 3, 100):
        assert await tried(limit) == newest
        assert await tried(limit, node="two") == [one for one in newest if one[1] == "two"]
    assert await tried(node="none") == []
    assert await tried(since=at(2), until=at(5)) == [one for one in newest if 2 <= one[0] < 5]
    assert await tried(1, node="one", since=at(3), until=at(6)) == [one for one in newest if one[:2] == (3, "one")]


@check
async def check_revisions_are_listed_newest_first(bench: Workbench) -> None:
    """Each definition has the instant of its put. Those of a deleted job are listed as well."""
    record = await bench.define(owner="owner 0")
    for second in range(1, 4):
        bench.turn(second)
        for _ in range(2):  # the second time nothing is written
            await bench.define(owner=f"owner {second}")
    await bench.store.pause_job(record.id, reason="", now=bench.now)
    await bench.store.delete_job(record.id, now=bench.now)
    revisions = await bench.store.queries.list_revisions(record.id)
    assert [(one.revision, one.job.owner, one.written_at) for one in revisions] == [
        (second + 1, f"owner {second}", at(second)) for second in (3, 2, 1, 0)
    ]
    assert await bench.store.queries.list_revisions(record.id, limit=2) == revisions[:2]
    assert await bench.store.queries.list_revisions(record.id, before=3, limit=1) == revisions[2:3]
    assert await bench.store.queries.list_revisions(record.id, before=1) == []
    assert await bench.store.queries.list_revisions(record.id + 99) == []


@check
async def check_get_jobs_finds_jobs_by_id(bench: Workbench) -> None:
    """Existing jobs come in the order of their ids, as `get_job` shows them. Deleted ones are included."""
    first, second = await bench.define("b"), await bench.define("a")
    await bench.store.pause_job(first.id, reason="lunch", now=bench.now)
    found = await bench.store.queries.get_jobs_by_id([second.id, first.id, 99, first.id])
    assert found == [await bench.store.queries.get_job("b"), await bench.store.queries.get_job("a")]
    await bench.store.delete_job(second.id, now=bench.now)
    [deleted] = await bench.store.queries.get_jobs_by_id([second.id])
    assert (deleted.id, deleted.state, deleted.job.name) == (second.id, JobState.DELETED, "a")
    assert await bench.store.queries.get_jobs_by_id([]) == []


@check
async def check_skips_are_found_in_pages(bench: Workbench) -> None:
    """They are found by namespace, owner and job. Each range comes once, whatever is recorded between two pages."""
    node = await bench.node()
    term = await bench.term(node)

    async def skipped(name: str, owner: str, namespace: str = "default") -> None:
        job = bench.job(every(), name=name, owner=owner, namespace=namespace)
        record = (await bench.put(job, window(0, 0, next_at=10))).record
        await bench.plan(term, record, window(0, 10, next_at=20, skips=[skip(10, 10, 1)]))

    async def pages(wanted: SkipFilter, limit: int = 2, after: SkipCursor | None = None) -> list[str]:
        found: list[str] = []
        while True:
            some, after = await bench.store.queries.find_skips(wanted, after=after, limit=limit)
            assert len(some) <= limit
            found += [one.job for one in some]
            if after is None:
                return found

    for number in range(5):
        await skipped(f"job{number}", "ann" if number % 2 else "bob")
    await skipped("far", "ann", "team")
    assert await pages(SkipFilter()) == ["far", "job4", "job3", "job2", "job1", "job0"]
    assert await pages(SkipFilter(namespaces=("default",))) == ["job4", "job3", "job2", "job1", "job0"]
    assert await pages(SkipFilter(owner="ann")) == await pages(SkipFilter(owner="ann"), 1) == ["far", "job3", "job1"]
    assert await pages(SkipFilter(namespaces=("team",), owner="bob")) == await pages(SkipFilter(namespaces=())) == []
    assert await pages(SkipFilter(namespaces=("default", "team"), job="far")) == ["far"]
    first = await bench.store.queries.find_skips(SkipFilter(), limit=2)
    await skipped("late", "ann")
    rest = await pages(SkipFilter(), after=first.next)
    assert [*(one.job for one in first.items), *rest] == ["far", "job4", "job3", "job2", "job1", "job0"]


@check
async def check_next_schedules_come_from_all_shards_in_order(bench: Workbench) -> None:
    """Schedules of active jobs come by their next slots, page by page, from all shards. Several may share an
    instant."""
    await bench.store.set_shards(3)
    for number, next_at in enumerate((40, 10, 30, 20, 50, 50, 50)):
        owner, namespace = "bob" if number > 4 else "ann", "team" if number == 2 else "default"
        job = bench.job(every(), name=f"job{number}", owner=owner, namespace=namespace)
        await bench.put(job, window(0, 0, next_at=next_at))
    paused = await bench.store.queries.get_job("job3")
    assert paused is not None
    await bench.store.pause_job(paused.id, reason="", now=bench.now)

    async def names(until: int, limit: int = 10, **whose: Any) -> list[str]:
        found: list[str] = []
        after: ScheduleCursor | None = None
        while True:
            some, after = await bench.store.queries.next_schedules(until=at(until), limit=limit, after=after, **whose)
            assert len(some) <= limit
            found += [state.record.job.name for state in some]
            if after is None:
                return found

    everybody = ["job1", "job2", "job0", "job4", "job5", "job6"]
    assert await names(100) == await names(100, 1) == await names(100, 2) == await names(50, 5) == everybody
    assert await names(40) == await names(49, 1) == ["job1", "job2", "job0"]
    assert await names(9) == await names(100, namespaces=()) == await names(100, namespaces=("none",)) == []
    assert await names(100, namespaces=("team",)) == ["job2"]
    assert await names(100, 1, namespaces=("team", "default")) == everybody
    assert await names(100, 1, owner="bob") == await names(100, owner="bob") == ["job5", "job6"]
    assert await names(100, owner="bob", namespaces=("team",)) == []
