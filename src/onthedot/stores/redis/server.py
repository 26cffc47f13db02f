"""Talks to the Redis server: runs scripts, reads its clock, loads definitions, hears hints, and checks what it keeps.

**A decision about many runs goes in steps**: no script of ours keeps the server from others for long. The script that
decides also does what follows from it for a page of runs; what is left is a sweep (`lib/sweeps.lua`). The process that
decided goes on with it, and answers when it is done. If that process dies, upkeep goes on. Until a sweep is done,
nobody decides again about the same job or queue: the next caller does the rest of it first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from onthedot.clock import SECOND, Micros
from onthedot.ids import RandomIds
from onthedot.model.errors import StoreUnusable
from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.job_json import Unreadable, decode
from onthedot.stores.hints import ALIVE_EVERY, BaseListener, Hint, Hints, Loss
from onthedot.stores.per_loop import Homes
from onthedot.stores.redis.connections import Address, Connection, Connections, break_off, maker, open_connection, talk
from onthedot.stores.redis.errors import TROUBLE, Refusal, translate
from onthedot.stores.redis.rows import told
from onthedot.stores.redis.scripts import Script, script

logger = logging.getLogger("onthedot.stores.redis")

KEPT_DEFINITIONS = 10_000

STEP = 100
"""How many runs one script ends, moves or forgets at the most: some milliseconds of everybody's time."""
IDLE: Micros = 2 * SECOND
"""A sweep that has not moved for so long is upkeep's."""

JobRow = Sequence[Any]
"""A job as scripts answer it: id, revision, state, created, updated, pause reason, paused until."""


Definition = tuple[Job, Micros]
"""A definition, and when it was written."""


class RedisServer:
    """One prefix of a server, and the connections to it."""

    rows = STEP

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        self.hints = Hints()
        self.persistence: Persistence | None = None
        self.epoch = 0
        self.listener: Listener | None = None
        self.calls = 0
        self._acknowledged = 0  # the newest write that we have had an answer of
        self._known = ""  # what the server called itself then
        self._read_only = read_only
        self._sender = RandomIds().token()[:16]
        self._homes = Homes(lambda: Connections(address, self._greet), address.shown)
        self._definitions: dict[tuple[int, int], Definition] = {}

    async def tell_time(self) -> Micros:
        """By the shortest question there is: the less it takes, the more its answer is worth."""
        home = await self._homes.here()
        try:
            seconds, rest = await home.call("TIME")
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        return int(seconds) * SECOND + int(rest)

    async def connect(self) -> None:
        """See that the server is there and fit for us. Hints of other processes come on this loop."""
        home = await self._homes.here()
        info = await self.server_info()
        try:
            settings = await self._settings(home)
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        check_server(info, self.address.shown)
        self.persistence = read_persistence(info, settings)
        level = logging.WARNING if self.persistence.is_weak else logging.INFO
        logger.log(level, "%s: %s", self.address.shown, self.persistence)
        if not self._read_only:
            self.listener = Listener(self.address, self._sender, self.hints)
            self.listener.start()

    async def server_info(self) -> dict[str, str]:
        """What the server says of itself."""
        home = await self._homes.here()
        try:
            return read_info(await home.call("INFO"))
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error

    async def _settings(self, home: Connections) -> dict[str, str]:
        """What the server is set to; nothing where we may not ask."""
        try:
            found = await home.call("CONFIG", "GET", "appendfsync", "save")
        except ResponseError:
            return {}
        return dict(zip(found[::2], found[1::2], strict=True))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Run a script that may write. What it answers is in the store; its hints are sent."""
        return (await self.ask_at(name, now=now, **fields))[1]

    async def ask_at(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> tuple[Micros, Any]:
        """The same, with the store's clock."""
        if self._read_only:
            raise StoreUnusable(
                f"{self.address.shown}: expected a store that may be written, got one that was opened for reading only"
            )
        return await self._run("EVAL", name, told(me=self._sender, writes=1, now=now, **fields))

    async def look(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Run a script that only reads."""
        return (await self.look_at(name, now=now, **fields))[1]

    async def look_at(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> tuple[Micros, Any]:
        """The same, with the store's clock."""
        return await self._run("EVAL_RO", name, told(now=now, **fields))

    async def _run(self, how: str, name: str, question: dict[str, Any]) -> tuple[Micros, Any]:
        home = await self._homes.here()
        text = json.dumps(question, ensure_ascii=False, separators=(",", ":"))
        called = script(name)
        try:
            answer = await self._evaluate(home, how, called, text)
        except (*TROUBLE, UnicodeEncodeError) as error:
            raise translate(error, self.address.shown) from error
        now, hints, said, writes = answer
        self.calls += 1
        self._acknowledged = max(self._acknowledged, writes)
        for kind, at in zip(hints[::2], hints[1::2], strict=True):
            self.hints.send(Hint(kind, at))
        return now, said

    async def _evaluate(self, home: Connections, how: str, called: Script, text: str) -> Any:
        sha = how.replace("EVAL", "EVALSHA")
        try:
            return await home.call(sha, called.sha, 1, self.address.tag, text)
        except NoScriptError:  # the server was started anew, or has never seen it
            return await home.call(how, called.text, 1, self.address.tag, text)

    async def _greet(self, db: Connection) -> None:
        """A new connection: see whether its server is the one that we knew, and whether it has lost what it said."""
        if self._read_only:
            return
        server = read_info(await talk(db, "INFO", "server")).get("run_id", "")
        known, seen = self._known, self._acknowledged  # before we ask: answers on other connections may come meanwhile
        before = told(epoch=self.epoch, before=known, seen=seen or None) if known else {}
        question = json.dumps({"server": server, **before})
        _, _, [epoch, kept], _ = await talk(db, "EVAL", script("enter").text, 1, self.address.tag, question)
        if kept < seen and self._known == known:  # else another connection has told it
            logger.warning(
                "%s: its server was started again, or is another one, and has lost acknowledged writes: %d of %d are "
                "there. Runs of the last moments may run again, or be gone (epoch %d)",
                self.address.shown, kept, seen, epoch,
            )  # fmt: skip
            self.hints.tell_loss(Loss(kept, seen, epoch))
            self._acknowledged = kept
        self.epoch, self._known = epoch, server

    # ── decisions about many runs ────────────────────────────────────────────────────────────────────────────

    async def decide(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Ask for a decision; sweeps of earlier ones are done before."""
        while True:
            try:
                return await self.ask(name, now=now, rows=self.rows, **fields)
            except Refusal as refusal:
                if refusal.kind != "Unsettled":
                    raise
                swept, number = refusal.said
                await self.sweep([swept, int(str(number))], now)

    async def sweep(self, left: Sequence[Any], now: Micros | None) -> list[int]:
        """Do what is left of a decision; what has been counted from its beginning on."""
        name, number = left
        while True:
            done, first, second = await self.ask("sweep", now=now, name=name, number=number, rows=self.rows)
            if done:
                return [first, second]

    async def sweep_after_others(self, now: Micros | None) -> None:
        """Finish the sweeps of processes that died."""
        for left in await self.look("stalled_sweeps", now=now, idle=IDLE):
            await self.sweep(left, now)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Let go of the connections. Whatever was acknowledged stays. Twice is fine."""
        if self.listener is not None:
            await self.listener.close()
            self.listener = None
        await self._homes.close()

    # ── definitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def load(self, rows: Iterable[JobRow]) -> list[JobRecord | StoreUnusable]:
        """Jobs as scripts answer them; for each whose definition cannot be read, the reason.

        Definitions never change, and are read once."""
        rows = list(rows)
        keys = {(row[0], row[1]) for row in rows}
        known: dict[tuple[int, int], Definition | StoreUnusable] = {
            key: self._definitions[key] for key in keys if key in self._definitions
        }
        missing = sorted(keys - known.keys())
        if missing:
            known |= await self._read_definitions(missing)
        return [_record(row, known[row[0], row[1]]) for row in rows]

    async def records(self, rows: Iterable[JobRow]) -> list[JobRecord]:
        """Those of these jobs whose definitions can be read."""
        return [record for record in await self.load(rows) if isinstance(record, JobRecord)]

    async def record(self, row: JobRow) -> JobRecord:
        """One job; `StoreUnusable` if its definition cannot be read."""
        [record] = await self.load([row])
        if isinstance(record, StoreUnusable):
            raise record
        return record

    async def _read_definitions(
        self, wanted: list[tuple[int, int]]
    ) -> dict[tuple[int, int], Definition | StoreUnusable]:
        home = await self._homes.here()
        fields = [f"{job_id}:{revision}" for job_id, revision in wanted]
        try:
            texts = await home.call("HMGET", f"{self.address.tag}:definitions", *fields)
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        if len(self._definitions) > KEPT_DEFINITIONS:
            self._definitions.clear()
        read = {key: _definition(key, text) for key, text in zip(wanted, texts, strict=True)}
        self._definitions |= {key: found for key, found in read.items() if not isinstance(found, StoreUnusable)}
        return read


def _record(row: JobRow, definition: Definition | StoreUnusable) -> JobRecord | StoreUnusable:
    if isinstance(definition, StoreUnusable):
        return definition
    job_id, revision, state, created, updated, reason, until = row
    job, written = definition
    return JobRecord(job_id, revision, job, JobState(state), created, updated or written, reason or "", until)


def _definition(key: tuple[int, int], text: str | None) -> Definition | StoreUnusable:
    """A definition from its stored text, or why it cannot be read."""
    job_id, revision = key
    if text is None:
        return StoreUnusable(f"job {job_id}: expected its revision {revision}, which is missing; put the job again")
    written, _, definition = text.partition("\n")
    try:
        return decode(definition), int(written)
    except (Unreadable, ValueError) as error:
        return StoreUnusable(f"job {job_id}, revision {revision}: {error}; put the job again")


# ── hints from other processes: every script that has hints publishes their kinds ──────────────────────────────


class Listener(BaseListener):
    """Subscribed to the channel of one store."""

    trouble = TROUBLE

    def __init__(self, address: Address, sender: str, hints: Hints) -> None:
        super().__init__(sender, hints)
        self._make = maker(address)
        self._channel = f"{address.tag}:hints"

    async def _listen_once(self, *, missed: bool) -> None:
        db = self._make()
        try:
            await open_connection(db)
            await db.send_command("SUBSCRIBE", self._channel)
            await db.read_response()
            self._is_listening(missed=missed)
            while True:
                await self._hear(db)
        finally:
            await break_off(db)

    async def _hear(self, db: Connection) -> None:
        """The next message; after a while without one, see whether anybody is there."""
        said = await db.read_response(timeout=ALIVE_EVERY, disconnect_on_error=False)
        if said is None:
            await db.send_command("PING")
            said = await db.read_response()
        if said[0] == "message":
            sender, *kinds = said[2].split()
            self._heard(sender, kinds)


# ── what a server keeps when it dies, and that it drops no keys to make room ───────────────────────────────────

OLDEST = (7, 0)
"""Scripts lean on what Redis 7 does. Valkey began after it."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """What the server's settings promise. `lost` is what a crash of its machine may take, in words; empty: nothing."""

    lost: str
    kept: str
    is_weak: bool = False  # more than moments may be lost

    def __str__(self) -> str:
        return f"{self.kept}; a crash of the server's machine may lose {self.lost or 'nothing'}"


def check_server(info: Mapping[str, Any], shown: str) -> None:
    """`StoreUnusable` for a server that is too old, or that would let our keys go when its memory is full."""
    version = str(info.get("redis_version", "0"))
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if number < OLDEST:
        raise StoreUnusable(f"{shown}: expected Redis 7 or Valkey, or a later one, got {version}; use a newer server")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StoreUnusable(
            f"{shown}: expected a server that keeps what it has (maxmemory-policy noeviction), got {policy}, which "
            "would forget jobs when its memory is full; run: CONFIG SET maxmemory-policy noeviction"
        )


def read_persistence(info: Mapping[str, Any], settings: Mapping[str, str]) -> Persistence:
    """
    >>> str(read_persistence({"aof_enabled": "1"}, {"appendfsync": "everysec"}))
    "append-only file, synced every second; a crash of the server's machine may lose the last one or two seconds"
    """
    if str(info.get("aof_enabled", "0")) == "1":
        sync = settings.get("appendfsync", "unknown")
        if sync == "always":
            return Persistence("", "append-only file, synced with every write")
        if sync == "everysec":
            return Persistence("the last one or two seconds", "append-only file, synced every second")
        return Persistence("what the system had not written yet", f"append-only file, appendfsync {sync}")
    if settings.get("save"):
        return Persistence("all since the last snapshot", f"snapshots ({settings['save']})", is_weak=True)
    if "save" not in settings:
        return Persistence("all since the last snapshot, if there are any", "no append-only file", is_weak=True)
    return Persistence("everything", "memory only", is_weak=True)


def read_info(text: str) -> dict[str, str]:
    """The answer of INFO as names and values."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
