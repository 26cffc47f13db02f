"""Runs moves on a SQLite file: one thread writes, another reads for people."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from onthedot.clock import Clock, Micros
from onthedot.model.errors import StoreUnusable
from onthedot.model.run import NewRun
from onthedot.model.verdict import Finish
from onthedot.stores.hints import Hint, HintKind, Hints
from onthedot.stores.sql.port import Move
from onthedot.stores.sql.records import Records
from onthedot.stores.sqlite.connection import REFUSED, connect, create_file, find_file
from onthedot.stores.sqlite.fast_finish import finish_plain
from onthedot.stores.sqlite.schema import check_current, prepare
from onthedot.stores.sqlite.wakeup import Wakeup
from onthedot.stores.sqlite.writer_thread import ConnectionThread, do_nothing
from onthedot.stores.transactions import run_now
from onthedot.stores.values import About

T = TypeVar("T")
P = ParamSpec("P")

TOGETHER = 16
"""How many calls share a commit at most: enough for a worker, a planner and a heartbeat in one."""


class SqliteDatabase:
    """See `sql.port.Database`. One thread writes, another reads for people."""

    any_loop = True

    def __init__(self, path: str, clock: Clock, *, inline: bool, read_only: bool = False) -> None:
        self.clock = clock
        self.hints = Hints()
        self.records = Records()
        self._name = os.path.abspath(path) if path not in REFUSED else path  # the working directory may change
        self._read_only = read_only
        self._loop: asyncio.AbstractEventLoop | None = None
        make = partial(ConnectionThread, self._name, records=self.records, hints=self.hints, clock=clock, inline=inline)
        self.writer = make(lambda: self._open(writing=True), together=TOGETHER, wakeup=Wakeup(self._pass_on))
        self.reader = make(lambda: self._open(writing=False), together=1)

    async def connect(self) -> None:
        """Open the file now, on the thread that will use it. Hints of other processes come on this loop."""
        self._loop = asyncio.get_running_loop()
        await (self.reader if self._read_only else self.writer).run(do_nothing)

    def _pass_on(self, kinds: Sequence[HintKind]) -> None:
        """Other processes have sent hints: send them here too. Called on the writer's thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
                self._loop.call_soon_threadsafe(self._send, kinds)

    def _send(self, kinds: Sequence[HintKind]) -> None:
        for kind in kinds:
            self.hints.send(Hint(kind, self.clock.now()))

    async def write(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        return await self.writer.run(lambda tx: run_now(move(tx, *args, **named)), writes=True)

    write_long = write

    async def write_many(self, count: int, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        del count
        return await self.write(move, *args, **named)

    async def look(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """In line with the writes, so that no listing can delay it."""
        return await self.writer.run(lambda tx: run_now(move(tx, *args, **named)))

    async def read(self, move: Move[P, T], *args: P.args, **named: P.kwargs) -> T:
        """On a connection and a thread of its own, so that it delays nobody else."""
        return await self.reader.run(lambda tx: run_now(move(tx, *args, **named)))

    read_short = read

    async def finish_plain(self, finishes: Sequence[Finish]) -> frozenset[str]:
        return await self.writer.run(lambda tx: finish_plain(tx, finishes), writes=True)

    async def submit_new(self, runs: Sequence[NewRun], now: Micros | None) -> None:
        """None is faster than the move, which shares its commit with other calls."""

    async def drop_room(self, until: Micros) -> None:
        """Nothing to do: history is one table."""

    def know_lease(self, ttl: Micros) -> None:
        """Nothing depends on it: no write waits for another process's lock for longer than 5 s."""

    async def tell_time(self) -> Micros:
        return self.clock.now()

    async def about(self) -> About:
        return About("SQLite", sqlite3.sqlite_version, "all of it, as far as its disk keeps what it has synced")

    async def close(self) -> None:
        """Finish all calls, end the threads, close the file. The last connection writes the log into the database.

        `PRAGMA optimize` is not run, because its statistics would change query plans that are tested."""
        await self.reader.close()
        await self.writer.close()

    def _open(self, *, writing: bool) -> sqlite3.Connection:
        """Open the writer's or the reader's connection. If nothing may be written, the reader's checks the schema.
        SQLite's own read-only mode is not used, because it leaves its side files behind."""
        path = self._name
        if writing and self._read_only:
            raise StoreUnusable(
                f"{path}: expected a store that may be written, got one that was opened for reading only"
            )
        if writing:
            create_file(path)
        elif self._read_only:
            find_file(path)
        db = connect(path, writing=writing)
        try:
            db.create_function("onthedot_now", 0, self.clock.now)
            if writing:
                prepare(db, path)
            elif self._read_only:
                check_current(db, path)
        except (sqlite3.Error, StoreUnusable):
            db.close()
            raise
        return db
