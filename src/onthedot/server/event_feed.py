"""What happens, for everybody who wants to know: one look at the store for all of them, as long as there is anybody.

**Ended** runs are read from history, in the order in which they ended; their events have an id, by which one who was
away goes on. A look goes a little further back than the last one: a node tells of an end a moment after it. **Started**
runs are those that a look finds running and the one before did not: what begins and ends between two looks is told as
ended only.

Each follower has a mailbox with a bound. One that is full leaves events out and counts them; its reader is told how
many when it comes to them, and goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from onthedot.access.principal import Principal
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import StoreUnavailable
from onthedot.model.retention import Mark
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.observe.json_lines import optional_iso, run_fields
from onthedot.operations.open_verbs import OpenStore
from onthedot.server.event_stream import PING, PING_EVERY, TURN, frame
from onthedot.stores.hints import Hint
from onthedot.stores.queries import RunCursor, RunFilter

LOOK_EVERY = 1.0
"""The longest time between two looks, in seconds; hints wake earlier."""
SHORTEST = 0.1
"""The shortest one: however many runs end, it is one look for all of them."""
BEHIND: Micros = 2 * SECOND
"""How long after its end the record of a run may come. What comes later is in the list of runs, but not told here."""
PAGE = 500
MOST = 5_000
"""How many ended, or running, runs one look reads."""
MAILBOX = 1_000
"""How many events wait for one follower."""

_ID = re.compile(r"(\d{1,18})\.(\d{1,16})")


class FeedEvent(NamedTuple):
    """One event as it is sent, and what tells for whom."""

    run_id: int
    namespace: str
    owner: str
    sent: bytes


class FollowerQueue:
    """What waits for one follower."""

    def __init__(self, who: Principal, *, most: int = MAILBOX) -> None:
        self.who = who
        self._most = most
        self._waiting: deque[FeedEvent] = deque()
        self._left_out = 0
        self._news = asyncio.Event()

    def put(self, happened: Iterable[FeedEvent], left_out: int = 0) -> None:
        """Never waits."""
        for one in happened:
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
        """The next one; None if it is quiet for a while."""
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
    """What is told in place of events that are not: there were at least so many."""
    return frame("left_out", {"count": count})


def read_id(text: str) -> Mark | None:
    """The place in history that an event's id names.

    >>> read_id("1767225600000000.41"), read_id("41")
    (Mark(ended_at=1767225600000000, run_id=41), None)
    """
    found = _ID.fullmatch(text)
    return None if found is None else Mark(int(found[1]), int(found[2]))


class EventFeed:
    """See above."""

    def __init__(self, there: OpenStore) -> None:
        self._there = there
        self._boxes: set[FollowerQueue] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._newest = Mark(0, 0)
        self._told: dict[int, Micros] = {}  # ended runs of the last moments, and when they ended
        self._running: dict[int, int] = {}  # what ran at the last look, and in which attempt
        there.store.hints.listen(self._hear)

    def _hear(self, hint: Hint) -> None:
        if self._boxes and hint.kind in ("ends", "runs"):
            self._wake.set()

    async def follow(self, who: Principal, since: Mark | None) -> AsyncGenerator[bytes]:
        """Everything that happens from now on and is there for this one; what has ended since a mark comes first."""
        with self._mailbox(who) as box:
            known: set[int] = set()
            if since is not None:
                runs, more = await self._ended_since(since)
                if more:
                    yield left_out(1)
                for one in _happened(runs, "ended"):
                    if who.sees(one.namespace, one.owner):
                        yield one.sent
                known = {run.id for run in runs}
            yield PING  # whoever asks knows from here on that it is heard
            while True:
                taken = await box.take()
                if taken is None:
                    if self._task is not None and self._task.done():
                        self._task.result()  # it has broken: whoever waits is told so
                    yield PING
                elif taken.run_id not in known:
                    yield taken.sent
                known.discard(0 if taken is None else taken.run_id)

    @contextmanager
    def _mailbox(self, who: Principal) -> Iterator[FollowerQueue]:
        box = FollowerQueue(who)
        if not self._boxes:
            self._task = asyncio.create_task(self._go_on(), name="onthedot events")
        self._boxes.add(box)
        try:
            yield box
        finally:
            self._boxes.discard(box)
            if not self._boxes and self._task is not None:
                self._task.cancel()
                self._task = None

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _go_on(self) -> None:
        await self._look(first=True)
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            # Where very many end, each look is about many: it is taken as seldom as without hints.
            await asyncio.sleep(LOOK_EVERY if await self._look() > PAGE else SHORTEST)

    async def _look(self, *, first: bool = False) -> int:
        """Tell everybody what is new; how many ended runs were read for it."""
        if first:
            self._newest, self._told, self._running = Mark(self._there.clock.now(), 0), {}, {}
        since = self._newest.ended_at
        try:
            ended, more = await self._ended_since(Mark(since - BEHIND, 0))
            running = await self._running_now()
        except StoreUnavailable:
            return 0  # the next look finds what this one has not
        new = [run for run in ended if run.id not in self._told and (not first or (run.ended_at or 0) >= since)]
        started = [] if first else [run for run in running if self._running.get(run.id) != run.attempts]
        self._running = {run.id: run.attempts for run in running}
        self._remember(ended)
        happened = [*_happened(started, "started"), *_happened(new, "ended")]
        if happened or more:
            for number, box in enumerate(list(self._boxes)):
                box.put(happened, int(more))
                if number % TURN == TURN - 1:
                    await asyncio.sleep(0)
        return len(ended)

    def _remember(self, ended: list[RunRecord]) -> None:
        for run in ended:
            at = run.ended_at or 0
            self._told[run.id] = at
            self._newest = max(self._newest, Mark(at, run.id))
        oldest = self._newest.ended_at - BEHIND
        self._told = {run_id: at for run_id, at in self._told.items() if at >= oldest}

    async def _ended_since(self, since: Mark) -> tuple[list[RunRecord], bool]:
        """What has ended after a mark, the oldest first, and whether there is more: of too many, the newest."""
        wanted = RunFilter(states=TERMINAL, since=since.ended_at)
        found: list[RunRecord] = []
        after: RunCursor | None = None
        while len(found) < MOST:
            page = await self._there.store.queries.find_runs(wanted, after=after, limit=PAGE)
            found += [run for run in page.items if (run.ended_at or 0, run.id) > since]
            after = page.next
            if after is None:
                break
        return found[::-1], after is not None

    async def _running_now(self) -> list[RunRecord]:
        page = await self._there.store.queries.find_runs(RunFilter(states=frozenset({RunState.RUNNING})), limit=MOST)
        return page.items


def _happened(runs: Iterable[RunRecord], event: str) -> list[FeedEvent]:
    """Runs as they are told, made once for everybody."""
    return [FeedEvent(run.id if event == "ended" else 0, run.namespace, run.owner, _sent(run, event)) for run in runs]


def _sent(run: RunRecord, event: str) -> bytes:
    id = f"{run.ended_at}.{run.id}" if event == "ended" else None
    shown = run_fields(run)
    said = {name: shown[name] for name in _FIELDS}
    return frame(event, {**said, "armed_at": optional_iso(run.armed_at)}, id=id)


_FIELDS = (
    "run_id", "job", "namespace", "owner", "node", "trigger", "queue", "state", "reason", "error", "attempts", "due_at",
    "started_at", "ended_at", "late_ms", "duration_ms",
)  # fmt: skip
