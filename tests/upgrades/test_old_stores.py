"""Stores that an earlier version wrote: this version opens them, keeps all data and continues the work.

The texts in `stores/` contain the schema of their commit (see `make.py`). Opening a loaded store migrates it. The
expected values are written in this file and never computed from the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

import onthedot as otd
from onthedot.access import audit, audit_seals, keys, users
from onthedot.access.authenticator import Authenticator
from onthedot.clock import SECOND, Micros, SystemClock, to_micros
from onthedot.model.errors import KeyConflict, LoginRefused
from onthedot.model.job import JobRecord, Json
from onthedot.model.run import TERMINAL, Checkpoint, RunRecord, RunState
from onthedot.operations.open_verbs import opened
from onthedot.runners.secrets import Keys, StoredSecrets
from onthedot.schedules import schedule_id
from onthedot.settings import Settings
from onthedot.stores.connect import open_store
from onthedot.stores.protocol import Store
from onthedot.stores.values import Layout, LogRecord
from tests.upgrades import dumps

T = TypeVar("T")

STORES = Path(__file__).parent / "stores"
START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 60.0
KEY = "otd_1a1c15d99f37fec.d734f33fb2ca4d15a5e0924bda4d5c92945006da04acd356db542c9b18afcd59"

# The runs by id: job, state, kind of trigger, requested and due instant (seconds after START), attempts begun.
RUNS: dict[int, tuple[str, str, str, float, float, int]] = {
    1: ("parade", "skipped", "schedule", 20, 20, 0),
    2: ("drip", "succeeded", "schedule", 0.000001, 0.000001, 1),
    3: ("parade", "scheduled", "manual", 2_314_180_800, 2_314_180_800, 0),
    4: ("extract", "succeeded", "submit", 20, 20, 1),
    5: ("load", "scheduled", "after", 20.25, 20.25, 0),
    6: ("mail", "succeeded", "submit", 20.25, 20.25, 1),
    7: ("mail", "scheduled", "submit", 20.25, 80.25, 0),
    8: ("mail", "succeeded", "submit", 20.25, 20.25, 1),
    9: ("crawl", "scheduled", "submit", 20.75, 30.75, 1),
    10: ("legacy", "succeeded", "submit", 21, 21, 1),
    11: ("nap", "cancelled", "submit", 3621.25, 3621.25, 0),
    12: ("other", "skipped", "submit", 22.25, 22.25, 0),
    13: ("flaky", "dead", "submit", 50, 50, 1),
    14: ("flaky", "dead", "submit", 50.25, 50.25, 1),
    15: ("flaky", "dead", "submit", 50.5, 50.5, 1),
    16: ("flaky", "dead", "submit", 50.75, 50.75, 1),
    17: ("flaky", "scheduled", "rerun", 50.5, 51, 0),
    22: ("bulk", "succeeded", "submit", 60, 60, 1),
    23: ("bulk", "succeeded", "submit", 60, 60, 1),
    24: ("bulk", "scheduled", "submit", 60, 60, 0),
    25: ("bulk", "scheduled", "submit", 60, 60, 0),
    26: ("bulk", "scheduled", "submit", 60, 60, 0),
    27: ("bulk", "scheduled", "submit", 60, 60, 0),
    28: ("hook", "scheduled", "submit", 60.5, 60.5, 0),
    29: ("backup", "scheduled", "submit", 60.5, 60.5, 0),
    30: ("pipeline", "scheduled", "submit", 60.5, 60.5, 0),
    31: ("frozen", "scheduled", "submit", 90, 90, 0),
    32: ("poll", "succeeded", "schedule", 300, 300, 1),
    33: ("report", "scheduled", "manual", 36_000, 36_000, 0),
    34: ("centenary", "scheduled", "manual", 2_335_179_600, 2_335_179_600, 0),
    35: ("careful", "lost", "submit", 350, 350, 1),
    36: ("sync", "running", "schedule", 600, 600, 1),
    37: ("sync", "scheduled", "schedule", 1200, 1200, 0),
    38: ("load_db", "running", "submit", 1790, 1790, 1),
    39: ("clean_db", "scheduled", "submit", 1790, 1790, 0),
    40: ("careful", "running", "submit", 1790, 1790, 1),
    41: ("errand", "running", "submit", 1790, 1790, 1),
    42: ("errand", "reserved", "submit", 1795, 1795, 0),
}

# How an engine finishes the waiting and running ones: final state, and the arguments of the handler's call.
ENDS: dict[int, tuple[str, dict[str, Any] | None]] = {
    5: ("succeeded", {}),
    7: ("succeeded", {"tenant": "a"}),
    9: ("succeeded", {"site": "one"}),
    17: ("succeeded", {"n": 2}),
    24: ("succeeded", {"tenant": "gold"}),
    25: ("succeeded", {"tenant": "free"}),
    26: ("succeeded", {"tenant": "gold"}),
    27: ("succeeded", {"tenant": "free"}),
    29: ("succeeded", None),  # a command
    30: ("succeeded", None),  # steps
    33: ("succeeded", {"region": "world"}),
    36: ("succeeded", {}),
    37: ("succeeded", {}),
    38: ("succeeded", {"table": "orders"}),
    39: ("succeeded", {}),
    40: ("lost", None),  # at most once, and its node is dead
    41: ("cancelled", None),  # its cancellation was requested
    42: ("succeeded", {"n": 2}),
}
STAY = (3, 28, 31, 34)  # due in 2099, in a paused queue, of a paused job, due in 2100

Load = Callable[[pytest.FixtureRequest, str, Path], str]


def at(seconds: float) -> Micros:
    return to_micros(START) + round(seconds * SECOND)


# ── loading ──────────────────────────────────────────────────────────────────────────────────────────────────


def load_sqlite(request: pytest.FixtureRequest, commit: str, folder: Path) -> str:
    dumps.load_sqlite((STORES / f"{commit}.sqlite.sql").read_text(), folder / "old.db")
    return f"sqlite:///{folder / 'old.db'}"


def load_postgres(request: pytest.FixtureRequest, commit: str, folder: Path) -> str:
    url: str = request.getfixturevalue("postgres_url")
    dumps.load_postgres((STORES / f"{commit}.postgres.sql").read_text(), url)
    return url


def load_redis(request: pytest.FixtureRequest, commit: str, folder: Path) -> str:
    url: str = request.getfixturevalue("valkey_url")
    dumps.load_redis((STORES / f"{commit}.redis.txt").read_text(), url)
    return url


@pytest.fixture(
    params=[
        pytest.param(load_sqlite, id="sqlite"),
        pytest.param(load_postgres, id="postgres", marks=pytest.mark.slow),
        pytest.param(load_redis, id="redis", marks=pytest.mark.slow),
    ]
)
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store as commit a3c840b left it at half past midnight."""
    load: Load = request.param
    return load(request, "a3c840b", tmp_path)


@pytest.fixture
async def old_store(old_url: str) -> AsyncIterator[Store]:
    """The same store, open."""
    store = await open_store(old_url)
    yield store
    await store.close()


async def all_runs(store: Store) -> dict[int, RunRecord]:
    found = [
        run for namespace in ("default", "qa") for run in await store.queries.list_runs(namespace=namespace, limit=1000)
    ]
    return {run.id: run for run in found}


# ── what the store contains ──────────────────────────────────────────────────────────────────────────────────


async def test_jobs_keep_their_definitions(old_store: Store):
    jobs = {record.job.name: record for record in await old_store.queries.list_jobs()}
    program = scheduler_of("memory:", {}, Settings())
    assert set(jobs) == {*program.jobs, "backup", "hook", "nap", "pipeline"}
    assert {name: jobs[name].job for name in program.jobs} == program.jobs
    assert {name: record.revision for name, record in jobs.items() if record.revision != 1} == {"report": 2}
    assert jobs["backup"].job == otd.Job(
        name="backup", task=otd.Command(argv=("echo", "saved"), env={"LEVEL": "full"}), queue="programs", owner="bob"
    )
    assert jobs["hook"].job.task == otd.Http(url="https://example.org/hook", method="POST", body={"done": True})
    assert jobs["nap"].job.task == otd.Sleep(duration=timedelta(0))
    pipeline = jobs["pipeline"].job
    assert (pipeline.namespace, pipeline.owner, pipeline.queue) == ("qa", "bob", "programs")
    assert pipeline.params == (otd.Param(name="version", default="1"),)
    assert isinstance(pipeline.task, otd.Steps)
    assert [step.name for step in pipeline.task.steps] == ["build", "publish"]
    assert pipeline.task.steps[0].env == {"VERSION": "${{ params.version }}"}


async def test_jobs_keep_their_states(old_store: Store):
    def pause_of(record: JobRecord) -> tuple[str, str, int | None]:
        return record.state.value, record.pause_reason, record.paused_until

    states = {record.job.name: pause_of(record) for record in await old_store.queries.list_jobs()}
    assert {name: state for name, state in states.items() if state != ("active", "", None)} == {
        "frozen": ("paused", "stocktaking", None),
        "halted": ("paused", "until later", to_micros(datetime(2099, 1, 1, tzinfo=UTC))),
        "poll": ("exhausted", "", None),
    }
    assert await old_store.queries.get_job("legacy") is None
    assert await old_store.queries.get_layout() == Layout(2, 2)


async def test_runs_keep_their_states(old_store: Store):
    runs = await all_runs(old_store)
    shown = {
        run.id: (run.job, run.state.value, run.trigger.partition(":")[0], run.slot_at, run.due_at, run.attempts)
        for run in runs.values()
    }
    assert shown == {
        number: (job, state, trigger, at(slot), at(due), attempts)
        for number, (job, state, trigger, slot, due, attempts) in RUNS.items()
    }
    assert await old_store.queries.count_runs() == Counter(RunState(state) for _, state, *_ in RUNS.values())
    args = {number: run.args for number, run in runs.items() if run.args is not None and run.job == "mail"}
    assert args == {6: '{"tenant":"a"}', 7: '{"tenant":"a"}', 8: '{"tenant":"b"}'}
    assert {number: run.result for number, run in runs.items() if run.result is not None} == {
        4: '{"rows":3}',
        10: '"bye"',
    }
    assert {number: (run.reason, run.error, run.settled) for number, run in runs.items() if run.error is not None} == {
        13: ("no tries left", "ValueError: row 17 is bad", ""),
        14: ("no tries left", "ValueError: row 99 is bad", ""),
        15: ("no tries left", "OSError: no disk", "replayed:17"),
        16: ("no tries left", "KeyError: 'x'", "discarded:known"),
        35: ("node gone", "its node was lost", ""),
    }
    assert {number: runs[number].reason for number in (1, 11, 12)} == {1: "moved", 11: "not needed", 12: "expired"}


async def test_runs_keep_what_they_wait_for(old_store: Store):
    standing = {number: await old_store.queries.why_waiting(number) for number in (7, 36, 37, 39, 41)}
    assert [(one.gate, one.holders) for number in (37, 39) if (one := standing[number])] == [
        ("overlap:28:", (36,)),
        ("limit:name:db:", (38,)),
    ]
    assert [(one.node, one.fence) for number in (36, 41) if (one := standing[number])] == [("old-1", 19), ("old-1", 22)]
    assert [one.granted_at for number in (7,) if (one := standing[number])] == [at(80.25)]
    assert [one.cancel_wanted for number in (41,) if (one := standing[number])] == ["enough"]


async def test_attempts_and_checkpoints_are_kept(old_store: Store):
    [attempt] = await old_store.queries.list_attempts(9)
    assert (attempt.outcome, attempt.error, attempt.node, attempt.revision) == (
        "failed", "ConnectionError: page 4", "old-1", 1,
    )  # fmt: skip
    assert (attempt.due_at, attempt.started_at, attempt.ended_at) == (at(20.75), at(20.75), at(21))
    assert await old_store.queries.get_checkpoint(9) == Checkpoint(1, '{"page":3}')
    assert await old_store.queries.list_logs(9) == [LogRecord(1, "page 3\n")]
    assert (await all_runs(old_store))[9].progress == (3, 10)
    assert [attempt.outcome for attempt in await old_store.queries.list_attempts(35)] == ["lost"]


async def test_schedules_keep_their_place_and_exceptions(old_store: Store):
    async def of(name: str) -> tuple[int, int | None, list[tuple[int, str, int | None]]]:
        record = await old_store.queries.get_job(name)
        assert record is not None
        [state] = await old_store.queries.schedules_of(record.id)
        assert state.schedule_id == schedule_id(record.job.schedules[0])
        return state.watermark, state.next_at, [(one.slot_at, one.reason, one.run_id) for one in state.exceptions]

    assert await of("report") == (at(32), at(28_800), [(at(28_800), "moved", 33), (at(115_200), "cancelled", None)])
    last = [to_micros(datetime(year, month, day, 12, tzinfo=UTC)) for year, month, day in CENTENARY]
    assert await of("centenary") == (at(30), last[0], [(last[0], "moved", 34), (last[1], "cancelled", None)])
    assert (await of("parade"))[2] == [(at(20), "moved", 3)]
    assert await of("drip") == (at(0.000001), at(310.25 + 3600), [])
    assert await of("sync") == (at(1220), None, [])
    assert await of("frozen") == (at(30), at(3600), [])
    [skip] = await old_store.queries.list_skips()
    assert (skip.job, skip.first, skip.last, skip.count, skip.reason) == ("poll", at(60), at(240), 4, "paused")


async def test_queues_counts_and_nodes_are_kept(old_store: Store):
    queues = {queue.name: queue for queue in await old_store.queries.list_queues()}
    assert queues["bulk"].weights == {"gold": 3, "free": 1}
    assert (queues["web"].paused_at, queues["web"].reason) == (at(60.5), "maintenance")
    assert {name: queue.waiting for name, queue in queues.items()} == {
        "bulk": 4, "default": 11, "programs": 2, "web": 1,
    }  # fmt: skip
    counts = {
        (count.job, count.day, count.state.value): count.count for count in await old_store.queries.list_daily_counts()
    }
    assert counts == {("tally", 20_454, "succeeded"): 3, ("tally", 20_454, "dead"): 1}
    nodes = {(node.id, node.lease_until, node.left_at) for node in await old_store.queries.list_nodes()}
    assert nodes == {("old-1", at(1809), None), ("old-2", at(360), None), ("old-2", at(400), at(400))}
    assert {(term.shard, term.number, term.until) for term in await old_store.queries.list_terms()} == {
        (0, 2, at(1804)), (1, 2, at(1804)),
    }  # fmt: skip


# ── accounts ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_users_and_keys_still_authenticate(old_store: Store):
    clock = SystemClock()
    logins = users.Logins(clock)
    session = await users.login(old_store, "ann", "correct horse battery", logins=logins)
    authenticator = Authenticator(old_store, clock)
    ann = await authenticator.check(session.text)
    assert ann is not None
    assert (ann.name, ann.role.value) == ("ann", "admin")
    for name, password in (("ann", "another long secret"), ("eve", "another long secret"), ("pat@example.org", "")):
        with pytest.raises(LoginRefused):
            await users.login(old_store, name, password, logins=logins)
    found = {user.name: (user.disabled, user.signs_on) for user in await users.list_users(old_store)}
    assert found == {"ann": (False, False), "eve": (True, False), "pat@example.org": (False, True)}
    program = await authenticator.check(KEY)
    assert program is not None
    assert (program.name, program.role.value, program.namespaces, program.owner) == (
        "ci", "operator", ("default", "qa"), "ci",
    )  # fmt: skip
    assert await authenticator.check(KEY[:-1] + "0") is None
    await authenticator.close()
    listed = {key.name: key for key in await keys.list_keys(old_store)}
    now = clock.now()
    assert {name: key.state(now) for name, key in listed.items()} == {
        "ci": "active", "gone": "revoked", "short": "expired",
    }  # fmt: skip
    assert await StoredSecrets(old_store.documents, Keys([b"k" * 32])).get("default", "DB_PASSWORD") == "only a test"


async def test_the_audit_is_complete(old_store: Store):
    entries = await audit.read(old_store)
    assert [(entry.verb, entry.at, entry.who_name, entry.source) for entry in entries] == [
        ("users.create", at(5), "ann", "192.0.2.7"),
        ("jobs.put", at(6), "ann", "192.0.2.7"),
        ("jobs.pause", at(7), "ann", "192.0.2.7"),
        ("keys.revoke", at(8), "ann", "192.0.2.7"),
    ]
    heads = (  # printed when it was sealed; Redis counts all lists as one
        "1:e60aa3a90367d062c91127a13907b602bd2c8bc46e4054b14c828dab79037fcc",
        "5:36caebc0babe34b52393e176bf92731a6684569417764901c170357a7514f04b",
    )
    checked = await audit_seals.check(old_store)
    assert (checked.sealed, checked.unsealed, checked.fault) == (3, 1, None)
    assert str(checked.head) in heads
    assert (await audit_seals.check(old_store, known=checked.head)).fault is None


# ── the work continues ───────────────────────────────────────────────────────────────────────────────────────

CENTENARY = [(2099, 12, 31), (2100, 6, 1), (2100, 12, 31)]


class Calls:
    """The calls of handlers, and the pairs of jobs that overlapped although they must not."""

    exclusive = (("sync",), ("load_db", "clean_db"))

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, Any], Json]] = []
        self.overlapped: list[tuple[str, ...]] = []
        self._running: Counter[str] = Counter()

    async def note(self, ctx: otd.Context, **given: Any) -> None:
        self.seen.append((ctx.run_id, given, ctx.last_checkpoint))
        self._running[ctx.job] += 1
        self.overlapped += [jobs for jobs in self.exclusive if sum(self._running[job] for job in jobs) > 1]
        await asyncio.sleep(0.05)  # long enough for an overlap
        self._running[ctx.job] -= 1


def scheduler_of(url: str, handlers: dict[str, Any], settings: Settings) -> otd.Scheduler:
    """The scheduler of these jobs, as its author would have written it before and after the upgrade."""
    sched = otd.Scheduler(url, settings=settings)

    async def nothing(ctx: otd.Context, **given: Any) -> None:
        """The handler of tests that only read definitions."""

    def job(name: str, **options: Any) -> None:
        sched.job(name=name, **options)(handlers.get(name, handlers.get("", nothing)))

    twelve = [f"{year}-{month:02}-{day:02}T12:00Z" for year, month, day in CENTENARY]
    berlin = otd.cron("0 9 * * *", tz="Europe/Berlin")
    job("report", schedule=berlin, owner="ann", args={"region": "world"}, retry=3)
    job("centenary", schedule=otd.at(*twelve))
    job("parade", schedule=otd.at("2026-01-01T00:00:20Z", "2099-05-01T12:00Z"))
    job("poll", schedule=otd.every("1m", end="2026-01-01T00:05Z"), overlap="skip")
    job("drip", schedule=otd.gap("1h"), catch_up=otd.CatchUp("all", limit=3, window="2h"))
    job("newest", schedule=otd.every("2h", start="2125-12-08T00:00Z"), overlap="replace")
    job("frozen", schedule=otd.every("1h"), priority="high")
    job("halted", schedule=otd.every("1h"))
    job("sync", schedule=otd.every("10m", end="2026-01-01T00:25Z"), overlap="wait")
    job("mail", rate=otd.Rate(1, "1m", key="tenant"))
    job("load_db", concurrency=otd.Limit(1, name="db"), retry=2)
    job("clean_db", concurrency=otd.Limit(1, name="db"))
    job("crawl", retry=otd.Retry(3, delay="10s", backoff="fixed", jitter=False), timeout="5m")
    for name in ("flaky", "extract", "other", "tally"):
        job(name)
    job("load", after="extract")
    job("merge", after=otd.After("extract", "other", on="either"))
    job("careful", guarantee="at_most_once")
    job("errand", overlap=otd.Overlap("allow", max_running=2))
    job("bulk", queue="bulk", share="tenant")
    job("everywhere", schedule=otd.at("2099-01-01T00:00Z"), on="all", labels=["gpu"])
    return sched


def settings(folder: Path) -> Settings:
    """A node that prunes nothing: these runs are older than the default retention."""
    forever = otd.Retention(age=None, count=None, failures_age=None, failures_count=None)
    return Settings(
        node_id="new", programs=True, queues=("default", "bulk", "programs", "web"), retention=forever,
        output=str(folder / "output"), spool=str(folder / "spool"),
    )  # fmt: skip


async def eventually(find: Callable[[], Awaitable[T | None]]) -> T:
    """Poll until there is a result."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if (found := await find()) is not None:
                return found
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_new_node_continues_the_work_of_the_old_one(old_url: str, tmp_path: Path):
    """Waiting and blocked runs end. The runs of the dead node are recovered. Paused jobs stay paused."""
    calls = Calls()
    sched = scheduler_of(old_url, {"": calls.note}, settings(tmp_path))

    async def all_ended() -> dict[int, RunRecord] | None:
        found = {number: run for number in ENDS if (run := await sched.get_run(number)) is not None}
        return found if all(run.state in TERMINAL for run in found.values()) else None

    async with sched:
        ended = await eventually(all_ended)
        assert {number: run.state.value for number, run in ended.items()} == {n: end for n, (end, _) in ENDS.items()}
        assert {n: (ended[n].attempts, ended[n].recoveries) for n in (36, 38)} == {36: (2, 1), 38: (2, 1)}
        still = {number: await sched.get_run(number) for number in STAY}
        assert {n: run.state.value for n, run in still.items() if run is not None} == dict.fromkeys(STAY, "scheduled")
        jobs = {record.job.name: record for record in await sched.list_jobs()}
        assert {name: record.revision for name, record in jobs.items() if record.revision != 1} == {"report": 2}
        assert {name for name, record in jobs.items() if record.state == "paused"} == {"frozen", "halted"}
        await the_second_parent_starts_the_dependent_job(sched)
        await slots_keep_their_fates(sched)
    called = {number: given for number, given, _ in calls.seen if number in ENDS}
    assert called == {number: given for number, (_, given) in ENDS.items() if given is not None}
    order = [number for number, *_ in calls.seen]
    assert [number for number, times in Counter(order).items() if times > 1] == []
    assert order.index(36) < order.index(37)
    assert calls.overlapped == []
    assert [kept for number, _, kept in calls.seen if number == 9] == [{"page": 3}]


async def the_second_parent_starts_the_dependent_job(sched: otd.Scheduler) -> None:
    """One of two parents ended before the upgrade. The end of the other one is enough."""
    assert await sched.list_runs("merge") == []
    await sched.submit("other")

    async def merged() -> RunRecord | None:
        return next((run for run in await sched.list_runs("merge") if run.state is RunState.SUCCEEDED), None)

    assert (await eventually(merged)).trigger.startswith("after:")


async def slots_keep_their_fates(sched: otd.Scheduler) -> None:
    """The slots of the report since then are missed, except one moved slot, one cancelled slot and the newest."""
    yesterday = to_micros(datetime.now(UTC) - timedelta(hours=26))

    async def newest() -> RunRecord | None:
        slots = [run for run in await sched.list_runs("report") if run.trigger.startswith("schedule:")]
        return next((run for run in slots if run.slot_at > yesterday and run.state is RunState.SUCCEEDED), None)

    await eventually(newest)
    fates = {(skip.first, skip.last): skip.reason for skip in await sched.list_skips("report")}
    assert fates.pop((at(28_800), at(28_800))) == "moved"
    assert fates.pop((at(115_200), at(115_200))) == "cancelled"
    assert set(fates.values()) == {"missed"}
    assert min(first for first, _ in fates) == at(201_600)


@pytest.mark.slow
async def test_verbs_respect_earlier_requests(old_url: str, tmp_path: Path):
    async with opened(old_url, settings(tmp_path)) as there:
        verbs, qa = there.verbs(), there.verbs("qa")
        again = await verbs.submit("extract", key="2026-01-01")
        assert (again.id, again.created) == (4, False)
        again = await verbs.submit("crawl", {"site": "one"}, key="site-1")
        assert (again.id, again.created) == (9, False)
        with pytest.raises(KeyConflict):
            await verbs.submit("crawl", {"site": "two"}, key="site-1")
        [letters] = await verbs.dead_letters()
        assert (letters.job, letters.count, letters.error_type, letters.error) == (
            "flaky", 2, "ValueError", "ValueError: row <n> is bad",
        )  # fmt: skip
        replayed = await verbs.replay(13)
        run = await verbs.get_run(replayed)
        assert run is not None
        assert run.trigger == "rerun:13"
        assert [run.id for run in await verbs.dead_runs()] == [14]
        assert (await verbs.replay(15)).id == 17  # the run that replaced it before the upgrade
        moved = await verbs.move_next("centenary", to="+1h")
        assert moved.slot == datetime(2100, 12, 31, 12, tzinfo=UTC)  # the first slot without a fate
        resumed = await verbs.resume("frozen", missed="none")
        assert (resumed.record.state, resumed.released) == ("active", 1)
        assert (await verbs.resume("halted", missed="last")).record.state == "active"
        assert (await there.store.resume_queue("web")).paused_at is None
        job = await qa.get_job("pipeline")
        assert job is not None
        applied = await qa.apply([job.job], source="pipeline.yaml", prune=True)
        assert [(one.name, one.kind) for one in applied.differences] in ([], [("qa/pipeline", "unchanged")])
