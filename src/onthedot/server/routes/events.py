"""The stream of events: which runs start and end. While there are followers, one poll of the store serves all of them.

**Ended** runs are read from history in the order of their ends. Their events have an id, so a follower that was
disconnected can continue after it. Each poll reads a little further back than the last one, because a node records an
end a moment after it.

**Started** runs are running in this poll, and were not in the last one. A run that starts and ends between two polls
has only the event of its end.

Each follower has a queue with a limit. A full queue drops events and counts them; its follower gets an event with the
count.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastapi import Request, Response

from onthedot.access.permissions import Principal
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError, StoreUnavailable
from onthedot.model.retention import Mark
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.observe.formats import optional_iso
from onthedot.observe.json_fields import run_fields
from onthedot.operations.open_verbs import OpenStore
from onthedot.server.auth import Who
from onthedot.server.event_stream import PING, PING_EVERY, TURN, LastEventId, event_content, follow, frame
from onthedot.server.router import Routes
from onthedot.stores.hints import Hint
from onthedot.stores.queries import RunCursor, RunFilter

POLL_EVERY = 1.0
"""Seconds between two polls; hints wake it earlier."""
LEAST_PAUSE = 0.1
"""The least seconds between two polls, even if many runs end."""
BEHIND: Micros = 2 * SECOND
"""An end that is recorded later than this appears in the list of runs but not in the event stream."""
PAGE = 500
MOST = 5_000
"""The most ended, or running, runs that one poll reads."""
QUEUE = 1_000
"""The limit of a follower's queue."""

_ID = re.compile(r"(\d{1,18})\.(\d{1,16})")


class FeedEvent(NamedTuple):
    """An event as it is sent, with the namespace and owner that decide who may see it."""

    run_id: int
    namespace: str
    owner: str
    sent: bytes


class FollowerQueue:
    """The events that wait for one follower."""

    def __init__(self, who: Principal, *, most: int = QUEUE) -> None:
        self.who = who
        self._most = most
        self._waiting: deque[FeedEvent] = deque()
        self._left_out = 0
        self._news = asyncio.Event()

    def put(self, events: Iterable[FeedEvent], left_out: int = 0) -> None:
        """Add the events that the follower may see. It never waits."""
        for one in events:
            if not self.who.sees(one.namespace, one.owner):
                continue
            if len(self._waiting) >= self._most or self._left_out:
                self._left_out += 1
            else:
                self._waiting.append(one)
        self._left_out += left_out
        if self._waiting or self._left_out:
            self._news.set()

    async def take(self) -> FeedEvent | None:
        """The next event; None after `PING_EVERY` seconds without one."""
        try:
            async with asyncio.timeout(PING_EVERY):
                await self._news.wait()
        except TimeoutError:
            return None
        if self._waiting:
            one = self._waiting.popleft()
        else:
            one = FeedEvent(0, "", "", left_out(self._left_out))
            self._left_out = 0
        if not self._waiting and not self._left_out:
            self._news.clear()
        return one


def left_out(count: int) -> bytes:
    """Return the event that replaces dropped ones. At least `count` events were dropped."""
    return frame("left_out", {"count": count})


def read_id(text: str) -> Mark | None:
    """The position in history of an event's id; None if the text is not an id.

    >>> read_id("1767225600000000.41"), read_id("41")
    (Mark(ended_at=1767225600000000, run_id=41), None)
    """
    found = _ID.fullmatch(text)
    return None if found is None else Mark(int(found[1]), int(found[2]))


class EventFeed:
    """The event feed of one application."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._queues: set[FollowerQueue] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._newest = Mark(0, 0)
        self._ended_lately: dict[int, Micros] = {}  # runs that ended recently, and when
        self._running: dict[int, int] = {}  # runs of the last poll, and their attempt
        opened.store.hints.listen(self._hear)

    def _hear(self, hint: Hint) -> None:
        if self._queues and hint.kind in ("ends", "runs"):
            self._wake.set()

    async def follow(self, who: Principal, since: Mark | None) -> AsyncGenerator[bytes]:
        """Stream the events that this caller may see. Runs that ended since a mark come first."""
        with self._new_queue(who) as queue:
            known: set[int] = set()
            if since is not None:
                runs, more = await self._ended_since(since)
                if more:
                    yield left_out(1)
                for one in _feed_events(runs, "ended"):
                    if who.sees(one.namespace, one.owner):
                        yield one.sent
                known = {run.id for run in runs}
            yield PING  # tells the client that it is connected
            while True:
                taken = await queue.take()
                if taken is None:
                    if self._task is not None and self._task.done():
                        self._task.result()  # the poll failed: raise its error here
                    yield PING
                elif taken.run_id not in known:
                    yield taken.sent
                known.discard(0 if taken is None else taken.run_id)

    @contextmanager
    def _new_queue(self, who: Principal) -> Iterator[FollowerQueue]:
        queue = FollowerQueue(who)
        if not self._queues:
            self._task = asyncio.create_task(self._poll_forever(), name="onthedot events")
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)
            if not self._queues and self._task is not None:
                self._task.cancel()
                self._task = None

    # ── polling ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _poll_forever(self) -> None:
        await self._poll(first=True)
        while True:
            try:
                async with asyncio.timeout(POLL_EVERY):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            # If very many runs end, each poll reads many. Then ignore hints, and poll at the usual interval.
            await asyncio.sleep(POLL_EVERY if await self._poll() > PAGE else LEAST_PAUSE)

    async def _poll(self, *, first: bool = False) -> int:
        """Send new events to all followers. Returns the number of ended runs that were read."""
        if first:
            self._newest, self._ended_lately, self._running = Mark(self._opened.clock.now(), 0), {}, {}
        since = self._newest.ended_at
        try:
            ended, more = await self._ended_since(Mark(since - BEHIND, 0))
            running = await self._running_now()
        except StoreUnavailable:
            return 0  # the next poll finds what this one missed
        new = [run for run in ended if run.id not in self._ended_lately and (not first or (run.ended_at or 0) >= since)]
        started = [] if first else [run for run in running if self._running.get(run.id) != run.attempts]
        self._running = {run.id: run.attempts for run in running}
        self._remember(ended)
        events = [*_feed_events(started, "started"), *_feed_events(new, "ended")]
        if events or more:
            for number, queue in enumerate(list(self._queues)):
                queue.put(events, int(more))
                if number % TURN == TURN - 1:
                    await asyncio.sleep(0)
        return len(ended)

    def _remember(self, ended: list[RunRecord]) -> None:
        for run in ended:
            at = run.ended_at or 0
            self._ended_lately[run.id] = at
            self._newest = max(self._newest, Mark(at, run.id))
        oldest = self._newest.ended_at - BEHIND
        self._ended_lately = {run_id: at for run_id, at in self._ended_lately.items() if at >= oldest}

    async def _ended_since(self, since: Mark) -> tuple[list[RunRecord], bool]:
        """Return the runs that ended after a mark, oldest first, and whether there are more. If there are too many,
        return the newest ones."""
        wanted = RunFilter(states=TERMINAL, since=since.ended_at)
        found: list[RunRecord] = []
        after: RunCursor | None = None
        while len(found) < MOST:
            page = await self._opened.store.queries.find_runs(wanted, after=after, limit=PAGE)
            found += [run for run in page.items if (run.ended_at or 0, run.id) > since]
            after = page.next
            if after is None:
                break
        return found[::-1], after is not None

    async def _running_now(self) -> list[RunRecord]:
        page = await self._opened.store.queries.find_runs(RunFilter(states=frozenset({RunState.RUNNING})), limit=MOST)
        return page.items


def _feed_events(runs: Iterable[RunRecord], event: str) -> list[FeedEvent]:
    """The events of runs, made once for all followers."""
    return [
        FeedEvent(run.id if event == "ended" else 0, run.namespace, run.owner, _frame_of(run, event)) for run in runs
    ]


def _frame_of(run: RunRecord, event: str) -> bytes:
    id = f"{run.ended_at}.{run.id}" if event == "ended" else None
    shown = run_fields(run)
    data = {name: shown[name] for name in _FIELDS}
    return frame(event, {**data, "armed_at": optional_iso(run.armed_at)}, id=id)


_FIELDS = (
    "run_id", "job", "namespace", "owner", "node", "trigger", "queue", "state", "reason", "error", "attempts", "due_at",
    "started_at", "ended_at", "late_ms", "duration_ms",
)  # fmt: skip


# ── the route ──────────────────────────────────────────────────────────────────────────────────────────────────

routes = Routes(prefix="/api/v1", tags=["events"])

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `started`, `ended`, and `left_out` with the least number of dropped events.",
        "content": event_content("started", "ended", "left_out"),
    }
}


@routes.get("/events", response_class=Response, responses=_EVENTS)
async def follow_events(request: Request, who: Who, last_event_id: LastEventId = None) -> Response:
    """Stream the starts and ends of runs in the whole cluster as server-sent events. `ended` events have an id. Send
    the last id as `Last-Event-ID` to any server: the stream then starts with the runs that ended since. A slow reader
    gets a `left_out` event with the number of dropped events, and the stream continues."""
    since = None if last_event_id is None else read_id(last_event_id)
    if last_event_id is not None and since is None:
        raise DefinitionError(
            f"Last-Event-ID: expected the id of an event like '1767225600000000.41', got {last_event_id!r}; "
            "leave it away to begin now"
        )
    feed: EventFeed = request.app.state.events
    return follow(request, feed.follow(who, since))
