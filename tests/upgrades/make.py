# mypy: ignore-errors
# It is written for the commit that it runs with: later versions have other names.
"""Makes the stores in `stores/`: `python -m tests.upgrades.make COMMIT FOLDER`, with the onthedot of COMMIT installed.

    OLD=$(mktemp -d); git archive COMMIT | tar -x -C $OLD
    (cd $OLD && python -m hatchling build -t wheel)
    pip install --no-deps --target $OLD/installed $OLD/dist/*.whl
    PYTHONPATH=$OLD/installed python -m tests.upgrades.make COMMIT tests/upgrades/stores

The clock moves only when the script sets it, and names come from a seed, so a second run makes the same stores. If a
commit needs another script, write a new one. Do not change the stores that exist.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from redis import Redis

from onthedot import ids as random_ids
from onthedot.access import audit, audit_seals, keys, users
from onthedot.access.permissions import parse_grant
from onthedot.access.users import Passwords
from onthedot.clock import SECOND
from onthedot.define.job_reader import read_jobs
from onthedot.ids import SeededIds
from onthedot.model.after import After
from onthedot.model.job import (
    At,
    CatchUp,
    Cron,
    Every,
    FixedDelay,
    Guarantee,
    Job,
    Limit,
    Overlap,
    Rate,
    Retry,
    Sleep,
    ability_of,
)
from onthedot.model.retention import Cut, Mark
from onthedot.model.run import Armed, Checkpoint, GateAsk, Progress, RunState
from onthedot.model.task import Call, Command, Http
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.operations.open_verbs import OpenStore
from onthedot.rules import gates
from onthedot.rules.windows import plan_window
from onthedot.runners.params import arguments_of
from onthedot.runners.secrets import Keys, StoredSecrets
from onthedot.settings import Settings
from onthedot.stores import migration
from onthedot.stores.opening import open_store
from onthedot.stores.values import Ask, Node, Note
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer
from tests.upgrades import dumps

START = datetime(2026, 1, 1, tzinfo=UTC)
SUCCESS = Verdict(RunState.SUCCEEDED, OutcomeKind.SUCCEEDED)
LOST = Verdict(RunState.LOST, OutcomeKind.LOST, "node gone", error="its node was lost")
PIPELINE = """
jobs:
  - name: pipeline
    namespace: qa
    owner: bob
    queue: programs
    params: {version: {default: "1"}}
    steps:
      - name: build
        run: echo "building $VERSION"
        env: {VERSION: "${{ params.version }}"}
      - name: publish
        run: echo published
"""


class Clock:
    """Moves only when the script sets it."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> int:
        return round(START.timestamp() * SECOND + self.at * SECOND)

    def steady(self) -> int:
        return self.now()


class ClockedStore:
    """The store, with this clock instead of its own."""

    def __init__(self, store, clock) -> None:
        self._store = store
        self.clock = clock

    async def tell_time(self) -> int:
        return self.clock.now()

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found) or "now" not in inspect.signature(found).parameters:
            return found

        async def call(*args, now=None, **kwargs):
            return await found(*args, now=self.clock.now() if now is None else now, **kwargs)

        return call


class Salted(Passwords):
    """Passwords with a constant salt."""

    async def hash(self, password: str) -> str:
        return self._hasher().hash(password, salt=b"0123456789abcdef")


def call(name: str, *schedules, **fields) -> Job:
    return Job(name=name, task=Call(handler=name), schedules=schedules, **fields)


def after_start(**length: float) -> datetime:
    return START + timedelta(**length)


BERLIN = Cron(expression="0 9 * * *", tz="Europe/Berlin")
JOBS = [
    call("report", BERLIN, owner="ann", args={"region": "eu"}, retry=Retry(3)),
    call("centenary", At(instant=datetime(2099, 12, 31, 12, tzinfo=UTC), more=(
        datetime(2100, 6, 1, 12, tzinfo=UTC), datetime(2100, 12, 31, 12, tzinfo=UTC)))),
    call("parade", At(instant=after_start(seconds=20), more=(datetime(2099, 5, 1, 12, tzinfo=UTC),))),
    call("poll", Every(interval=timedelta(minutes=1), end=after_start(minutes=5)), overlap=Overlap("skip")),
    call("drip", FixedDelay(delay=timedelta(hours=1)), catch_up=CatchUp("all", limit=3, window="2h")),
    call("newest", Every(interval=timedelta(hours=2), start=after_start(days=365_00)), overlap=Overlap("replace")),
    call("frozen", Every(interval=timedelta(hours=1)), priority="high"),
    call("halted", Every(interval=timedelta(hours=1))),
    call("mail", rate=Rate(1, "1m", key="tenant")),
    call("load_db", concurrency=Limit(1, name="db"), retry=Retry(2)),
    call("clean_db", concurrency=Limit(1, name="db")),
    call("crawl", retry=Retry(3, delay="10s", backoff="fixed", jitter=False), timeout=timedelta(minutes=5)),
    call("flaky"),
    call("extract"),
    call("other"),
    call("load", after=After("extract")),
    call("merge", after=After("extract", "other", on="either")),
    call("careful", guarantee=Guarantee.AT_MOST_ONCE),
    call("errand", overlap=Overlap("allow", max_running=2)),
    call("bulk", queue="bulk", share="tenant"),
    call("tally"),
    call("legacy"),
    call("everywhere", At(instant=datetime(2099, 1, 1, tzinfo=UTC)), on="all", labels=frozenset({"gpu"})),
    Job(name="backup", task=Command(argv=("echo", "saved"), env={"LEVEL": "full"}), queue="programs", owner="bob"),
    Job(name="hook", task=Http(url="https://example.org/hook", method="POST", body={"done": True}), queue="web"),
    Job(name="nap", task=Sleep(duration=timedelta(0))),
]  # fmt: skip
SYNC = call("sync", Every(interval=timedelta(minutes=10), end=after_start(minutes=25)), overlap=Overlap("wait"))


class Scene:
    """The writes to an empty store, from midnight to half past midnight."""

    def __init__(self, store) -> None:
        self.clock = Clock()
        self.store = ClockedStore(store, self.clock)
        self.ids = SeededIds("a store of old")
        there = OpenStore(self.store, self.clock, Settings(), None)
        there.ids = self.ids
        self.verbs, self.qa = there.verbs(), there.verbs("qa")
        self.nodes = {}
        self.asks = 0

    async def play(self) -> None:
        await self.define_jobs()
        await self.create_accounts()
        await self.finish_runs()
        await self.add_dead_letters()
        await self.fill_queues()
        await self.pause_jobs()
        await self.add_exceptions()
        await self.lose_a_run()
        await self.block_runs()
        await self.renew_leases()

    # ── the parts of the scene ───────────────────────────────────────────────────────────────────────────────

    async def define_jobs(self) -> None:
        await self.store.set_shards(2)
        await self.register("old-1", ttl=1795)
        await self.register("old-2", ttl=360)
        for job in JOBS:
            await self.verbs.put(job)
        await self.qa.apply(read_jobs(PIPELINE), source="pipeline.yaml")
        self.clock.at = 2
        await self.verbs.put(replace(JOBS[0], args={"region": "world"}))
        await self.verbs.move_next("parade", to="2099-05-02T12:00Z")

    async def create_accounts(self) -> None:
        self.clock.at = 5
        make = {"passwords": Salted(), "ids": self.ids}
        await users.create(self.store, "ann", "correct horse battery", parse_grant("admin"), **make)
        await users.create(self.store, "eve", "another long secret", parse_grant("viewer"), **make)
        await users.set_disabled(self.store, "eve", disabled=True, ids=self.ids)
        await users.create(self.store, "pat@example.org", None, parse_grant("editor", namespaces=["qa"]), **make)
        ci = parse_grant("operator", namespaces=["default", "qa"], owner="ci")
        issued = await keys.issue(self.store, "ci", ci, ids=self.ids)
        print("key:", issued.text)
        await keys.note_use(self.store, issued.key.id, self.clock.now())
        short = self.clock.now() + 3600 * SECOND
        await keys.issue(self.store, "short", parse_grant("viewer"), expires_at=short, ids=self.ids)
        gone = await keys.issue(self.store, "gone", parse_grant("viewer"), ids=self.ids)
        await keys.revoke(self.store, gone.key.id)
        await StoredSecrets(self.store, Keys([b"k" * 32])).set("default", "DB_PASSWORD", "only a test")
        ann = parse_grant("admin").principal("session", "s1", "ann")
        for verb in ("users.create", "jobs.put", "jobs.pause", "keys.revoke"):
            entry = audit.Entry(
                who=ann, verb=verb, object="job/default/report", namespace="default", owner="ann",
                after={"name": "report", "args": {"region": "eu"}}, request_id="r1", source="192.0.2.7",
                id=self.ids.token(),
            )  # fmt: skip
            await audit.record(self.store, entry)
            self.clock.at += 1
        entries = await self.store.list_appended(audit.KIND)
        await audit_seals.append_seal(self.store, audit_seals.START, entries[:3])
        print("head:", (await audit_seals.check(self.store)).head)

    async def finish_runs(self) -> None:
        """Finished runs, with and without a result; a chain of jobs; a checkpoint; a rate."""
        self.clock.at = 20
        await self.run_and_succeed("extract", result='{"rows":3}', key="2026-01-01")
        await self.verbs.submit("mail", {"tenant": "a"})
        await self.verbs.submit("mail", {"tenant": "a"})
        await self.verbs.submit("mail", {"tenant": "b"})
        for lease in await self.take("mail", seats=3):
            await self.finish(lease)
        await self.verbs.submit("crawl", {"site": "one"}, key="site-1")
        [lease] = await self.take("crawl")
        await self.store.checkpoint([(lease, Checkpoint(1, '{"page":3}'))])
        await self.store.note([Note(lease, 1, Progress(3, 10), "page 3\n")])
        again = Verdict(
            RunState.SCHEDULED, OutcomeKind.FAILED, "retry", self.clock.now() + 10 * SECOND, failed=True,
            error="ConnectionError: page 4",
        )  # fmt: skip
        await self.finish(lease, again)
        await self.run_and_succeed("legacy", result='"bye"')
        await self.verbs.remove("legacy")
        nap = await self.verbs.submit("nap", delay="1h")
        await self.verbs.cancel(nap, why="not needed")
        await self.verbs.submit("other", delay="1s", expires="10s")
        self.clock.at = 40
        await self.store.expire(limit=100)

    async def add_dead_letters(self) -> None:
        """Dead letters: two of one kind in the box, one replayed, one discarded. Some runs are pruned and counted."""
        self.clock.at = 50
        errors = ("ValueError: row 17 is bad", "ValueError: row 99 is bad", "OSError: no disk", "KeyError: 'x'")
        for number, error in enumerate(errors):
            last = await self.run_and_die("flaky", error, {"n": number})
        await self.verbs.discard(last, why="known")
        await self.verbs.replay(last - 1)
        for _ in range(3):
            await self.run_and_succeed("tally")
        await self.run_and_die("tally", "ValueError: boom")
        record = await self.store.get_job("tally")
        states = frozenset({RunState.SUCCEEDED, RunState.DEAD})
        await self.store.prune_runs(Cut(states, Mark(self.clock.now(), 2**40), record.id))

    async def fill_queues(self) -> None:
        self.clock.at = 60
        await self.store.share_queue("bulk", {"gold": 3, "free": 1})
        for tenant in ("gold", "free", "gold", "free", "gold", "free"):
            await self.verbs.submit("bulk", {"tenant": tenant})
        for lease in await self.take("bulk", seats=2):
            await self.finish(lease)
        await self.verbs.submit("hook")
        await self.store.pause_queue("web", reason="maintenance")
        await self.verbs.submit("backup")
        await self.qa.submit("pipeline", {"version": "7"})

    async def pause_jobs(self) -> None:
        """Three jobs are paused. One of them is resumed without its four missed slots."""
        self.clock.at = 30 + 60
        await self.verbs.pause("poll", reason="too often")
        await self.verbs.submit("frozen")
        await self.verbs.pause("frozen", reason="stocktaking")
        await self.verbs.pause("halted", reason="until later", until=datetime(2099, 1, 1, tzinfo=UTC))
        self.clock.at = 290
        await self.verbs.resume("poll", missed="none")
        self.clock.at = 300
        [lease] = await self.take("poll")
        await self.finish(lease)
        self.clock.at = 310
        [lease] = await self.take("drip")
        await self.finish(lease)

    async def add_exceptions(self) -> None:
        """For two jobs the next slot is moved and the one after it cancelled. The slots of one job are decades
        ahead."""
        self.clock.at = 320
        for job, to in (("report", "+2h"), ("centenary", "+1h")):
            await self.verbs.move_next(job, to=to)
            await self.verbs.skip_next(job)

    async def lose_a_run(self) -> None:
        """A node dies with a run that must not run twice: this run is lost."""
        self.clock.at = 350
        await self.verbs.submit("careful", {"n": 1})
        assert len(await self.take("careful", node="old-2")) == 1
        self.clock.at = 400
        [lease] = await self.store.orphans(limit=10)
        await self.store.reap([(lease, LOST)])
        await self.register("old-2", ttl=15)
        await self.store.leave(self.nodes["old-2"])

    async def block_runs(self) -> None:
        """Runs that still execute when the scene ends, and others that wait for them."""
        self.clock.at = 595
        await self.verbs.put(SYNC)
        self.clock.at = 600
        assert len(await self.take("sync")) == 1
        self.clock.at = 1190
        await self.plan("sync")
        self.clock.at = 1200
        assert await self.take("sync") == []
        self.clock.at = 1790
        await self.verbs.submit("load_db", {"table": "orders"})
        assert len(await self.take("load_db")) == 1
        await self.verbs.submit("clean_db")
        assert await self.take("clean_db") == []
        await self.verbs.submit("careful", {"n": 2})
        assert len(await self.take("careful")) == 1
        stopped = await self.verbs.submit("errand", {"n": 1})
        assert len(await self.take("errand")) == 1
        await self.verbs.cancel(stopped, why="enough")
        await self.verbs.submit("errand", {"n": 2}, delay="5s")
        ask = Ask(
            self.nodes["old-1"], self.ids.leases(1), 0, 1, horizon=10 * SECOND,
            tasks=frozenset({"call:errand"}), number=self.asks + 1,
        )  # fmt: skip
        assert len((await self.store.reserve(ask)).held) == 1

    async def renew_leases(self) -> None:
        self.clock.at = 1794
        await self.store.beat(self.nodes["old-1"], ttl=15 * SECOND)
        for shard in (0, 1):
            assert await self.store.campaign(self.nodes["old-1"], ttl=10 * SECOND, shard=shard) is not None

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────

    async def register(self, name: str, *, ttl: float) -> None:
        self.nodes[name] = f"{name}-{self.ids.token()}"
        node = Node(name, self.nodes[name], "host.example", 4711, queues=("default", "bulk"), seats=64, tzdata="2025b")
        await self.store.register(node, ttl=round(ttl * SECOND))

    async def plan(self, name: str) -> None:
        """Plan as a planner would do now."""
        record = await self.store.get_job(name)
        terms = [await self.store.campaign(self.nodes["old-1"], ttl=10 * SECOND, shard=shard) for shard in (0, 1)]
        for state in await self.store.schedules_of(record.id):
            until = self.clock.now() + 30 * SECOND
            window = plan_window(state, until=until, now=self.clock.now(), late_after=30 * SECOND)
            for term in terms:
                await self.store.plan(term, [(state, window)])
        for term in terms:
            await self.store.resign(term)

    async def take(self, name: str, *, seats: int = 1, node: str = "old-1"):
        """Reserve and arm as a worker would do now. Returns the leases of the armed runs."""
        job, self.asks = (await self.store.get_job(name)).job, self.asks + 1
        ask = Ask(
            self.nodes[node], self.ids.leases(seats), seats,
            queues=(job.queue,), tasks=frozenset({ability_of(job)}), number=self.asks,
        )  # fmt: skip
        got = await self.store.reserve(ask)
        asks = {}
        for lease in got.held:
            arguments = arguments_of(lease)
            busy = gates.on_busy(
                lease.record, trigger=lease.trigger, slot_at=lease.slot_at, now=self.clock.now(), late_after=30 * SECOND
            )
            passing = gates.gates_of(lease.record, target=lease.target, arguments=arguments)
            asks[lease.lease_id] = GateAsk(passing, busy, gates.rate_of(lease.record, arguments=arguments))
        answers = await self.store.arm(got.held, gates=asks) if got.held else []
        return got.armed + [
            replace(lease, fence=answer.fence, armed_at=answer.armed_at, attempt=answer.attempt)
            for lease, answer in zip(got.held, answers, strict=True)
            if isinstance(answer, Armed)
        ]

    async def finish(self, lease, verdict: Verdict = SUCCESS) -> None:
        started, self.clock.at = self.clock.now(), self.clock.at + 0.25
        assert await self.store.finish([Finish(lease, verdict, started, self.clock.now())]) == [True]

    async def run_and_succeed(self, name: str, *, result: str | None = None, key: str = "") -> None:
        await self.verbs.submit(name, key=key)
        [lease] = await self.take(name)
        await self.finish(lease, SUCCESS._replace(result=result))

    async def run_and_die(self, name: str, error: str, args=None) -> int:
        run = await self.verbs.submit(name, args)
        [lease] = await self.take(name)
        dead = Verdict(RunState.DEAD, OutcomeKind.FAILED, "no tries left", failed=True, error=error)
        await self.finish(lease, dead)
        return run.id


async def play(url: str) -> None:
    drawn = random.Random(url.partition(":")[0])
    random_ids._draw = lambda: drawn.randbytes(16)
    store = await open_store(url)
    try:
        await Scene(store).play()
    finally:
        await store.close()


def main(commit: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "store.db"
        asyncio.run(play(f"sqlite:///{file}"))
        (folder / f"{commit}.sqlite.sql").write_text(dumps.dump_sqlite(file))
    with PostgresServer() as postgres:
        url = postgres.create_database()
        asyncio.run(play(url))
        migrations = [step.sql for step in migration.load("onthedot.stores.postgres")]
        (folder / f"{commit}.postgres.sql").write_text(dumps.dump_postgres(url, migrations))
    with ValkeyServer() as valkey:
        asyncio.run(play(valkey.url()))
        text = dumps.dump_redis(valkey.url())
        with Redis.from_url(valkey.url()) as server:  # it has a new run id at each start
            text = text.replace(server.info("server")["run_id"], "0" * 40)
        (folder / f"{commit}.redis.txt").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
