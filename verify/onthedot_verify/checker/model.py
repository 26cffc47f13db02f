"""`History`: the events sorted into runs, jobs, incarnations and pauses, with the state that follows from them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from onthedot.model.job import Guarantee, Job
from onthedot.model.job_json import decode
from onthedot.model.run import RunState
from onthedot_verify.checker.history import Event

_OF_RUNS = frozenset(
    {
        *("submit", "follow", "withdraw", "reserve", "arm", "block", "hold", "release", "finish", "reap", "expire"),
        *("cancel", "prune", "aside"),
    }
)
_TERMINAL = frozenset({"succeeded", "dead", "cancelled", "lost", "skipped"})

Key = tuple[int, str, int, str]
"""(job id, trigger, slot, target)"""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a run after its events so far."""

    name: str = RunState.SCHEDULED
    lease: str = ""
    inc: str = ""
    until: int = 0  # when the reservation lapses
    since: int = 0  # the line of the reservation
    rev: int = 0  # the revision of its job then
    attempt: int = 0
    failures: int = 0
    recoveries: int = 0
    ended: tuple[tuple[str, str], ...] = ()  # (lease, outcome) of the attempts that ended
    armed_at: int = 0

    @property
    def terminal(self) -> bool:
        return self.name in _TERMINAL or self.name == "withdrawn"


@dataclass(slots=True)
class Run:
    """One run with its events."""

    id: int
    key: Key | None = None
    events: list[Event] = field(default_factory=list)
    starts: list[Event] = field(default_factory=list)
    ends: list[Event] = field(default_factory=list)
    _steps: list[tuple[Event, State, State]] = field(default_factory=list)

    def steps(self) -> list[tuple[Event, State, State]]:
        """Each event with the state before and after it."""
        if not self._steps:
            state = State()
            for event in self.events:
                after = follow(state, event)
                self._steps.append((event, state, after))
                state = after
        return self._steps

    @property
    def last(self) -> State:
        return self.steps()[-1][2] if self.events else State()


def follow(state: State, event: Event) -> State:
    """The state after an event, if the event was right. An event after the end changes nothing: S8 reports it."""
    if state.terminal:
        return state
    match event["ev"]:
        case "reserve":
            return replace(
                state, name=RunState.RESERVED, lease=event["lease"], inc=event["inc"], until=event["until"],
                since=event["seq"], rev=event.get("rev", 0),
            )  # fmt: skip
        case "arm":
            if state.name == RunState.RUNNING and state.lease == event["lease"]:
                return state  # a repetition
            return replace(
                state, name=RunState.RUNNING, lease=event["lease"], inc=event["inc"], attempt=event["attempt"],
                armed_at=event["t_store"],
            )  # fmt: skip
        case "release" | "block" | "hold":
            mine = event.get("ok", True) and state.name == RunState.RESERVED
            mine = mine and state.lease == event.get("lease", state.lease)
            return replace(state, name=RunState.SCHEDULED, lease="", inc="") if mine else state
        case "finish" | "reap":
            return _ended(state, event) if event["ok"] and holds(state, event) else state
        case "expire":
            return replace(state, name=event["state"], lease="", inc="")
        case "cancel" if event["kind"] == "cancelled":
            return replace(state, name=RunState.CANCELLED, lease="", inc="")
        case "withdraw":
            return replace(state, name="withdrawn", lease="", inc="")
    return state


def holds(state: State, event: Event) -> bool:
    """Whether the run is running under the event's lease."""
    return state.name == RunState.RUNNING and state.lease == event["lease"]


def _ended(state: State, event: Event) -> State:
    return replace(
        state,
        name=event["state"],
        lease="",
        inc="",
        failures=state.failures + event["failed"],
        recoveries=state.recoveries + event["recovered"],
        ended=(*state.ended, (event["lease"], event["outcome"])),
    )


@dataclass(slots=True)
class Incarnation:
    """The lease of one boot of a node: its renewals. `ended` is set if it has left or was reaped."""

    beats: list[tuple[int, int]] = field(default_factory=list)  # (store time, ttl)
    seqs: list[int] = field(default_factory=list)
    ended: tuple[int, int] | None = None  # (seq, store time)

    def until(self, seq: int) -> int:
        """The end of the lease just before `seq`, by the store's clock."""
        if self.ended is not None and self.ended[0] < seq:
            return self.ended[1]
        place = bisect_right(self.seqs, seq - 1) - 1
        return -1 if place < 0 else sum(self.beats[place])


@dataclass(slots=True)
class Pause:
    """From when to when a job was paused: seq and store time. Without an end, it is still paused or was deleted."""

    began: tuple[int, int]
    ended: tuple[int, int] | None = None


class History:
    """A history, sorted by what rules need. A rule is a function of it that yields (line, description).

    `events` has all lines, `by` the lines of each kind, and `runs` each run with its events, by id. A run's key comes
    from its first event that has one. Lines are counted from 1. "Just before `seq`" is what the writer of that line
    saw.

    >>> from onthedot.model.job import Call, Job
    >>> from onthedot.model.job_json import encode
    >>> from onthedot_verify.checker import History, Journal
    >>> now = 0
    >>> journal = Journal(lambda: (now, now, "a#1"))
    >>> journal.add("store", "edit", job_id=1, rev=1, definition=encode(Job(name="mail", task=Call(handler="mail"))))
    >>> journal.add("store", "submit", run=7, job_id=1, trigger="submit:x", slot=0)
    >>> journal.add("store", "pause", job_id=1)
    >>> journal.add("store", "stop_queue", queue="default")
    >>> now = 5_000_000
    >>> journal.add("store", "resume", job_id=1)
    >>> journal.add("store", "open_queue", queue="default")
    >>> history = History(journal.events)
    >>> def mail_is_never_paused(history):
    ...     for event in history.by["pause"]:
    ...         yield event["seq"], f"job {event['job_id']} was paused"
    >>> list(mail_is_never_paused(history))
    [(3, 'job 1 was paused')]
    """

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.runs: dict[int, Run] = {}
        self.incarnations: defaultdict[str, Incarnation] = defaultdict(Incarnation)
        self.revisions: defaultdict[int, list[tuple[int, int, Job]]] = defaultdict(list)  # (seq, revision, job)
        self.pauses: defaultdict[int, list[Pause]] = defaultdict(list)
        self.stops: defaultdict[str, list[Pause]] = defaultdict(list)  # of queues
        self.joined: dict[str, Event] = {}  # by incarnation
        self.drains: defaultdict[str, list[tuple[int, int | None]]] = defaultdict(list)  # (seq, until), by incarnation
        self.deleted: dict[int, int] = {}  # job id → seq
        self.pruned: dict[int, int] = {}  # run → seq
        self.by: defaultdict[str, list[Event]] = defaultdict(list)
        for event in events:
            self.by[event["ev"]].append(event)
            self._index(event)

    def _index(self, event: Event) -> None:
        ev = event["ev"]
        if ev in _OF_RUNS and event.get("kind") != "unknown":
            run = self.runs.setdefault(event["run"], Run(event["run"]))
            run.events.append(event)
            if run.key is None and "trigger" in event:
                run.key = key_of(event)
        elif ev in ("start", "end"):
            run = self.runs.setdefault(event["run"], Run(event["run"]))
            (run.starts if ev == "start" else run.ends).append(event)
        elif ev in ("join", "beat"):
            incarnation = self.incarnations[event["inc"]]
            incarnation.beats.append((event["t_store"], event["ttl"]))
            incarnation.seqs.append(event["seq"])
        elif ev == "edit":
            self.revisions[event["job_id"]].append((event["seq"], event["rev"], decode(event["definition"])))
        elif ev in ("pause", "resume", "delete"):
            self._control(event)
        elif ev in ("stop_queue", "open_queue", "drain"):
            self._place(event)
        if ev == "join":
            self.joined.setdefault(event["inc"], event)
        if ev == "prune":
            self.pruned[event["run"]] = event["seq"]
        if ev == "leave" or (ev == "reap" and event["ok"]):
            incarnation = self.incarnations[event["inc"]]
            incarnation.ended = incarnation.ended or (event["seq"], event["t_store"])

    def _place(self, event: Event) -> None:
        """Note that a queue is stopped or opened, or that a node drains or does not."""
        if event["ev"] == "drain":
            drains = self.drains[event["inc"]]
            is_open = bool(drains) and drains[-1][1] is None
            if event["draining"] and not is_open:
                drains.append((event["seq"], None))
            elif not event["draining"] and is_open:
                drains[-1] = drains[-1][0], event["t_store"]
            return
        stops, here = self.stops[event["queue"]], (event["seq"], event["t_store"])
        stopped = bool(stops) and stops[-1].ended is None
        if event["ev"] == "stop_queue" and not stopped:
            stops.append(Pause(here))
        elif event["ev"] == "open_queue" and stopped:
            stops[-1].ended = here

    def _control(self, event: Event) -> None:
        job_id, here = event["job_id"], (event["seq"], event["t_store"])
        open_pause = self.pauses[job_id][-1] if self.pauses[job_id] else None
        if open_pause is not None and open_pause.ended is None:
            if event["ev"] == "resume":
                open_pause.ended = here
        elif event["ev"] == "pause":
            self.pauses[job_id].append(Pause(here))
        if event["ev"] == "delete":
            self.deleted[job_id] = event["seq"]

    # ── queries of rules ─────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def settings(self) -> dict[str, int]:
        """The settings of the cluster, with lengths of time in µs.

        >>> history.settings.get("node_ttl", 0)  # this history has none
        0
        """
        begin = self.by["begin"]
        return dict(begin[0]["settings"]) if begin else {}

    @cached_property
    def stepped(self) -> bool:
        """Whether the store's clock was set. Then its instants before and after cannot be compared.

        >>> history.stepped
        False
        """
        return any(is_step(event) for event in self.by["nemesis"])

    @cached_property
    def healed(self) -> int | None:
        """When the faults were over, by the store's clock, or None if never. Limits of liveness rules count from there.

        >>> history.healed is None
        True
        """
        return self.by["heal"][0]["t_store"] if self.by["heal"] else None

    @cached_property
    def end(self) -> int:
        """The store time of the last line.

        >>> history.end
        5000000
        """
        return int(self.events[-1]["t_store"]) if self.events else 0

    @cached_property
    def busy(self) -> set[int]:
        """The runs that asked early and got the answer that their gate is closed.

        >>> 7 in history.busy
        False
        """
        return {event["run"] for event in self.by["busy"]}

    def job(self, job_id: int, seq: int) -> tuple[int, Job] | None:
        """The revision and the definition just before `seq`.

        >>> revision, job = history.job(1, seq=2)
        >>> revision, job.name, history.job(1, seq=1)
        (1, 'mail', None)
        """
        for at, revision, job in reversed(self.revisions[job_id]):
            if at < seq:
                return revision, job
        return None

    def job_of(self, run: Run) -> Job | None:
        """The newest definition of a run's job.

        >>> history.job_of(history.runs[7]).queue
        'default'
        """
        found = None if run.key is None else self.revisions.get(run.key[0])
        return found[-1][2] if found else None

    def at_most_once(self, run: Run) -> bool:
        """Whether each revision of the run's job promises at most one start.

        >>> history.at_most_once(history.runs[7])  # the default is at least once
        False
        """
        jobs = [] if run.key is None else [job for _, _, job in self.revisions.get(run.key[0], [])]
        return bool(jobs) and all(job.guarantee is Guarantee.AT_MOST_ONCE for job in jobs)

    def paused(self, job_id: int, seq: int) -> bool:
        """Whether a job was paused just before `seq`.

        >>> [event["ev"] for event in history.events if history.paused(1, event["seq"])]
        ['stop_queue', 'resume']
        """
        return any(
            pause.began[0] < seq and (pause.ended is None or pause.ended[0] >= seq) for pause in self.pauses[job_id]
        )

    def resumed_at(self, job_id: int, seq: int) -> int:
        """When a job was last resumed before `seq`, by the store's clock; 0: never.

        >>> history.resumed_at(1, seq=5), history.resumed_at(1, seq=6)
        (0, 5000000)
        """
        ends = [pause.ended[1] for pause in self.pauses[job_id] if pause.ended is not None and pause.ended[0] < seq]
        return max(ends, default=0)

    def stopped(self, queue: str, seq: int) -> bool:
        """Whether a queue was paused just before `seq`.

        >>> history.stopped("default", seq=5), history.stopped("mail", seq=5)
        (True, False)
        """
        stops = self.stops.get(queue, ())
        return any(stop.began[0] < seq and (stop.ended is None or stop.ended[0] >= seq) for stop in stops)

    def opened_at(self, run: Run, seq: int) -> int:
        """When, before `seq`, the run's queue was last resumed, or its target node undrained; 0: never. A node learns
        of the latter with a beat, and looks for work with its next poll.

        >>> history.opened_at(history.runs[7], seq=6), history.opened_at(history.runs[7], seq=7)
        (0, 5000000)
        """
        job = self.job_of(run)
        ends = [stop.ended for stop in self.stops.get(job.queue, ())] if job is not None else []
        found = [end[1] for end in ends if end is not None and end[0] < seq]
        target = run.key[3] if run.key else ""
        if target:
            mine = [inc for inc, joined in self.joined.items() if joined.get("node_id") == target]
            learnt = self.settings.get("beat_every", 0) + self.settings.get("poll_every", 0)
            found += [until + learnt for inc in mine for _, until in self.drains[inc] if until is not None]
        return max(found, default=0)

    def is_kept(self, run: Run, seq: int) -> bool:
        """Whether no node could get a run just before `seq`: its job or queue is paused, or its target node drains.

        >>> [history.is_kept(history.runs[7], seq) for seq in (3, 4, 6, 7)]
        [False, True, True, False]
        """
        job = self.job_of(run)
        if run.key is None or job is None:
            return False
        mine = [inc for inc, joined in self.joined.items() if run.key[3] and joined.get("node_id") == run.key[3]]
        drained = any(until is None for inc in mine for _, until in self.drains[inc])
        return drained or self.paused(run.key[0], seq) or self.stopped(job.queue, seq)

    @cached_property
    def moves(self) -> list[tuple[Event, Run, State, State]]:
        """Each event of each run with the state before and after it, in the order of the history.

        >>> [(event["seq"], run.id) for event, run, before, after in history.moves]
        [(2, 7)]
        """
        found = [(event, run, before, after) for run, event, before, after in self.steps()]
        found.sort(key=lambda move: move[0]["seq"])
        return found

    def steps(self) -> Iterator[tuple[Run, Event, State, State]]:
        """Each event of each run with the state before and after it, run by run.

        >>> [f"run {run.id}: {event['ev']}, then {after.name}" for run, event, before, after in history.steps()]
        ['run 7: submit, then scheduled']
        """
        for run in self.runs.values():
            for event, before, after in run.steps():
                yield run, event, before, after


def is_step(fault: Event) -> bool:
    """Whether the fault set the store's clock."""
    return bool(fault["kind"] == "step")


def key_of(event: Event) -> Key:
    """The key in an event."""
    return event["job_id"], event["trigger"], event["slot"], event.get("target", "")
