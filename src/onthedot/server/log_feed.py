"""What runs say, for everybody who follows them: one look at the store for each run, however many follow it.

A follower is a place in the output, and nothing else: it is given what lies beyond its place when it has sent what it
had. So one that does not read costs no memory, and nobody else waits for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.model.errors import OutputUnavailable, StoreUnavailable
from onthedot.model.run import TERMINAL, AttemptRecord, RunRecord
from onthedot.observe.formats import iso
from onthedot.operations.open_verbs import OpenStore
from onthedot.output.log_positions import (
    Log,
    LogPosition,
    Part,
    Piece,
    in_records,
    note_pieces,
    read_note,
    record_pieces,
)
from onthedot.output.output_store import Name, OutputStore
from onthedot.server.event_stream import PING, PING_EVERY, TURN, frame

LOOK_EVERY = 0.5
"""Between two looks, in seconds. Running attempts tell the store about every second."""
ON_ITS_WAY: Micros = 3 * SECOND
"""How long the output of an attempt that is over is waited for."""
MOST_KEPT = 16 * 1024 * 1024
"""How many characters of records are held for who comes next."""


AT_ONCE = 128 * 1024
"""How many characters are made into events at once: who does not read them holds no more than these."""
END = "end"
"""The id of the last event."""

Then = Literal["more", "wait", "over"]


class Chunk(NamedTuple):
    """Some events, where one is behind them, and what then: there is more, more may come, or that was all of it."""

    frames: list[bytes]
    place: LogPosition
    then: Then


@dataclass(slots=True)
class RunView:
    """What was found: the run (None: it was forgotten), its attempts that are over, and what each has said so far."""

    number: int
    at: Micros
    run: RunRecord | None
    ended: dict[int, AttemptRecord] = field(default_factory=dict)
    notes: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    told: dict[LogPosition, Chunk] = field(
        default_factory=dict
    )  # what was made of notes already: most are at one place

    @property
    def newest(self) -> int:
        """The last attempt that there is something of."""
        return max([0, *self.ended, *self.notes])


class KeptLogs:
    """Records of attempts that are over. They never change, so the last ones that were read are held, up to a bound."""

    def __init__(self, outputs: OutputStore | None) -> None:
        self._outputs = outputs
        self._held: OrderedDict[Name, Log] = OrderedDict()
        self._size = 0

    async def read(self, name: Name) -> Log | None:
        """What is kept of an attempt; None: nothing, or not yet. `OutputUnavailable`."""
        if self._outputs is None:
            return None
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        records = await self._outputs.records(name)
        if records is None:
            return None
        log = Log.of(records)
        if name not in self._held:
            self._held[name] = log
            self._size += log.size
            while self._size > MOST_KEPT:
                self._size -= self._held.popitem(last=False)[1].size
        return log


class RunFeed:
    """One run, for as long as somebody follows it."""

    def __init__(self, there: OpenStore, run_id: int) -> None:
        self.run_id = run_id
        self.followers = 0
        self._there = there
        self._last: RunView | None = None
        self._asked = asyncio.Event()  # somebody waits for a look
        self._waiting: list[asyncio.Future[None]] = []
        self._task = asyncio.create_task(self._go_on(), name=f"onthedot follow {run_id}")

    async def stop(self) -> None:
        """Nobody follows it any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def after(self, number: int) -> RunView | None:
        """The newest look, once it has a higher number; None if there is none for a while."""
        if self._last is not None and self._last.number > number:
            return self._last
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(looked)
        self._asked.set()
        try:
            async with asyncio.timeout(PING_EVERY):
                await looked
        except TimeoutError:
            if self._task.done():
                self._task.result()  # it has broken: whoever waits is told so
            return None
        return self._last

    async def _go_on(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                self._last = await self._look(self._last)
            except StoreUnavailable:
                self._asked.set()  # whoever waits is still there: it is asked again
            else:
                await self._wake()
            await asyncio.sleep(LOOK_EVERY)

    async def _wake(self) -> None:
        """Tell those who wait, a few in each turn of the loop: requests have theirs between."""
        waiting, self._waiting = self._waiting, []
        for number, looked in enumerate(waiting):
            if not looked.done():  # else it has waited long enough, or is gone
                looked.set_result(None)
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)

    async def _look(self, last: RunView | None) -> RunView:
        store = self._there.store
        run = await store.queries.get_run(self.run_id)
        look = RunView(1 if last is None else last.number + 1, self._there.clock.now(), run)
        same = last is not None and run is not None and last.run is not None and _moved(run) == _moved(last.run)
        if run is None or (same and last is not None and run.armed_at is None):
            return look if last is None else RunView(look.number, look.at, run, last.ended, last.notes)
        # Notes first: an attempt that ends between the two is over in the next look, with all that it has noted.
        look.notes = {log.attempt: read_note(log.text) for log in await store.queries.list_logs(self.run_id)}
        look.ended = (
            last.ended
            if same and last is not None
            else {one.attempt: one for one in await store.queries.list_attempts(self.run_id)}
        )
        return look


def _moved(run: RunRecord) -> tuple[str, int]:
    """What changes when an attempt begins or ends."""
    return run.state, run.attempts


class LogFeeds:
    """All runs that somebody follows."""

    def __init__(self, there: OpenStore) -> None:
        self._there = there
        self._feeds: dict[int, RunFeed] = {}
        self._kept = KeptLogs(there.outputs)

    @asynccontextmanager
    async def _feed(self, run_id: int) -> AsyncIterator[RunFeed]:
        feed = self._feeds.get(run_id)
        if feed is None:
            feed = self._feeds[run_id] = RunFeed(self._there, run_id)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                del self._feeds[run_id]
                await feed.stop()

    async def follow(self, run_id: int, place: LogPosition) -> AsyncGenerator[bytes]:
        """What a run says from a place on, as events, until it has ended and everything was told."""
        number = 0
        async with self._feed(run_id) as feed:
            while True:
                look = await feed.after(number)
                if look is None:
                    yield PING
                    continue
                number = look.number
                while place.attempt <= look.newest:
                    told = await self._beyond(look, run_id, place)
                    place = told.place
                    for one in told.frames:
                        yield one
                    if told.then == "wait":
                        break
                    if told.then == "over":
                        place = LogPosition(place.attempt + 1)
                else:
                    if look.run is None or look.run.state in TERMINAL:
                        yield _end(run_id, look.run)
                        return

    async def _beyond(self, look: RunView, run_id: int, place: LogPosition) -> Chunk:
        """What an attempt has said beyond a place."""
        ended = look.ended.get(place.attempt)
        trouble: list[bytes] = []
        if ended is not None:
            try:
                log = await self._kept.read(Name(run_id, ended.attempt, ended.lease_id))
            except OutputUnavailable as error:
                log = None
                trouble = [frame("trouble", {"attempt": place.attempt, "detail": str(error)})]
            if log is not None:
                return _of_records(look, log, place)
        if place not in look.told:
            look.told[place] = _tell(note_pieces(look.notes.get(place.attempt, ()), place), place)
        told = look.told[place]
        is_late = ended is not None and (look.at - ended.ended_at > ON_ITS_WAY or bool(trouble))
        is_lost = ended is None and place.attempt < look.newest  # it has left nothing, and another one came after it
        then: Then = told.then if told.then == "more" else "over" if is_late or is_lost else "wait"
        return Chunk(told.frames + trouble, told.place, then)


def _of_records(look: RunView, log: Log, place: LogPosition) -> Chunk:
    if place.of == "n":
        text = "".join(record.text for record in log.records)
        place = in_records(place, look.notes.get(place.attempt, ()), text)
    return _tell(record_pieces(log, place), place)


def _tell(pieces: Iterator[Piece], place: LogPosition) -> Chunk:
    """Some of these pieces, as events."""
    frames: list[bytes] = []
    size = 0
    for piece in pieces:
        if size > AT_ONCE:
            return Chunk(frames, place, "more")
        attempt, place = place.attempt, piece.place
        if piece.left_out:
            frames.append(frame("left_out", {"attempt": attempt, "characters": piece.left_out}))
        at, stream, step = (None, None, None) if piece.record is None else piece.record[:3]
        said = {"attempt": attempt, "at": None if at is None else iso(at), "stream": stream, "step": step}
        frames.append(frame("log", {**said, "text": piece.text}, id=str(place)))
        size += len(piece.text)
    return Chunk(frames, place, "over")


def _end(run_id: int, run: RunRecord | None) -> bytes:
    state, reason, error = ("forgotten", "", None) if run is None else (str(run.state), run.reason, run.error)
    return frame("end", {"run_id": run_id, "state": state, "reason": reason, "error": error}, id=END)
