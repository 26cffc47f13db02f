"""What the live view of `onthedot up` shows: gathered from events, and drawn as lines that fit the terminal.

     ────────────────────────────────────────────────────────────────────────────────────────────
     onthedot  node web-1 · leads (term 3) · shop.db
     next      heartbeat  20:54:20  in 3.2 s
     running   nap        run 41    1.4 s      attempt 2  ━━━━━━────  60 of 100
     finished  heartbeat  run 40    succeeded  +1.2 ms late, in 3.1 ms
     so far    12 started, 11 succeeded, 1 failed, 0 dead, 0 skipped; late p50 0.8 ms, p99 2.9 ms
     Ctrl-C drains and stops; a second one stops now

Nothing here asks the store or the engine for anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from onthedot.cli.next_slots import NextStart, NextStarts
from onthedot.clock import SECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    DrainBegun,
    Event,
    EventsLeftOut,
    LeaseLost,
    NodeDraining,
    NodeFenced,
    NodeJoined,
    NodeLeft,
    RunProgressed,
    TermEnded,
    TermWon,
)
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import Lease, Progress
from onthedot.model.verdict import Finish
from onthedot.observe.counters import Counters, verdict_word
from onthedot.observe.formats import count, length, moment, plain

_TONES = {
    "succeeded": "green",
    "failed": "yellow",
    "released": "yellow",
    "dead": "bold red",
    "lost": "bold red",
    "refused": "bold red",
    "cancelled": "yellow",
}
_LABEL = 10  # how wide the first column is
_WIDEST_NAME = 28
_MOST = {"running": 8, "next": 4, "finished": 4}  # rows of each, where there is room
_BAR = 10


@dataclass(slots=True)
class Running:
    """An attempt under way."""

    lease: Lease
    started_at: Micros
    progress: Progress | None = None


class Row(NamedTuple):
    """One line about a job: which of its runs or instants, and the rest."""

    job: str
    which: str
    rest: Text


class View:
    """The state of one node, as its events tell it. Used on one thread, but for `stored`."""

    def __init__(
        self, *, store: str, jobs: Sequence[Job], seats: int, grace: Micros, now: Micros, zone: tzinfo | None = None
    ) -> None:
        self.stored: tuple[Iterable[JobRecord], bool] | None = None  # put here by whoever has looked; see `NextStarts`
        self._store = store
        self._seats = seats
        self._grace = grace
        self._zone = zone
        self._counters = Counters()
        self._upcoming = NextStarts(jobs, now)
        self._running: dict[str, Running] = {}  # by lease id
        self._finished: deque[tuple[Finish, str]] = deque(maxlen=_MOST["finished"])
        self._node = ""
        self._terms: dict[int, int] = {}  # by shard
        self._asked_to_drain = False  # by somebody else, while it stays
        self._stopping_since: Micros | None = None

    # ── from events ──────────────────────────────────────────────────────────────────────────────────────────

    def heed(self, event: Event, at: Micros) -> None:
        """Something has happened."""
        self._counters(event)
        match event:
            case AttemptStarted(lease, started_at):
                self._running[lease.lease_id] = Running(lease, started_at)
                self._upcoming.started(lease.run_id)
            case RunProgressed(lease, progress):
                if lease.lease_id in self._running:
                    self._running[lease.lease_id].progress = progress
            case AttemptEnded(finish):
                self._end(finish, verdict_word(finish.verdict))
                self._upcoming.ended(finish)
            case LeaseLost(finish):
                self._end(finish, "refused")
            case EventsLeftOut():
                self._running.clear()  # nobody will tell of those that have ended meanwhile
            case _:
                self._heed_node(event, at)

    def _end(self, finish: Finish, word: str) -> None:
        self._running.pop(finish.lease.lease_id, None)
        self._finished.appendleft((finish, word))

    def _heed_node(self, event: Event, at: Micros) -> None:
        match event:
            case NodeJoined():
                self._node = event.node_id
            case NodeFenced() | NodeLeft():
                self._running.clear()
            case NodeDraining():
                self._asked_to_drain = event.draining
            case TermWon():
                self._terms[event.shard] = event.number
            case TermEnded():
                self._terms.pop(event.shard, None)
            case DrainBegun():
                self._stopping_since = at
            case _:
                pass

    @property
    def moves(self) -> bool:
        """Whether there is something to watch from moment to moment."""
        return bool(self._running)

    # ── to lines ─────────────────────────────────────────────────────────────────────────────────────────────

    def lines(self, width: int, height: int, now: Micros) -> list[Text]:
        """At most `height` lines, none wider than `width`. The fewer there may be, the less is told."""
        if self.stored is not None:
            (records, complete), self.stored = self.stored, None
            self._upcoming.learn(records, now, complete=complete)
        if height < 3:
            drawn = [self._counts(width)]
        elif height < 6:
            drawn = [self._head(), self._counts(width), self._foot(now)]
        elif height < 9:
            drawn = [self._head(), *self._sections(height - 3, now), self._counts(width), self._foot(now)]
        else:
            rule = Text("─" * width, "dim")
            drawn = [rule, self._head(), *self._sections(height - 4, now), self._counts(width), self._foot(now)]
        for line in drawn:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return drawn

    def _sections(self, room: int, now: Micros) -> list[Text]:
        running = sorted(self._running.values(), key=lambda one: one.started_at)
        stopping = self._stopping_since is not None
        coming = [] if stopping else self._upcoming.next(_MOST["next"], now)
        finished = list(self._finished)
        asked = {"running": max(1, len(running)), "next": len(coming), "finished": len(finished)}
        rows = _shared(room, {name: min(asked[name], _MOST[name]) for name in asked})
        return _aligned(
            {
                "next": [self._coming(one, now) for one in coming[: rows["next"]]],
                "running": self._under_way(running, rows["running"], now),
                "finished": [_ended(*one) for one in finished[: rows["finished"]]],
            }
        )

    def _head(self) -> Text:
        if not self._terms:
            role = "follows"
        elif len(self._terms) == 1:
            role = f"leads (term {next(iter(self._terms.values()))})"
        else:
            role = f"leads {count(len(self._terms), 'shard')}"
        if self._asked_to_drain:
            role += ", takes no more work"
        text = f"node {plain(self._node)} · {role} · {plain(self._store)}"
        return Text.assemble((f"{'onthedot':<{_LABEL}}", "bold"), (text, "bold"))

    def _coming(self, one: NextStart, now: Micros) -> Row:
        when = moment(one.at - one.at % 1_000, now, self._zone)
        note = f"   {plain(one.note)}" if one.note else ""
        return Row(one.job, when, Text(f"in {_rough(one.at - now)}{note}"))

    def _under_way(self, running: Sequence[Running], rows: int, now: Micros) -> list[Row | Text]:
        if not running:
            return [Text("nothing", "dim")]
        shown = running if len(running) <= rows else running[: rows - 1]
        drawn: list[Row | Text] = [_attempt(one, now) for one in shown]
        if len(shown) < len(running):
            more = f"{count(len(running) - len(shown), 'attempt')}"
            drawn.append(Text(f"… and {more} more, on {len(running)} of {count(self._seats, 'seat')}", "dim"))
        return drawn

    def _counts(self, width: int | None = None) -> Text:
        """What was counted; where that is too wide, without what never happened."""
        line = self._counted(all_of_them=True)
        return line if width is None or line.cell_len <= width else self._counted(all_of_them=False)

    def _counted(self, *, all_of_them: bool) -> Text:
        total = self._counters.total()
        verdicts = total.verdicts
        parts = [
            (total.started, "started", ""),
            (verdicts["succeeded"], "succeeded", "green"),
            (verdicts["failed"], "failed", "yellow"),
            (verdicts["dead"], "dead", "bold red"),
            (total.skipped, "skipped", "yellow"),
        ]
        shown = [one for one in parts if one[0] or all_of_them] or parts[:1]
        line = Text.assemble((f"{'so far':<{_LABEL}}", "bold"))
        line.append_text(Text(", ").join(Text(f"{n} {word}", style if n else "") for n, word, style in shown))
        half, most = total.late.quantile(0.5), total.late.quantile(0.99)
        if half is not None and most is not None:
            line.append(f"; late p50 {length(half)}, p99 {length(most)}", "")
        return line

    def _foot(self, now: Micros) -> Text:
        if self._stopping_since is None:
            return Text("Ctrl-C drains and stops; a second one stops now", "dim")
        if not self._running:
            return Text("draining: the last verdicts are written", "bold yellow")
        running = sorted(self._running.values(), key=lambda one: one.started_at)
        who = ", ".join(f"{plain(one.lease.record.job.name)} run {one.lease.run_id}" for one in running[:3])
        more = f" and {len(running) - 3} more" if len(running) > 3 else ""
        left = max(0, self._stopping_since + self._grace - now)
        waits = f"draining: waits for {who}{more}, up to {_rough(left)}; another Ctrl-C stops now"
        return Text(waits, "bold yellow")

    def last_words(self) -> Text:
        """What stays on the terminal when the view is gone."""
        return self._counts()


def _shared(room: int, asked: dict[str, int]) -> dict[str, int]:
    """How many rows each part gets: one each as far as they go, then the others in turn, the first named first.

    >>> _shared(3, {"running": 8, "next": 4, "finished": 0})
    {'running': 2, 'next': 1, 'finished': 0}
    """
    rows = dict.fromkeys(asked, 0)
    while room and rows != asked:
        for name in asked:
            if room and rows[name] < asked[name]:
                rows[name] += 1
                room -= 1
    return rows


def _aligned(parts: Mapping[str, Sequence[Row | Text]]) -> list[Text]:
    """The rows of all parts in the same columns, each part with its name in front of the first."""
    rows = [row for part in parts.values() for row in part if isinstance(row, Row)]
    name = min(max((cell_len(plain(row.job)) for row in rows), default=0), _WIDEST_NAME)
    which = max((len(row.which) for row in rows), default=0)
    drawn = []
    for label, part in parts.items():
        for number, row in enumerate(part):
            line = Text.assemble((f"{label if not number else '':<{_LABEL}}", "bold"))
            if isinstance(row, Row):
                line.append(f"{_padded(row.job, name)}  {row.which:<{which}}  ", "")
            drawn.append(line.append_text(row.rest if isinstance(row, Row) else row))
    return drawn


def _padded(name: str, wide: int) -> str:
    """A name from outside, made harmless, and exactly so wide."""
    shown = plain(name)
    return set_cell_size(shown, wide) if cell_len(shown) <= wide else set_cell_size(shown, wide - 1) + "…"


def _attempt(one: Running, now: Micros) -> Row:
    lease = one.lease
    rest = Text(f"{_rough(now - one.started_at):<9}  attempt {lease.attempt}")
    if one.progress is not None:
        rest.append("  ").append_text(_progress(one.progress))
    return Row(lease.record.job.name, f"run {lease.run_id}", rest)


def _progress(progress: Progress) -> Text:
    if not progress.of:
        return Text(f"{progress.done:g} done")
    full = min(_BAR, max(0, int(_BAR * progress.done / progress.of)))
    bar = Text.assemble(("━" * full, "green"), ("─" * (_BAR - full), "dim"))
    return bar.append(f"  {progress.done:g} of {progress.of:g}", "")


def _ended(finish: Finish, word: str) -> Row:
    lease = finish.lease
    line = Text.assemble((f"{word:<9}", _TONES.get(word, "")))
    if finish.started_at:
        late, took = finish.started_at - lease.due_at, finish.ended_at - finish.started_at
        line.append(f"  +{length(max(0, late))} late, {'in' if word == 'succeeded' else 'after'} {length(took)}", "")
    why = finish.verdict.error or finish.verdict.reason
    if why and word != "succeeded":
        line.append(f": {plain(why)}", "")
    return Row(lease.record.job.name, f"run {lease.run_id}", line)


def _rough(micros: Micros) -> str:
    """A length of time that is looked at while it changes.

    >>> _rough(3_240_000), _rough(42_300_000), _rough(3_700_000_000)
    ('3.2 s', '42 s', '1 h 1 m')
    """
    micros = max(0, micros)
    if micros < 10 * SECOND:
        return f"{micros / SECOND:.1f} s"
    return f"{micros // SECOND} s" if micros < 60 * SECOND else length(micros)
