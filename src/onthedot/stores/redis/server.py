"""Talks to the Redis server: runs scripts, reads its clock, loads definitions, receives hints, checks its persistence.

**A decision about many runs takes several scripts**, so that none blocks the server for long. The first script writes
the decision and applies it to a page of runs. The rest is a sweep (`lib/sweeps.lua`). The process that made the
decision finishes the sweep, and then returns. If that process dies, upkeep finishes it. Until then no new decision
about the same job or queue is accepted: the next caller finishes the sweep first.
"""

from __future__ import annotations

import json
import logging
import threading
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
from onthedot.stores.redis.rows import without_none
from onthedot.stores.redis.scripts import Script, script

logger = logging.getLogger("onthedot.stores.redis")

KEPT_DEFINITIONS = 10_000

STEP = 100
"""The most runs that one script ends, moves or deletes: some milliseconds of the server's time."""
IDLE: Micros = 2 * SECOND
"""Upkeep finishes a sweep that has made no step for so long."""

JobRow = Sequence[Any]
"""A job as scripts return it: id, revision, state, created, updated, pause reason, paused until."""


Definition = tuple[Job, Micros]
"""A definition, and the instant at which it was written."""


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
        self._newest_write = 0  # the number of the newest write that we have an answer to
        self._counting = threading.Lock()  # answers come on any thread
        self._server_id = ""  # the run id of the server at that time
        self._read_only = read_only
        self._sender = RandomIds().token()[:16]
        self._homes = Homes(lambda: Connections(address, self._greet), address.shown)
        self._definitions: dict[tuple[int, int], Definition] = {}

    async def tell_time(self) -> Micros:
        """The server's clock. A single fast command, so that the answer is as exact as possible."""
        home = await self._homes.here()
        try:
            seconds, rest = await home.call("TIME")
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error
        return int(seconds) * SECOND + int(rest)

    async def connect(self) -> None:
        """Check the server and its persistence. Hints of other processes arrive on this event loop."""
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
        """The server's answer to INFO."""
        home = await self._homes.here()
        try:
            return read_info(await home.call("INFO"))
        except TROUBLE as error:
            raise translate(error, self.address.shown) from error

    async def _settings(self, home: Connections) -> dict[str, str]:
        """The server's settings for persistence; empty if this user may not read them."""
        try:
            found = await home.call("CONFIG", "GET", "appendfsync", "save")
        except ResponseError:
            return {}
        return dict(zip(found[::2], found[1::2], strict=True))

    # ── scripts ──────────────────────────────────────────────────────────────────────────────────────────────

    async def write(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Run a script that may write, and send its hints."""
        return (await self.write_with_time(name, now=now, **fields))[1]

    async def write_with_time(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> tuple[Micros, Any]:
        """Like `write`, and also returns the store's clock."""
        if self._read_only:
            raise StoreUnusable(
                f"{self.address.shown}: expected a store that may be written, got one that was opened for reading only"
            )
        return await self._run("EVAL", name, without_none(me=self._sender, writes=1, now=now, **fields))

    async def read(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Run a script that only reads."""
        return (await self.read_with_time(name, now=now, **fields))[1]

    async def read_with_time(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> tuple[Micros, Any]:
        """Like `read`, and also returns the store's clock."""
        return await self._run("EVAL_RO", name, without_none(now=now, **fields))

    async def _run(self, command: str, name: str, request: dict[str, Any]) -> tuple[Micros, Any]:
        home = await self._homes.here()
        text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
        called = script(name)
        try:
            now, hints, answer, write = await self._evaluate(home, command, called, text)
        except (*TROUBLE, UnicodeEncodeError) as error:
            raise translate(error, self.address.shown) from error
        self.calls += 1
        with self._counting:
            self._newest_write = max(self._newest_write, write)
        for kind, at in zip(hints[::2], hints[1::2], strict=True):
            self.hints.send(Hint(kind, at))
        return now, answer

    async def _evaluate(self, home: Connections, command: str, called: Script, text: str) -> Any:
        by_hash = command.replace("EVAL", "EVALSHA")
        try:
            return await home.call(by_hash, called.sha, 1, self.address.tag, text)
        except NoScriptError:  # the server was restarted, or this is the script's first call
            return await home.call(command, called.text, 1, self.address.tag, text)

    async def _greet(self, db: Connection) -> None:
        """Check on a new connection whether its server is still the same, and whether it lost acknowledged writes."""
        if self._read_only:
            return
        server = read_info(await talk(db, "INFO", "server")).get("run_id", "")
        known, seen = self._server_id, self._newest_write  # read first: other connections may change them meanwhile
        before = without_none(epoch=self.epoch, before=known, seen=seen or None) if known else {}
        request = json.dumps({"server": server, **before})
        _, _, [epoch, kept], _ = await talk(db, "EVAL", script("enter").text, 1, self.address.tag, request)
        if kept < seen and self._server_id == known:  # otherwise another connection has reported it
            logger.warning(
                "%s: its server was restarted or replaced, and has lost acknowledged writes: %d of %d are left. "
                "Runs of the last moments may run again, or be lost (epoch %d)",
                self.address.shown, kept, seen, epoch,
            )  # fmt: skip
            self.hints.tell_loss(Loss(kept, seen, epoch))
            self._newest_write = kept
        self.epoch, self._server_id = epoch, server

    # ── decisions about many runs ────────────────────────────────────────────────────────────────────────────

    async def decide(self, name: str, /, *, now: Micros | None = None, **fields: Any) -> Any:
        """Run the script of a decision. If an earlier sweep is not done, finish it first."""
        while True:
            try:
                return await self.write(name, now=now, rows=self.rows, **fields)
            except Refusal as refusal:
                if refusal.kind != "Unsettled":
                    raise
                swept, number = refusal.details
                await self.finish_sweep([swept, int(str(number))], now)

    async def finish_sweep(self, left: Sequence[Any], now: Micros | None) -> list[int]:
        """Do the rest of a decision. Returns the counts of the whole decision."""
        name, number = left
        while True:
            done, first, second = await self.write("sweep", now=now, name=name, number=number, rows=self.rows)
            if done:
                return [first, second]

    async def finish_stalled_sweeps(self, now: Micros | None) -> None:
        """Finish the sweeps of processes that died."""
        for left in await self.read("stalled_sweeps", now=now, idle=IDLE):
            await self.finish_sweep(left, now)

    # ── close ────────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Close the connections. Acknowledged writes stay. A second call does nothing."""
        if self.listener is not None:
            await self.listener.close()
            self.listener = None
        await self._homes.close()

    # ── definitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def load(self, rows: Iterable[JobRow]) -> list[JobRecord | StoreUnusable]:
        """The records of these jobs. Instead of a record, the error for a job whose definition cannot be read.

        A definition never changes, so each is read once."""
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
        """The records of these jobs, without those whose definition cannot be read."""
        return [record for record in await self.load(rows) if isinstance(record, JobRecord)]

    async def record(self, row: JobRow) -> JobRecord:
        """The record of one job. Raises `StoreUnusable` if its definition cannot be read."""
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
    """A definition from its stored text, or the error if it cannot be read."""
    job_id, revision = key
    if text is None:
        return StoreUnusable(f"job {job_id}: expected its revision {revision}, which is missing; put the job again")
    written, _, definition = text.partition("\n")
    try:
        return decode(definition), int(written)
    except (Unreadable, ValueError) as error:
        return StoreUnusable(f"job {job_id}, revision {revision}: {error}; put the job again")


# ── hints from other processes: a script publishes the kinds of its hints ──────────────────────────────────────


class Listener(BaseListener):
    """Receives the hints of other processes on the channel of one store."""

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
        """Receive the next message. If none comes for some time, check that the server answers."""
        message = await db.read_response(timeout=ALIVE_EVERY, disconnect_on_error=False)
        if message is None:
            await db.send_command("PING")
            message = await db.read_response()
        if message[0] == "message":
            sender, *kinds = message[2].split()
            self._heard(sender, kinds)


# ── persistence and eviction ───────────────────────────────────────────────────────────────────────────────────

OLDEST = (7, 0)
"""The oldest version of Redis that can run the scripts. Every Valkey is newer."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """What the server's settings promise. `lost` says what a crash of its machine may lose; empty: nothing."""

    lost: str
    kept: str
    is_weak: bool = False  # without an append-only file a crash may lose many writes

    def __str__(self) -> str:
        lost = f"may lose {self.lost}" if self.lost else "loses nothing"
        return f"{self.kept}; a crash of the server's machine {lost}"


def check_server(info: Mapping[str, Any], shown: str) -> None:
    """Raises `StoreUnusable` for a server that is too old, or that evicts keys when its memory is full."""
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
    >>> str(read_persistence({"aof_enabled": "1"}, {"appendfsync": "always"}))
    "append-only file, synced with every write; a crash of the server's machine loses nothing"
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
