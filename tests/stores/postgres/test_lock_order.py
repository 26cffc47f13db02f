"""No two calls of a store deadlock on PostgreSQL, in whatever order their statements are executed.

The order of locks is in docs/design/store-moves.md. Every writing call (`moves.py`) is traced once to find which locks
it holds after each of its statements (`footprints.py`). For every two calls these traces are compared. Each way in
which the calls could wait for each other is then raced on real connections (`lockstep.py`). `make soak` also races all
pairs at random points.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations_with_replacement, product

import asyncpg
import pytest

from onthedot.stores.documents import Documents
from onthedot.stores.postgres import PostgresStore
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.protocol import Store
from onthedot.stores.sql import finish, gates
from onthedot.stores.sql.port import Tx, sql
from tests.lanes import SEED
from tests.servers.postgres import name_of
from tests.servers.shared import SharedPostgres
from tests.stores.postgres import lockstep, moves
from tests.stores.postgres.footprints import (
    KEY_SHARE,
    Footprints,
    Step,
    Suspect,
    find_common_rows,
    find_suspects,
    steps_of,
)
from tests.stores.postgres.lockstep import Call, Watcher, hooked, race, trace
from tests.stores.postgres.moves import MOVES
from tests.stores.postgres.scene import NOW, Scene, build

DEADLOCK_TIMEOUT = "20ms"

# For the connections of the test. Without limits they would wait for ever for a lock that a failed race left.
LIMITS = {"lock_timeout": "5s", "statement_timeout": "20s"}

LIST_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'onthedot'::regnamespace AND relkind IN ('r', 'p')
AND NOT relispartition AND relname <> 'migrations'
"""

RESTORE = """
DELETE FROM onthedot.{table};
INSERT INTO onthedot.{table} OVERRIDING SYSTEM VALUE SELECT * FROM saved.{table};
"""

# These rows are in the file from last to first, which reveals statements that do not lock them in order.
BACKWARDS = {"runs": "id", "terms": "shard", "history": "id"}
RESTORE_BACKWARDS = """
TRUNCATE onthedot.{table};
INSERT INTO onthedot.{table} SELECT * FROM saved.{table} ORDER BY {column} DESC;
"""

COUNT_WRONG = """
SELECT 'holders without a run', count(*) FROM onthedot.gate_holders h
WHERE NOT EXISTS (SELECT 1 FROM onthedot.runs r WHERE r.id = h.run_id)
UNION ALL SELECT 'gates with too many holders', count(*) FROM (
    SELECT 1 FROM onthedot.gate_holders
    GROUP BY key HAVING count(*) > CASE WHEN key LIKE '%:pool:' THEN 2 ELSE 1 END) crowded
UNION ALL SELECT 'runs that live and have ended', count(*) FROM onthedot.runs JOIN onthedot.history USING (id)
UNION ALL SELECT 'runs that are lost', count(*) FROM saved.runs old
WHERE (old.attempt > 0 OR old.trigger NOT LIKE 'schedule:%')
  AND NOT EXISTS (SELECT 1 FROM onthedot.runs r WHERE r.id = old.id)
  AND NOT EXISTS (SELECT 1 FROM onthedot.history h WHERE h.id = old.id)
"""

READING = re.compile("(get|list|due)_.*")
OTHERS = {"any_loop", "about", "clock", "close", "documents", "hints", "probe", "queries", "tell_time", "transactions"}


class Arena:
    """Two stores on one database, and the state with which every race begins."""

    def __init__(self, stores: list[PostgresStore], scene: Scene, watcher: Watcher) -> None:
        self.moves = dict(MOVES)
        self.scene = scene
        self.footprints: Footprints
        self.deadlocks = 0
        self._calls: dict[bool, dict[str, list[Step]]] = {True: {}, False: {}}  # by whether jobs run after others
        self._db = watcher.locking
        self._watcher = watcher
        self._stores = stores
        self._months = stores[0].database.months

    async def save(self) -> None:
        """Save the current state: every race begins with it."""
        await self._db.execute("CREATE SCHEMA saved")
        body = ""
        for (table,) in await self._db.fetch(LIST_TABLES):
            await self._db.execute(f"CREATE TABLE saved.{table} AS TABLE onthedot.{table}")
            column = BACKWARDS.get(table)
            body += (RESTORE if column is None else RESTORE_BACKWARDS).format(table=table, column=column)
        await self._db.execute(
            f"CREATE FUNCTION saved.restore() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
        )
        self.footprints = await Footprints.open(self._db)

    async def restore(self, *, followed: bool) -> None:
        await self._db.execute("SELECT saved.restore()")
        if not followed:
            await self._db.execute("DELETE FROM onthedot.dependencies")
        for store in self._stores:
            store.database.records.forget()
            store.database.months = self._months

    def _call(self, place: int, name: str) -> Call:
        return partial(self.moves[name], self.scene, self._stores[place])

    async def trace(self, *names: str) -> None:
        """Trace which locks these calls take, and in which order."""
        for followed in (True, False):
            await self.restore(followed=followed)
            for name in names:
                self._stores[0].database.months = self._months
                found = await trace(self.footprints, self._call(0, name))
                if name == "submit_again":  # its rows exist already, so it waits for a call that deletes them
                    existing = {f"runs:{run_id}": KEY_SHARE for run_id in self.scene.ids("right", "left", "plain")}
                    found[-3:] = [footprint | existing for footprint in found[-3:]]
                self._calls[followed][name] = steps_of(found)

    def suspects(self, one: str, other: str) -> Iterator[Suspect]:
        """Returns all ways in which two calls may wait for each other."""
        calls = self._calls[_is_followed(one, other)]
        yield from find_suspects(one, other, calls)
        yield from find_common_rows(one, other, calls)
        if one != other:
            yield from find_suspects(other, one, calls)

    def length(self, one: str, other: str) -> int:
        """Returns how many statements the first of two calls has."""
        return len(self._calls[_is_followed(one, other)][one])

    async def race(self, suspect: Suspect) -> list[str]:
        """Race two calls from the saved state, and check what they leave. Returns their deadlocks."""
        await self.restore(followed=_is_followed(suspect.first, suspect.second))
        first, second = self._call(0, suspect.first), self._call(1, suspect.second)
        obstacle = self.footprints.obstacle(suspect.obstacle) if suspect.obstacle else None
        cut = None if obstacle else suspect.cut
        outcome = await race(self._watcher, first, second, cut=cut, obstacle=obstacle)
        assert not outcome.errors, (suspect, outcome)
        wrong = {what: count for what, count in await self._db.fetch(COUNT_WRONG) if count}
        assert not wrong, (suspect, wrong)
        assert await self._stores[0].recount_gates(now=NOW) == 0, (suspect, "a gate stayed closed")
        self.deadlocks += len(outcome.deadlocks)
        return outcome.deadlocks

    async def race_all(self, suspects: Iterable[Suspect]) -> dict[str, list[str]]:
        """Returns the deadlocks by pair of calls, each with the suspect that led to it."""
        found: dict[str, list[str]] = {}
        for suspect in suspects:
            for deadlock in await self.race(suspect):
                found.setdefault(pair_of(*suspect[:2]), []).append(f"{suspect}: {deadlock}")
        return found


def _is_followed(*names: str) -> bool:
    """The fast path of `finish` is for stores in which no job runs after another."""
    return "finish_fast" not in names


def pair_of(one: str, other: str) -> str:
    return " ".join(sorted((one, other)))


@pytest.fixture
async def arena(postgres: SharedPostgres) -> AsyncIterator[Arena]:
    url = postgres.create()
    watching, locking = [await asyncpg.connect(url, server_settings=LIMITS) for _ in range(2)]
    await watching.execute(f"ALTER DATABASE {name_of(url)} SET deadlock_timeout = '{DEADLOCK_TIMEOUT}'")
    stores = [await PostgresStore.open(url) for _ in range(2)]
    arena = Arena(stores, await build(stores[0], url), Watcher(watching, locking))
    await arena.save()
    with hooked():
        yield arena
    for store in stores:
        await store.close()
    counted = await watching.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    for db in (watching, locking):
        db.terminate()  # `close` would wait for a statement that still runs
    postgres.drop(url)
    assert counted <= arena.deadlocks, "the server ended transactions that no race reported"


def test_every_call_that_writes_is_raced():
    calls = {name for name in [*dir(Store), *dir(Documents)] if not name.startswith("_")}
    calls = {name for name in calls if not READING.fullmatch(name)} - OTHERS
    assert not calls - set(re.findall(r"store\.(?:documents\.)?(\w+)", inspect.getsource(moves)))


@pytest.mark.timeout(400)
async def test_no_two_calls_deadlock(arena: Arena):
    await arena.trace(*MOVES)
    pairs = combinations_with_replacement(MOVES, 2)
    found = await arena.race_all(suspect for pair in pairs for suspect in arena.suspects(*pair))
    assert not found, f"{len(found)} pairs of calls wait for each other: {sorted(found)}"


@pytest.mark.soak  # takes minutes
@pytest.mark.timeout(3600)
async def test_no_two_calls_deadlock_at_random_points(arena: Arena):
    """Traces do not show what a call does differently because of the other call."""
    await arena.trace(*MOVES)
    draw = random.Random(SEED)
    suspects = (
        Suspect(one, other, draw.randrange(arena.length(one, other)), "", "") for one, other in product(MOVES, repeat=2)
    )
    found = await arena.race_all(suspects)
    assert not found, f"{len(found)} pairs of calls wait for each other: {sorted(found)}"


# ── these tests prove that the tests above can fail ──────────────────────────────────────────────────────────────


async def test_a_lock_of_runs_before_gates_is_found(arena: Arena, monkeypatch: pytest.MonkeyPatch):
    async def wrong_order(tx: Tx, run_ids: Sequence[int], *, late: bool = False) -> None:
        await tx.rows(finish.LOCK_RUNS, run_ids)
        await gates.lock_gates_of(tx, run_ids, late=late)

    pair = "cancel_running", "finish_gated"
    await arena.trace(*pair)
    assert not list(arena.suspects(*pair))
    monkeypatch.setattr(finish, "lock_gates_of", wrong_order)
    await arena.trace(*pair)
    assert await arena.race_all(arena.suspects(*pair))


async def test_a_lock_of_rows_in_another_order_is_found(arena: Arena):
    backwards = sql("SELECT id FROM runs WHERE id {in1} ORDER BY id DESC [[FOR UPDATE]]")

    async def wrong_order(scene: Scene, store: PostgresStore) -> object:
        return await store.database.write(Transaction.rows, backwards, [lease.run_id for lease in scene.held["plain"]])

    arena.moves["wrong"] = wrong_order
    await arena.trace("wrong", "release")
    suspects = list(arena.suspects("wrong", "release"))
    assert [suspect.obstacle for suspect in suspects]
    assert await arena.race_all(suspects)
    assert not await arena.race_all(arena.suspects("release", "release"))


async def test_a_lock_that_is_skipped_is_no_deadlock(arena: Arena):
    """The calls take job and queue in different orders, but `reserve` skips a job that another call has locked."""
    pair = "put_edit_fair", "reserve_fair"
    await arena.trace(*pair)
    suspects = list(arena.suspects(*pair))
    assert suspects
    assert not await arena.race_all(suspects)


async def test_a_call_that_hangs_fails_its_race_and_leaves_no_lock(arena: Arena, monkeypatch: pytest.MonkeyPatch):
    async def hang(tx: Tx) -> None:
        await tx.rows(sql("SELECT 1 FROM runs [[FOR UPDATE]]"))
        await asyncio.Event().wait()

    async def stuck(scene: Scene, store: PostgresStore) -> object:
        return await store.database.write(hang)

    arena.moves["stuck"] = stuck
    await arena.trace("release")
    with monkeypatch.context() as patch:
        patch.setattr(lockstep, "LONGEST", 0.5)
        for cut in (0, 1):
            with pytest.raises(AssertionError, match="the call did not return within"):
                await arena.race(Suspect("stuck", "release", cut, "", ""))
    assert not await arena.race_all([Suspect("release", "release", 0, "", "")])
