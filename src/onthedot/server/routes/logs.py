"""Logs of runs: read a range of them, or follow them while the run is active.

One poll of the store serves all followers of a run. A follower is only a position in the output. When a follower has
sent what it read, it reads the output after its position. So a follower that does not read costs no memory, and no
other follower waits for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError, OutputUnavailable, StoreUnavailable
from onthedot.model.run import TERMINAL, AttemptRecord, RunRecord
from onthedot.observe.content_negotiation import wants_text
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
    read_position,
    record_pieces,
)
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.run_output import AttemptOutput, read_output
from onthedot.server.auth import StoreDep, Who
from onthedot.server.event_stream import PING, PING_EVERY, TURN, LastEventId, event_content, follow, frame
from onthedot.server.models import RunId, attachment, json_response
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_run

POLL_EVERY = 0.5
"""Seconds between two polls. Running attempts write to the store about every second."""
OUTPUT_DELAY: Micros = 3 * SECOND
"""How long to wait for the output of a finished attempt."""
MOST_KEPT = 16 * 1024 * 1024
"""Characters of records that are cached for the next followers."""
AT_ONCE = 128 * 1024
"""Characters that become events at once. A follower that does not read holds no more in memory."""
END = "end"
"""The id of the last event."""

Then = Literal["more", "wait", "over"]


class Chunk(NamedTuple):
    """Some events, the position after them, and what follows: more output now, perhaps later, or none."""

    frames: list[bytes]
    place: LogPosition
    then: Then


@dataclass(slots=True)
class RunView:
    """The result of a poll: the run (None: deleted), its finished attempts, and the output of each so far."""

    number: int
    at: Micros
    run: RunRecord | None
    ended: dict[int, AttemptRecord] = field(default_factory=dict)
    notes: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    # cached events, because most followers are at the same position
    chunks: dict[LogPosition, Chunk] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The newest attempt with any output."""
        return max([0, *self.ended, *self.notes])


class LogCache:
    """A cache of limited size for the records of finished attempts, which never change."""

    def __init__(self, outputs: OutputStore | None) -> None:
        self._outputs = outputs
        self._held: OrderedDict[Name, Log] = OrderedDict()
        self._size = 0

    async def read(self, name: Name) -> Log | None:
        """The records of an attempt; None if there are none, or not yet. Raises `OutputUnavailable`."""
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
    """Polls one run while it has followers."""

    def __init__(self, opened: OpenStore, run_id: int) -> None:
        self.run_id = run_id
        self.followers = 0
        self._opened = opened
        self._last: RunView | None = None
        self._wanted = asyncio.Event()  # set while a follower waits for a poll
        self._waiting: list[asyncio.Future[None]] = []
        self._task = asyncio.create_task(self._poll_forever(), name=f"onthedot follow {run_id}")

    async def stop(self) -> None:
        """Stop polling."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def after(self, number: int) -> RunView | None:
        """The newest view with a higher number than this; None after `PING_EVERY` seconds without one."""
        if self._last is not None and self._last.number > number:
            return self._last
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(looked)
        self._wanted.set()
        try:
            async with asyncio.timeout(PING_EVERY):
                await looked
        except TimeoutError:
            if self._task.done():
                self._task.result()  # the poll failed: raise its error here
            return None
        return self._last

    async def _poll_forever(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self._last = await self._poll(self._last)
            except StoreUnavailable:
                self._wanted.set()  # followers still wait: poll again
            else:
                await self._wake()
            await asyncio.sleep(POLL_EVERY)

    async def _wake(self) -> None:
        """Wake the followers, a few in each turn of the loop, so that requests run between."""
        waiting, self._waiting = self._waiting, []
        for number, looked in enumerate(waiting):
            if not looked.done():  # else its wait has timed out, or its reader is gone
                looked.set_result(None)
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)

    async def _poll(self, last: RunView | None) -> RunView:
        store = self._opened.store
        run = await store.queries.get_run(self.run_id)
        view = RunView(1 if last is None else last.number + 1, self._opened.clock.now(), run)
        same = last is not None and run is not None and last.run is not None and _moved(run) == _moved(last.run)
        if run is None or (same and last is not None and run.armed_at is None):
            return view if last is None else RunView(view.number, view.at, run, last.ended, last.notes)
        # Read notes first: an attempt that ends between the two reads has ended in the next view, with all its notes.
        view.notes = {log.attempt: read_note(log.text) for log in await store.queries.list_logs(self.run_id)}
        view.ended = (
            last.ended
            if same and last is not None
            else {one.attempt: one for one in await store.queries.list_attempts(self.run_id)}
        )
        return view


def _moved(run: RunRecord) -> tuple[str, int]:
    """Return the fields of a run that change when an attempt begins or ends."""
    return run.state, run.attempts


class LogFeeds:
    """The feeds of all runs that have followers."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._feeds: dict[int, RunFeed] = {}
        self._kept = LogCache(opened.outputs)

    @asynccontextmanager
    async def _feed(self, run_id: int) -> AsyncIterator[RunFeed]:
        feed = self._feeds.get(run_id)
        if feed is None:
            feed = self._feeds[run_id] = RunFeed(self._opened, run_id)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                del self._feeds[run_id]
                await feed.stop()

    async def follow(self, run_id: int, place: LogPosition) -> AsyncGenerator[bytes]:
        """Yield the output of a run after a position, as events, until the run has ended and everything was sent."""
        number = 0
        async with self._feed(run_id) as feed:
            while True:
                view = await feed.after(number)
                if view is None:
                    yield PING
                    continue
                number = view.number
                while place.attempt <= view.newest:
                    chunk = await self._beyond(view, run_id, place)
                    place = chunk.place
                    for one in chunk.frames:
                        yield one
                    if chunk.then == "wait":
                        break
                    if chunk.then == "over":
                        place = LogPosition(place.attempt + 1)
                else:
                    if view.run is None or view.run.state in TERMINAL:
                        yield _end(run_id, view.run)
                        return

    async def _beyond(self, view: RunView, run_id: int, place: LogPosition) -> Chunk:
        """The output of an attempt after a position."""
        ended = view.ended.get(place.attempt)
        trouble: list[bytes] = []
        if ended is not None:
            try:
                log = await self._kept.read(Name(run_id, ended.attempt, ended.lease_id))
            except OutputUnavailable as error:
                log = None
                trouble = [frame("trouble", {"attempt": place.attempt, "detail": str(error)})]
            if log is not None:
                return _of_records(view, log, place)
        if place not in view.chunks:
            view.chunks[place] = _chunk(note_pieces(view.notes.get(place.attempt, ()), place), place)
        chunk = view.chunks[place]
        is_late = ended is not None and (view.at - ended.ended_at > OUTPUT_DELAY or bool(trouble))
        is_lost = ended is None and place.attempt < view.newest  # it stored nothing, and a later attempt has output
        then: Then = chunk.then if chunk.then == "more" else "over" if is_late or is_lost else "wait"
        return Chunk(chunk.frames + trouble, chunk.place, then)


def _of_records(view: RunView, log: Log, place: LogPosition) -> Chunk:
    if place.of == "n":
        text = "".join(record.text for record in log.records)
        place = in_records(place, view.notes.get(place.attempt, ()), text)
    return _chunk(record_pieces(log, place), place)


def _chunk(pieces: Iterator[Piece], place: LogPosition) -> Chunk:
    """The first of these pieces, as events."""
    frames: list[bytes] = []
    size = 0
    for piece in pieces:
        if size > AT_ONCE:
            return Chunk(frames, place, "more")
        attempt, place = place.attempt, piece.place
        if piece.left_out:
            frames.append(frame("left_out", {"attempt": attempt, "characters": piece.left_out}))
        at, stream, step = (None, None, None) if piece.record is None else piece.record[:3]
        data = {"attempt": attempt, "at": None if at is None else iso(at), "stream": stream, "step": step}
        frames.append(frame("log", {**data, "text": piece.text}, id=str(place)))
        size += len(piece.text)
    return Chunk(frames, place, "over")


def _end(run_id: int, run: RunRecord | None) -> bytes:
    state, reason, error = ("forgotten", "", None) if run is None else (str(run.state), run.reason, run.error)
    return frame("end", {"run_id": run_id, "state": state, "reason": reason, "error": error}, id=END)


# ── routes ─────────────────────────────────────────────────────────────────────────────────────────────────────

routes = Routes(prefix="/api/v1", tags=["logs"])

MOST_CHARACTERS = 1024 * 1024
MOST_RECORDS = 1_000

Attempt = Annotated[int | None, Query(ge=1, le=1_000_000, description="Only this attempt.")]


class RecordOut(BaseModel):
    """A piece of output. If a node of an older version runs the attempt, only its text is known."""

    attempt: int = Field(examples=[1])
    at: str | None = Field(examples=["2026-01-01T09:00:00.125000Z"])
    stream: str | None = Field(
        description="`out`, `err`, `log` for a handler's log, or `otd` for messages of onthedot.", examples=["out"]
    )
    step: str | None = Field(examples=["build"])
    text: str = Field(examples=["done\n"])


class LogsOut(BaseModel):
    """A page of the output of a run."""

    items: list[RecordOut]
    next: int | None = Field(description="The `offset` of the next page; null: there is no more output now.")
    trouble: list[str] = Field(description="Why some output could not be read from the output store.")


_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "description": "JSON; or a text file with `format=text` or `Accept: text/plain`.",
    }
}


@routes.get("/runs/{run}/logs", response_model=LogsOut, responses={404: {}, **_TEXT})
async def get_logs(
    request: Request,
    opened: StoreDep,
    who: Who,
    run_id: RunId,
    format: Annotated[
        Literal["text", "json"] | None, Query(description="A text file, or JSON. Default: as `Accept` says, else JSON.")
    ] = None,
    attempt: Attempt = None,
    offset: Annotated[
        int, Query(ge=0, le=2**40, description="How many characters of text, or records of JSON, to leave out.")
    ] = 0,
    limit: Annotated[
        int | None, Query(ge=1, le=MOST_CHARACTERS, description="The largest number of characters, or records.")
    ] = None,
) -> Response:
    """The output of the attempts of a run, in order: at most 1,000 records of JSON, or 1,048,576 characters of text. In
    text the header `X-Next-Offset` is the `offset` of the next page."""
    await visible_run(opened.store, who, run_id)
    outputs = await read_output(opened.store, opened.outputs, run_id, only=attempt)
    as_text = wants_text(request.headers.get("accept", "")) if format is None else format == "text"
    if as_text:
        body, following = await asyncio.to_thread(_text, outputs, offset, limit or MOST_CHARACTERS)
        more = {} if following is None else {"X-Next-Offset": str(following)}
        headers = {**attachment(f"run-{run_id}.log"), **more, "Vary": "Accept"}
        return Response(body, headers=headers, media_type="text/plain; charset=utf-8")
    records = await asyncio.to_thread(_json, outputs, offset, min(limit or MOST_RECORDS, MOST_RECORDS))
    return json_response(records, headers={"Vary": "Accept"})


def _text(outputs: list[AttemptOutput], offset: int, limit: int) -> tuple[bytes, int | None]:
    text = "".join(one.text for one in outputs)
    part = text[offset : offset + limit]
    return part.encode(errors="replace"), offset + limit if offset + limit < len(text) else None


def _json(outputs: list[AttemptOutput], offset: int, limit: int) -> dict[str, Any]:
    records = list(_records(outputs))
    following = offset + limit if offset + limit < len(records) else None
    trouble = [f"attempt {one.attempt}: {one.trouble}" for one in outputs if one.trouble]
    return {"items": records[offset : offset + limit], "next": following, "trouble": trouble}


def _records(outputs: list[AttemptOutput]) -> Iterator[dict[str, Any]]:
    for one in outputs:
        if one.records is None:
            if one.text:
                yield {"attempt": one.attempt, "at": None, "stream": None, "step": None, "text": one.text}
            continue
        for at, stream, step, text in one.records:
            yield {"attempt": one.attempt, "at": iso(at), "stream": stream, "step": step, "text": text}


_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `log` (as in the JSON of the logs), `left_out`, `trouble`, and one `end`.",
        "content": event_content("log", "left_out", "trouble", "end"),
    },
    204: {"description": "You have received the `end` event before. There is nothing more."},
}


@routes.get("/runs/{run}/logs/follow", response_class=Response, responses={404: {}, **_EVENTS})
async def follow_logs(
    request: Request,
    opened: StoreDep,
    who: Who,
    run_id: RunId,
    last_event_id: LastEventId = None,
) -> Response:
    """Stream the output of a run as server-sent events, from its start to its end. An event's id is a position in the
    output. Send the last id as `Last-Event-ID` to any server to continue after it."""
    await visible_run(opened.store, who, run_id)
    if last_event_id == END:
        return Response(status_code=204)
    place = LogPosition() if last_event_id is None else read_position(last_event_id)
    if place is None:
        raise DefinitionError(
            f"Last-Event-ID: expected the id of an event like '1.r.2048', got {last_event_id!r}; "
            "leave it away to begin at the beginning"
        )
    feeds: LogFeeds = request.app.state.logs
    return follow(request, feeds.follow(run_id, place))
