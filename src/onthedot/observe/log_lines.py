"""Turns events into log lines for people. All wording of log lines is here.

    20:54:19.001  started    heartbeat       run 41     +1.2 ms late
    20:54:19.004  finished   heartbeat       run 41     succeeded in 3.1 ms
    └ when        └ what     └ which job     └ which run

A planner's passes and a burst of missed runs become one summary: `Lines` holds them back until the events pause, which
its caller reports.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Literal, NamedTuple

from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.duration import format_duration
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    AuditSealed,
    ClockOff,
    ClockStepped,
    CommittedBefore,
    DrainBegun,
    Event,
    EventsLeftOut,
    GatesRecounted,
    HistoryPruned,
    HookFailed,
    JobPut,
    JobResumed,
    KeyExpires,
    LeaseLost,
    NodeBack,
    NodeCutOff,
    NodeDraining,
    NodeFenced,
    NodeJoined,
    NodeLate,
    NodeLeft,
    OutputNotKept,
    OutputsLost,
    OutputsPruned,
    RunBlocked,
    RunDelayed,
    RunMissed,
    RunProgressed,
    RunRecovered,
    RunsBackfilled,
    RunSkipped,
    RunsPlaced,
    RunsPlanned,
    RunsReplayed,
    SlotsSkipped,
    StoreLost,
    StoreTrouble,
    TermEnded,
    TermWon,
    ZombieHandler,
)
from onthedot.model.job import Guarantee
from onthedot.model.run import Lease, RunRecord, RunState, is_slot, why_skipped
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.observe.formats import count, doing, length, moment, plain, span, time_of_day

Tone = Literal["plain", "quiet", "good", "warning", "bad"]
Paint = Callable[[str, Tone], str]

_PLANNED_EVERY = 10 * SECOND  # a planner passes every few seconds; a line for each pass would be too many
_PAUSE = 50 * MILLISECOND
_WIDEST_NAME = 32


class Line(NamedTuple):
    """One line: when, what in one word, the rest, and how it should look."""

    at: Micros
    word: str
    text: str
    tone: Tone = "plain"


def format_line(line: Line, *, zone: tzinfo | None = None, paint: Paint | None = None) -> str:
    """The line as text. `zone` None is this machine's; `paint` colours the word."""
    word = f"{line.word:<9}"
    shown = word if paint is None else paint(word, line.tone)
    return f"{time_of_day(line.at, zone)}  {shown}  {line.text}".rstrip()


class Lines:
    """Makes the lines of events. `late_after` and `grace` are the node's settings; `names` set a column's width."""

    def __init__(
        self, *, late_after: Micros, grace: Micros, names: tuple[str, ...] = (), zone: tzinfo | None = None
    ) -> None:
        self._late_after = late_after
        self._grace = grace
        self._zone = zone
        self._width = min(max([14, *map(len, names)]), _WIDEST_NAME)
        self._joined_at: Micros = 0
        self._missed: dict[str, list[RunRecord]] = {}
        self._missed_at: Micros = 0
        self._planned: dict[str, int] = {}
        self._planned_until: Micros = 0
        self._planned_due: Micros = 0  # when the next summary may be shown

    # ── one event, or a pause ────────────────────────────────────────────────────────────────────────────────

    def of(self, event: Event, at: Micros) -> list[Line]:
        """The lines for an event that happened at `at`; none yet for events in a summary."""
        if isinstance(event, RunMissed):
            self._missed.setdefault(event.run.job, []).append(event.run)
            self._missed_at = at
            return []
        if isinstance(event, RunsPlanned):
            self._planned[event.job] = self._planned.get(event.job, 0) + event.runs
            self._planned_until = max(self._planned_until, event.last)
            self._planned_due = max(self._planned_due, at + _PAUSE)
            return []
        if isinstance(event, RunProgressed):  # a line every second for each attempt would drown all others
            return []
        return [*self._missed_lines(), self._line(event, at)]

    def pause(self, now: Micros) -> list[Line]:
        """The summaries that are due when no event has come for a moment."""
        lines = self._missed_lines()
        if self._planned and now >= self._planned_due:
            lines.append(self._planned_line(now))
        return lines

    def pause_in(self, now: Micros) -> Micros | None:
        """After how long without events `pause` returns lines; None: never."""
        if self._missed:
            return _PAUSE
        return max(_PAUSE, self._planned_due - now) if self._planned else None

    def _planned_line(self, now: Micros) -> Line:
        runs = count(sum(self._planned.values()), "run")
        [*names] = self._planned
        jobs = plain(names[0]) if len(names) == 1 else count(len(names), "job")
        until = self._moment(self._planned_until, now)
        self._planned, self._planned_until, self._planned_due = {}, 0, now + _PLANNED_EVERY
        return Line(now, "planned", f"{runs} of {jobs} until {until}", "quiet")

    def _missed_lines(self) -> list[Line]:
        missed, self._missed = self._missed, {}
        return [self._missed_line(job, runs) for job, runs in missed.items()]

    def _missed_line(self, job: str, runs: list[RunRecord]) -> Line:
        at, first = self._missed_at, runs[0]
        if len(runs) == 1:
            text = f"{self._about(job, first.id)}due {self._moment(first.due_at, at)}, too late to run: skipped"
        else:
            due = [run.due_at for run in runs]
            when = span(min(due), max(due), at, self._zone)
            text = f"{self._name(job)}{count(len(runs), 'run')} due {when}, too late to run: skipped"
        return Line(at, "missed", text, "warning")

    # ── wording ──────────────────────────────────────────────────────────────────────────────────────────

    def _line(self, event: Event, at: Micros) -> Line:
        match event:
            case AttemptStarted(lease, started_at):
                return self._started(lease, started_at)
            case AttemptEnded(finish):
                return self._ended(finish)
            case LeaseLost(finish):
                about = self._about(finish.lease.record.job.name, finish.lease.run_id)
                said = f"{doing(finish.lease.record.job.task)} {finish.verdict.outcome} too late"
                who = "another node has this run"
                if finish.lease.record.job.guarantee is Guarantee.EXACTLY_ONCE:
                    who += ", or its own transaction is committed"
                return Line(at, "refused", f"{about}{said}: {who}; nothing was changed", "bad")
            case RunRecovered(lease, verdict):
                return self._recovered(lease, verdict, at)
            case RunsBackfilled(job, runs, of):
                return Line(at, "backfill", f"{self._name(job)}{runs} of {count(of, 'run')} asked for", "quiet")
            case RunsReplayed(runs, of):
                return Line(at, "replay", f"{runs} of {count(of, 'dead letter')} asked for again", "quiet")
            case SlotsSkipped():
                slots = f"{count(event.slots, 'slot')} {span(event.first, event.last, at, self._zone)}"
                text = f"{self._name(event.job)}{slots} will not run: {plain(event.reason)}"
                return Line(at, "skipped", text, "warning")
            case RunBlocked(lease, _, holder):
                about = self._about(lease.record.job.name, lease.run_id)
                return Line(at, "waits", f"{about}for run {holder} to end", "quiet")
            case RunDelayed(lease, _, until):
                about = self._about(lease.record.job.name, lease.run_id)
                return Line(at, "waits", f"{about}for its rate, until {self._moment(until, at)}", "quiet")
            case RunSkipped(lease, _, holder, reason):
                about = self._about(lease.record.job.name, lease.run_id)
                return Line(at, "skipped", f"{about}{why_skipped(reason, holder)}", "warning")
            case ZombieHandler(lease, zombies):
                about = self._about(lease.record.job.name, lease.run_id)
                still = f"{doing(lease.record.job.task)} does not stop; its seat stays taken until it ends"
                return Line(at, "zombie", f"{about}{still} ({count(zombies, 'seat')} lost so)", "bad")
            case EventsLeftOut(events):
                return Line(at, "left out", f"{count(events, 'event')}: they were not read fast enough", "warning")
            case CommittedBefore(lease, said):
                about = self._about(lease.record.job.name, lease.run_id)
                kept = "its transaction is committed, and it has succeeded; what came after does not count"
                return Line(at, "kept", f"{about}{kept}: {plain(said)}", "warning")
            case _:
                return self._node_line(event, at)

    def _node_line(self, event: Event, at: Micros) -> Line:
        match event:
            case NodeJoined():
                self._joined_at = self._joined_at or event.registered_at
                return Line(at, "joined", f"node {plain(event.node_id)}", "quiet")
            case NodeFenced():
                ended = f"node {plain(event.node_id)}: its lease ended while it lived"
                return Line(at, "fenced", f"{ended}; {count(event.lost, 'attempt')} given up, joining anew", "bad")
            case NodeCutOff():
                cut = f"node {plain(event.node_id)}: the store did not answer before its lease could pass on"
                return Line(at, "cut off", f"{cut}; {count(event.stopped, 'attempt')} stopped", "bad")
            case ClockOff():
                way = "ahead of" if event.offset > 0 else "behind"
                off = f"this machine's clock is {length(abs(event.offset))} {way} the store's"
                return Line(at, "clock", f"{off}; runs start on time, its logs do not tell the time; set it", "warning")
            case ClockStepped():
                return Line(
                    at, "clock", f"it has jumped {length(event.ahead)} ahead; planning waits a moment", "warning"
                )
            case NodeLate():
                gone = f"its lease ends at {self._moment(event.lease_until, at)}"
                return Line(at, "silent", f"node {plain(event.node_id)} has missed two beats; {gone}", "warning")
            case NodeBack():
                return Line(at, "back", f"node {plain(event.node_id)} beats again", "quiet")
            case NodeDraining(draining=True):
                return Line(at, "drains", f"node {plain(event.node_id)} was asked to take no more work", "warning")
            case NodeDraining():
                return Line(
                    at, "drains", f"node {plain(event.node_id)} was asked to go on: it takes work again", "quiet"
                )
            case RunsPlaced():
                left = f"; {count(event.waiting, 'run')} found none yet" if event.waiting else ""
                return Line(
                    at, "placed", f"{count(event.placed, 'run')} with workers that the leader chose{left}", "quiet"
                )
            case NodeLeft(abandoned=0, unwritten=0):
                return Line(at, "left", f"node {plain(event.node_id)}", "quiet")
            case NodeLeft():
                lost = [f"{count(event.abandoned, 'attempt')} abandoned"] if event.abandoned else []
                lost += [f"{count(event.unwritten, 'outcome')} not stored"] if event.unwritten else []
                return Line(at, "left", f"node {plain(event.node_id)}; {', '.join(lost)}, to be recovered", "bad")
            case TermWon():
                return Line(at, "leads", f"this node plans from now on (term {event.number})", "quiet")
            case TermEnded():
                return Line(at, "term", f"no longer leader (term {event.number} ended)", "quiet")
            case JobPut():
                runs = f"; {count(event.planned, 'run')} planned, {event.withdrawn} withdrawn"
                text = f"{self._name(event.job)}{event.change}, revision {event.revision}{runs}"
                return Line(at, "job", text, "quiet")
            case JobResumed():
                fate = f"{count(event.skipped, 'slot')} of the pause skipped; {count(event.released, 'held run')} free"
                return Line(at, "resumed", f"{self._name(event.job)}its pause is over; {fate}", "quiet")
            case HookFailed():
                text = f"{self._name(event.job)}{event.hook}: {plain(event.error)}; what was recorded stays"
                return Line(at, "hook", text, "bad")
            case StoreTrouble():
                again = f"trying again in {length(event.again_in)}"
                return Line(at, "trouble", f"{event.service}: {plain(event.error)}; {again}", "bad")
            case StoreLost():
                return Line(at, "lost", _loss(event), "bad")
            case DrainBegun():
                return Line(at, "draining", self._draining(event))
            case _:
                return self._upkeep_line(event, at)

    def _upkeep_line(self, event: Event, at: Micros) -> Line:
        match event:
            case GatesRecounted():
                freed = f"{count(event.freed, 'run')} waited at an open gate and is free now; please report this"
                return Line(at, "gates", freed, "bad")
            case HistoryPruned():
                parts = ((event.runs, "finished run"), (event.skips, "skipped range"), (event.nodes, "ended node"))
                text = ", ".join(count(number, what) for number, what in parts if number)
                return Line(at, "pruned", f"{text}; the counts are kept", "quiet")
            case OutputNotKept():
                return self._not_kept(event, at)
            case OutputsLost():
                lost = f"of {count(event.attempts, 'attempt')} is lost ({event.bytes >> 20} MiB): the spool is full"
                return Line(at, "output", lost, "bad")
            case OutputsPruned():
                return Line(at, "pruned", f"the output of {count(event.runs, 'run')} that had gone", "quiet")
            case AuditSealed():
                text = f"{count(event.entries, 'change')} in the audit; head {event.seal}:{event.hash}"
                return Line(at, "sealed", text, "quiet")
            case KeyExpires():
                text = f"{plain(event.key_id)} ({plain(event.name)}) expires {self._moment(event.expires_at, at)}"
                return Line(at, "key", f"{text}; 'onthedot keys create {plain(event.name)}' makes another", "warning")
            case _:
                raise AssertionError(f"no words for {event!r}")

    def _not_kept(self, event: OutputNotKept, at: Micros) -> Line:
        what = f"of run {event.run_id}, attempt {event.attempt}, is not kept yet"
        if not event.run_id:
            what = "of runs that have gone is not removed yet"
        text = f"{what}: {plain(event.error)}; trying again in {length(event.again_in)}"
        return Line(at, "output", text, "warning")

    def _draining(self, event: DrainBegun) -> str:
        taken = "no new work is taken"
        if event.armed:
            taken += f", but {count(event.armed, 'armed run')} may still start"
        if not event.running:
            return taken if event.armed else f"{taken}; nothing is running"
        waits = f"waiting for {count(event.running, 'attempt')} to end, up to {format_duration(self._grace)}"
        return f"{taken}; {waits}; another Ctrl-C stops now"

    def _started(self, lease: Lease, started_at: Micros) -> Line:
        about = self._about(lease.record.job.name, lease.run_id)
        late = started_at - lease.due_at  # a slot that its rate has delayed is not late
        first_try = not lease.failures and not lease.recoveries
        if first_try and is_slot(lease.trigger) and late > self._late_after:
            due = self._moment(lease.due_at, started_at)
            return Line(started_at, "caught up", f"{about}due {due}, {length(late)} late", "warning")
        notes = [f"{'+' if started_at >= lease.due_at else ''}{length(started_at - lease.due_at)} late"]
        if lease.failures:
            notes.append(f"try {lease.failures + 1} of {lease.record.job.retry.attempts}")
        if lease.recoveries:
            notes.append(f"recovery {lease.recoveries} of {lease.record.job.max_recoveries}")
        if first_try and lease.due_at < self._joined_at:
            notes.append("due before this node started")
        return Line(started_at, "started", about + ", ".join(notes))

    def _ended(self, finish: Finish) -> Line:
        lease, verdict, at = finish.lease, finish.verdict, finish.ended_at
        about = self._about(lease.record.job.name, lease.run_id)
        took = f"after {length(at - finish.started_at)}" if finish.started_at else "before it began"
        why = plain(verdict.error or verdict.reason)
        if verdict.state is RunState.SUCCEEDED:
            return Line(at, "finished", f"{about}succeeded in {length(at - finish.started_at)}", "good")
        if verdict.state is RunState.SCHEDULED and verdict.failed:
            word = "timed out" if verdict.outcome is OutcomeKind.TIMED_OUT else "failed"
            tries = f"try {lease.failures + 2} of {lease.record.job.retry.attempts}"
            again = f"again in {length(verdict.due_at - at)} ({tries})"
            return Line(at, word, f"{about}{again}; {took}: {why}", "warning")
        if verdict.state is RunState.SCHEDULED:
            return Line(at, "cut short", f"{about}to be run again; {took}: {why}", "warning")
        reason = f"{plain(verdict.reason)}; " if verdict.error and verdict.reason else ""
        return Line(at, str(verdict.state), f"{about}{reason}{took}: {why}", "bad")

    def _recovered(self, lease: Lease, verdict: Verdict, at: Micros) -> Line:
        about = self._about(lease.record.job.name, lease.run_id)
        if verdict.state is RunState.SCHEDULED:
            number = f"recovery {lease.recoveries + 1} of {lease.record.job.max_recoveries}"
            return Line(at, "recovered", f"{about}its node is gone; runs again now ({number})", "warning")
        fate = f"its node is gone: {plain(verdict.reason)}; it does not run again"
        return Line(at, str(verdict.state), f"{about}{fate}", "bad")

    # ── columns ──────────────────────────────────────────────────────────────────────────────────────────────

    def _name(self, job: str) -> str:
        return f"{plain(job):<{self._width}}  "

    def _about(self, job: str, run_id: int) -> str:
        return f"{self._name(job)}{f'run {run_id}':<9}  "

    def _moment(self, instant: Micros, now: Micros) -> str:
        return moment(instant, now, self._zone)


def _loss(event: StoreLost) -> str:
    there = f"{event.kept} of {event.acknowledged} are there (epoch {event.epoch})"
    return f"the store has lost acknowledged writes: {there}; runs of the last moments may run again, or be gone"
