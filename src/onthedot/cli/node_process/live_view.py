"""Draws the live view of `onthedot up`, from events. Log lines scroll above it.

     ────────────────────────────────────────────────────────────────────────────────────────────
     onthedot  node web-1 · leads (term 3) · shop.db
     next      heartbeat  20:54:20  in 3.2 s
     running   nap        run 41    1.4 s      attempt 2  ━━━━━━────  60 of 100
     finished  heartbeat  run 40    succeeded  +1.2 ms late, in 3.1 ms
     so far    12 started, 11 succeeded, 1 failed, 0 dead, 0 skipped; late p50 0.8 ms, p99 2.9 ms
     Ctrl-C drains and stops; a second one stops now

`NextStarts` computes the next starts, `View` holds the state and makes the lines, `LivePrinter` puts them on the
terminal. Nothing here calls the store or the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta, tzinfo
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from onthedot.cli.node_process.event_printer import Printer
from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.model.duration import micros
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
from onthedot.model.job import FixedDelay, Job, JobRecord, JobState, Schedule
from onthedot.model.run import Lease, Progress, RunState, is_slot
from onthedot.model.verdict import Finish
from onthedot.observe.counters import Counters, verdict_word
from onthedot.observe.formats import count, length, moment, plain
from onthedot.schedules import due_of, next_after

_MOST_AT_ONCE = 100
"""How many schedules one call of `next` computes; later calls do the rest."""
_MOST_RETRIES = 1_000


class NextStart(NamedTuple):
    """One run that will start."""

    at: Micros
    job: str
    note: str = ""  # the kind of start, unless it is a slot


@dataclass(order=True)
class _Line:
    """The next slot of one schedule, in a heap."""

    at: Micros
    slot: Micros = field(compare=False)
    job: Job = field(compare=False)
    schedule: Schedule = field(compare=False)


class NextStarts:
    """The next slot of every schedule of the active jobs, and the retries that this node has decided.

    Slots that were moved or skipped by hand are not known here: only the store has them.
    """

    def __init__(self, jobs: Iterable[Job], now: Micros) -> None:
        self._origin = now
        self._heap: list[_Line] = []
        self._ends: dict[tuple[str, str], Micros] = {}  # when a run of the job ended last
        self._silent: set[tuple[str, str]] = set()  # jobs that are not active
        self._retries: dict[int, NextStart] = {}
        self._jobs: dict[tuple[str, str], Job] = {}
        for job in jobs:
            self._add(job, now)

    def _add(self, job: Job, now: Micros) -> None:
        self._jobs[_key(job)] = job
        for schedule in job.schedules:
            self._push(job, schedule, now)

    def _push(self, job: Job, schedule: Schedule, after: Micros) -> None:
        slot = next_after(schedule, after, origin=self._origin, last_end=self._ends.get(_key(job)))
        if slot is not None:
            heappush(self._heap, _Line(due_of(job, schedule)(slot), slot, job, schedule))

    def learn(self, records: Iterable[JobRecord], now: Micros, *, complete: bool) -> None:
        """Update from stored jobs: paused, edited and new ones, and deleted ones if the records are complete."""
        found = {_key(record.job): record for record in records}
        self._silent = {key for key, record in found.items() if record.state is not JobState.ACTIVE}
        if complete:
            self._silent |= self._jobs.keys() - found.keys()
        for key, record in found.items():
            if self._jobs.get(key) != record.job:
                self._heap = [line for line in self._heap if _key(line.job) != key]
                self._heap.sort()
                self._add(record.job, now)

    def ended(self, finish: Finish) -> None:
        """Handle the end of an attempt: a retry may follow, or the next slot of a fixed delay."""
        lease, verdict = finish.lease, finish.verdict
        job = lease.record.job
        if verdict.state is RunState.SCHEDULED:
            note = f"run {lease.run_id} again"
            if verdict.failed:
                note = f"{note}, try {lease.failures + 2} of {job.retry.attempts}"
            if len(self._retries) < _MOST_RETRIES:
                self._retries[lease.run_id] = NextStart(verdict.due_at, job.name, note)
            return
        if is_slot(lease.trigger) and any(isinstance(rule, FixedDelay) for rule in job.schedules):
            self._ends[_key(job)] = finish.ended_at
            self._heap = [line for line in self._heap if line.job != job]
            self._heap.sort()
            self._add(job, finish.ended_at)

    def started(self, run_id: int) -> None:
        """Handle the start of a retry."""
        self._retries.pop(run_id, None)

    def next(self, most: int, now: Micros) -> list[NextStart]:
        """Return the first starts after now."""
        for _ in range(_MOST_AT_ONCE):
            if not self._heap or self._heap[0].at > now:
                break
            line = heappop(self._heap)
            if not isinstance(line.schedule, FixedDelay):  # its next slot is known when the run has ended
                self._push(line.job, line.schedule, max(line.slot, now - micros(line.schedule.jitter or timedelta())))
        self._retries = {run_id: retry for run_id, retry in self._retries.items() if retry.at > now}
        lines = nsmallest(most + len(self._silent), self._heap)
        coming = [_slot(line) for line in lines if _key(line.job) not in self._silent and line.at > now]
        return sorted([*coming, *self._retries.values()])[:most]


def _slot(line: _Line) -> NextStart:
    return NextStart(line.at, line.job.name)


def _key(job: Job) -> tuple[str, str]:
    return job.namespace, job.name


_TONES = {
    "succeeded": "green",
    "failed": "yellow",
    "released": "yellow",
    "dead": "bold red",
    "lost": "bold red",
    "refused": "bold red",
    "cancelled": "yellow",
}
_LABEL = 10  # the width of the first column
_WIDEST_NAME = 28
_MOST = {"running": 8, "next": 4, "finished": 4}  # rows of each, where there is room
_BAR = 10


@dataclass(slots=True)
class Running:
    """An attempt that is running."""

    lease: Lease
    started_at: Micros
    progress: Progress | None = None


class Row(NamedTuple):
    """One line about a job: which of its runs or instants, and the rest."""

    job: str
    which: str
    rest: Text


class View:
    """The state of one node, from its events. Used on one thread, except for `stored`."""

    def __init__(
        self, *, store: str, jobs: Sequence[Job], seats: int, grace: Micros, now: Micros, zone: tzinfo | None = None
    ) -> None:
        self.stored: tuple[Iterable[JobRecord], bool] | None = None  # set from another thread; see `NextStarts.learn`
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
        self._asked_to_drain = False  # by `onthedot node drain`
        self._stopping_since: Micros | None = None

    # ── from events ──────────────────────────────────────────────────────────────────────────────────────────

    def heed(self, event: Event, at: Micros) -> None:
        """Update from one event."""
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
                self._running.clear()  # events about the ends of these attempts may have been dropped
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
        """Return whether the view changes without events. It does while attempts run."""
        return bool(self._running)

    # ── to lines ─────────────────────────────────────────────────────────────────────────────────────────────

    def lines(self, width: int, height: int, now: Micros) -> list[Text]:
        """At most `height` lines, at most `width` wide. With few lines it shows less."""
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
        """Return the counts as text. If that is too wide, leave out those that are zero."""
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
        """The line that stays on the terminal at the end."""
        return self._counts()


def _shared(room: int, asked: dict[str, int]) -> dict[str, int]:
    """Return how many rows each part gets. The parts take turns, in their order, until no row is left.

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
    """The rows of all parts in common columns; the name of each part is before its first row."""
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
    """A name without control characters, cut or padded to this width."""
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
    """A length of time, short enough for a value that changes on the screen.

    >>> _rough(3_240_000), _rough(42_300_000), _rough(3_700_000_000)
    ('3.2 s', '42 s', '1 h 1 m')
    """
    micros = max(0, micros)
    if micros < 10 * SECOND:
        return f"{micros / SECOND:.1f} s"
    return f"{micros // SECOND} s" if micros < 60 * SECOND else length(micros)


DRAW_EVERY: Micros = 250 * MILLISECOND
"""Drawing costs some milliseconds of CPU: four times a second is enough."""
LOOK_EVERY: Micros = 1 * SECOND
"""How often it is drawn while nothing runs and no events come."""

_LOG_LINES = 3
"""Lines of the terminal that stay free for the log, at least."""


class LivePrinter:
    """A printer (see `EventPrinter`) that draws the view below its lines."""

    def __init__(self, printer: Printer, view: View, clock: Clock, console: Console | None = None) -> None:
        self._printer = printer
        self._view = view
        self._clock = clock
        self._console = console or Console(highlight=False)
        self._live = Live(
            _Frame(view, clock), console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop"
        )  # fmt: skip
        self._waiting: list[str] = []
        self._drawn_at: Micros | None = None  # on the steady clock

    def of(self, event: Event, at: Micros) -> list[str]:
        self._view.heed(event, at)
        return self._printer.of(event, at)

    def pause(self, now: Micros) -> list[str]:
        return self._printer.pause(now)

    def pause_in(self, now: Micros) -> Micros:
        soon = DRAW_EVERY if self._view.moves or self._waiting else LOOK_EVERY
        wait = 0 if self._drawn_at is None else self._drawn_at + soon - self._clock.steady()
        return max(0, min(wait, self._printer.pause_in(now) or wait))

    def write(self, lines: list[str]) -> None:
        """Show these lines and the view. If the view was drawn a moment ago, wait for the next draw."""
        self._waiting += lines
        now = self._clock.steady()
        if self._drawn_at is not None and now - self._drawn_at < DRAW_EVERY:
            return
        self._draw()

    def close(self) -> None:
        """Show the last lines, and restore the terminal."""
        self._draw()
        self._live.stop()
        self._console.print(self._view.last_words())

    def _draw(self) -> None:
        lines, self._waiting = self._waiting, []
        if not self._live.is_started:
            self._live.start()
        if lines:
            self._console.print(Text.from_ansi("\n".join(lines)), soft_wrap=True)  # draws the view, too
        else:
            self._live.refresh()
        self._drawn_at = self._clock.steady()


class _Frame:
    """Renders the view at the moment of drawing."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = console.size
        yield from self._view.lines(width, max(1, height - 1 - _LOG_LINES), self._clock.now())
