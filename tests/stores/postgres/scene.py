"""A small state for all writing calls of a store: few jobs, with shared gates, one fair queue, two nodes.

Ids do not follow the order of instants, so that rows found by an instant come in another order than by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.after import After
from onthedot.model.job import Call, Guarantee, Job, JobRecord, Limit, Overlap, Rate, Schedule, ability_of
from onthedot.model.run import Armed, Blocked, GateAsk, Lease, NewRun, OnBusy, submit_trigger
from onthedot.model.verdict import Finish, Verdict
from onthedot.model.window import ScheduleState, Window
from onthedot.rules.gates import gates_of, rate_of
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.values import Node, ReserveRequest, Term
from onthedot_verify.contract.workbench import DEAD, SUCCESS, at, every, fixed_delay, retry, window

BEFORE, NOW = at(35), at(100)
TTL = 10_000 * SECOND
SOON = OnBusy("wait")

_numbers = count(1)


def token() -> str:
    """Returns a name that no run or lease has had."""
    return f"t{next(_numbers)}"


@dataclass(slots=True)
class Scene:
    """The data with which the calls are made. `leases` and `runs` are by job. Leases are copied before each use."""

    url: str
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    held: dict[str, list[Lease]] = field(default_factory=dict)
    running: dict[str, list[Lease]] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    schedules: dict[str, list[ScheduleState]] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)
    one: str = "one-1"
    two: str = "two-1"
    gone: str = "gone-1"
    dead: list[int] = field(default_factory=list)
    version: int = 0

    def ids(self, *names: str) -> list[int]:
        """Returns the ids of the running runs of some jobs."""
        return [lease.run_id for name in names for lease in self.running[name]]

    def reserved(self, *names: str) -> list[Lease]:
        return [replace(lease) for name in names for lease in self.held[name]]

    def finishes(self, *names: str, verdict: Verdict = SUCCESS) -> list[Finish]:
        """Returns the verdicts of all running attempts of some jobs. Without a fence they take the slow path
        (`finish_plain`)."""
        leases = [lease for name in names for lease in self.running[name]]
        return [Finish(replace(lease, fence=0), verdict, BEFORE, NOW) for lease in leases]


# ── the state ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    def __init__(self, store: PostgresStore, scene: Scene) -> None:
        self.store, self.scene = store, scene

    async def put(self, name: str, *schedules: Schedule, windows: Iterable[Window] = (), **fields: Any) -> JobRecord:
        put = await self.store.put_job(job(name, *schedules, **fields), list(windows), now=at(0))
        self.scene.jobs[name] = put.record
        return put.record

    async def submit(self, name: str, *due: float, late: float | None = None, args: str | None = None) -> list[int]:
        job_id, expires = self.scene.jobs[name].id, None if late is None else at(late)
        new = [NewRun(job_id, submit_trigger(token()), at(when), args, expires_at=expires) for when in due]
        ids = await self.store.submit(new, now=at(0))
        self.scene.waiting.setdefault(name, []).extend(ids)
        return ids

    async def take(self, name: str, seats: int, *, who: str = "", ahead: int = 0, **ask: Any) -> None:
        """Reserve runs of one job. Those that are due and have no gate are running afterwards."""
        record = self.scene.jobs[name]
        wanted = ReserveRequest(
            who or self.scene.one, LeaseIds(token(), seats + ahead), seats, ahead, horizon=TTL, lapse=TTL,
            tasks=frozenset({ability_of(record.job)}), queues=(record.job.queue,), **ask,
        )  # fmt: skip
        got = await self.store.reserve(wanted, now=BEFORE)
        assert len(got.armed) + len(got.held) == seats + ahead, name
        self.scene.running.setdefault(name, []).extend(got.armed)
        self.scene.held.setdefault(name, []).extend(got.held)
        taken = {lease.run_id for lease in got.armed + got.held}
        self.scene.waiting[name] = [run_id for run_id in self.scene.waiting.get(name, ()) if run_id not in taken]

    async def arm(self, name: str, kind: type = Armed) -> Lease:
        """Arm the first reservation of a job."""
        lease = self.scene.held[name].pop(0)
        [answer] = await self.store.arm([lease], gates=asks([lease]), now=BEFORE)
        assert isinstance(answer, kind), (name, answer)
        if kind is Armed:
            self.scene.running.setdefault(name, []).append(lease)
        else:
            self.scene.waiting[name].append(lease.run_id)
        return lease


async def build(store: PostgresStore, url: str) -> Scene:
    """Make the state in an empty store."""
    scene = Scene(url)
    to = _Builder(store, scene)
    for node, incarnation, ttl in (("one", scene.one, TTL), ("two", scene.two, TTL), ("gone", scene.gone, 50 * SECOND)):
        labels = ("gpu",) if node == "gone" else ()
        tasks = ("call:la", "call:lb", "call:rare", "call:odd", "call:paced")
        new = Node(node, incarnation, queues=("default", "fair"), labels=labels, tasks=tasks)
        await store.register(new, ttl=ttl, now=at(0))
    await store.share_queue("fair", {"a": 2}, now=at(0))
    await _add_plain(to)
    await _add_schedules(to)
    await _add_gated(to)
    await _add_stuck(to)
    await _add_past(to)
    await store.set_shards(2, now=BEFORE)
    for shard in (1, 0):
        term = await store.campaign(scene.one, ttl=TTL, shard=shard, now=BEFORE)
        assert term is not None
        scene.terms.insert(0, term)
    for name, record in scene.jobs.items():
        scene.schedules[name] = await store.queries.schedules_of(record.id)
    scene.version = (await store.documents.put_document("kind", "a", "{}", version=0, now=BEFORE)).version
    await store.documents.append_documents("list", ["{}"], keys=["first"], now=BEFORE)
    return scene


async def _add_plain(to: _Builder) -> None:
    """Runs without a gate: waiting, reserved and running. The later ones have the smaller ids."""
    await to.put("child", after=After("left", "right", any=True))  # its id is smaller than those of its parents
    for name in ("left", "right"):
        await to.put(name)
        await to.submit(name, 30)
        await to.take(name, 1)
    await to.put("plain")
    await to.submit("plain", 20, 10)
    await to.take("plain", 2)
    await to.submit("plain", 140, 130, 120)
    await to.take("plain", 0, ahead=3)
    await to.submit("plain", 170, 160)
    await to.put("orphan")
    await to.submit("orphan", 20, 10)
    await to.take("orphan", 2, who=to.scene.gone)
    await to.put("late")
    await to.submit("late", 15, 12, late=50)
    await to.put("placed", assignment="leader")
    await to.submit("placed", 15, 12)
    await to.put("fair", queue="fair", share="who")
    await to.submit("fair", 15, 12, 10, args='{"who": "a"}')
    await to.take("fair", 1)
    await to.put("still")
    await to.submit("still", 60, 50)
    await to.store.pause_job(to.scene.jobs["still"].id, reason="test", now=BEFORE)


async def _add_schedules(to: _Builder) -> None:
    """Two schedules of one job, whose runs were armed ahead, and fixed delays."""
    two = [window(0, 200, [10, 150], name=name, next_at=210) for name in ("b", "a")]
    await to.put("done", every(name="b"), every(name="a"), windows=two)
    await to.take("done", 2, ahead=2)
    for _ in range(2):
        await to.arm("done")
    for name in ("first", "second"):
        await to.put(name, fixed_delay(30), windows=[window(0, 20, [20], delay=30)])
        await to.take(name, 1)
    await to.put("missed", fixed_delay(30), windows=[window(0, 20, [20], delay=30, late=10)])
    grid = [window(0, 200, [10, 150, 160, 170], next_at=210)]
    await to.put("grid", every(), windows=grid)


async def _add_gated(to: _Builder) -> None:
    """Overlap gates with a holder and waiting runs, a limit that two jobs share, and a run under exactly_once."""
    slots = [window(0, 200, [10, 20, 30, 150], next_at=210)]
    for name, overlap in (("wait", Overlap("wait")), ("skip", Overlap("skip")), ("swap", Overlap("replace"))):
        await to.put(name, every(), windows=slots, overlap=overlap)
        await to.take(name, 3)
        await to.arm(name)
        await to.arm(name, Blocked)
    [lease] = to.scene.running.pop("swap")  # the holder waits for its retry
    assert await to.store.finish([Finish(lease, retry(90), BEFORE, BEFORE)], now=BEFORE) == [True]
    for name in ("la", "lb"):
        await to.put(name, concurrency=Limit(1, name="pool"))
    await to.submit("la", 30, 20, 15)
    await to.take("la", 2)
    await to.arm("la")
    await to.submit("lb", 20, 30, late=60)
    await to.take("lb", 2)
    await to.arm("lb", Blocked)
    await to.arm("lb", Blocked)
    await to.put("once", guarantee=Guarantee.EXACTLY_ONCE, overlap=Overlap("wait"))
    await to.submit("once", 20)
    await to.take("once", 1)
    await to.arm("once")


async def _add_stuck(to: _Builder) -> None:
    """A place in a limit that no living node can use, a run that waits for it, and an idle rate."""
    limits: dict[str, Any] = {"concurrency": Limit(1, name="rare"), "rate": Rate(1000, "1h", name="rare")}
    await to.put("rare", **limits)
    await to.put("odd", labels=frozenset({"gpu"}), **limits)
    await to.submit("rare", 10)
    await to.take("rare", 1)
    holder = await to.arm("rare")
    await to.submit("odd", 12)
    await to.take("odd", 1, who=to.scene.gone, labels=frozenset({"gpu"}))
    await to.arm("odd", Blocked)
    assert await to.store.finish([Finish(holder, SUCCESS, BEFORE, BEFORE)], now=BEFORE) == [True]
    to.scene.running["rare"].clear()
    await to.submit("rare", 20, 15, 14)
    await to.take("rare", 3)
    await to.arm("rare", Blocked)
    await to.put("paced", rate=limits["rate"])
    await to.submit("paced", 20)
    await to.take("paced", 1)


async def _add_past(to: _Builder) -> None:
    """Dead letters, and ended runs of two schedules."""
    await to.submit("plain", 30, 25)
    await to.take("plain", 2)
    letters = [to.scene.running["plain"].pop() for _ in range(2)]
    past = [to.scene.running["done"].pop(0) for _ in range(2)]
    ends = [
        Finish(lease, verdict, BEFORE, BEFORE) for verdict, some in ((DEAD, letters), (SUCCESS, past)) for lease in some
    ]
    assert all(await to.store.finish(ends, now=BEFORE))
    to.scene.dead = [lease.run_id for lease in letters]


def job(name: str, *schedules: Schedule, **fields: Any) -> Job:
    """A job with its own handler, so that its runs can be reserved alone."""
    fields = {"task": Call(handler=name), "overlap": Overlap("allow"), **fields}
    return Job(name=name, schedules=schedules, **fields)


def asks(leases: Iterable[Lease], on_busy: OnBusy | None = SOON) -> Mapping[str, GateAsk]:
    """Returns the gates that a worker asks for with these leases."""
    found = {}
    for lease in leases:
        gates = gates_of(lease.record, target="", arguments={})
        rate = rate_of(lease.record, arguments={})
        if gates or rate:
            found[lease.lease_id] = GateAsk(gates, on_busy, rate)
    return found
