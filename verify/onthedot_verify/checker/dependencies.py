"""Rules for jobs that run after others: S26 (one run for each complete set, in the same write), L8 (no run is
missing)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from onthedot.model.after import After
from onthedot.model.run import AFTER_PREFIX
from onthedot_verify.checker.history import Event
from onthedot_verify.checker.model import History, Run

Finding = tuple[int, str]

_FAILED = {"dead", "lost"}
_COUNTS = {"success": {"succeeded"}, "failure": _FAILED, "either": _FAILED | {"succeeded"}}
"""Which ends count for each mode. Written again here, because the checker shares no code with the store."""

_OF_ONE_WRITE = frozenset({"finish", "reap", "expire", "cancel", "delete", "follow"})
"""In the history of one call, ends come first, then the runs that follow them. Other events are another write."""


@dataclass(slots=True)
class _Child:
    """A job that runs after others, and the parents' runs that are noted for it."""

    namespace: str
    after: After
    noted: dict[str, int] = field(default_factory=dict)  # the newest run that counts, by parent


@dataclass(slots=True)
class _Expected:
    """A run that must follow an end. `run` is the one that did."""

    child_id: int
    parent: int
    end: Event
    run: int | None = None


class _Sets:
    """The sets of parents of all jobs that run after others, updated event by event."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._children: dict[int, _Child] = {}
        self._due: list[_Expected] = []  # must follow before the next write
        self._ends = {
            event["seq"]: run
            for event, run, before, after in history.moves
            if after.terminal and not before.terminal and after.name != "withdrawn"
        }
        self.expected: dict[tuple[int, int], _Expected] = {}  # by child, and the run that it follows

    def findings(self) -> Iterator[Finding]:
        for event in self._history.events:
            if event["ev"] not in _OF_ONE_WRITE:
                yield from self._check_missing(event)
            match event["ev"]:
                case "edit":
                    self._edit(event)
                case "delete":
                    self._children.pop(event["job_id"], None)
                case "follow":
                    yield from self._follow(event)
            if event["seq"] in self._ends:
                self._end(event, self._ends[event["seq"]])

    def missing(self) -> list[_Expected]:
        """Read the whole history. Returns the runs that never followed. S26 reports the other violations."""
        deque(self.findings(), maxlen=0)
        return [one for one in self.expected.values() if one.run is None]

    def _edit(self, event: Event) -> None:
        """Keep the noted runs of parents that stay, unless other ends count from now on."""
        [job] = [job for seq, _, job in self._history.revisions[event["job_id"]] if seq == event["seq"]]
        old = self._children.pop(event["job_id"], None)
        if job.after is None:
            return
        new = self._children[event["job_id"]] = _Child(job.namespace, job.after)
        if old is not None and (old.after.any, old.after.on) == (new.after.any, new.after.on):
            new.noted = {name: run for name, run in old.noted.items() if name in new.after.parents}

    def _end(self, event: Event, run: Run) -> None:
        """Note a run that has ended for the jobs that it counts for."""
        job = self._history.job_of(run)
        if job is None:
            return
        for child_id, child in self._children.items():
            after = child.after
            if child.namespace != job.namespace or job.name not in after.parents:
                continue
            if run.last.name not in _COUNTS[after.on]:
                continue
            child.noted[job.name] = run.id
            if after.any or set(child.noted) >= set(after.parents):
                child.noted = {}
                one = self.expected[child_id, run.id] = _Expected(child_id, run.id, event)
                self._due.append(one)

    def _follow(self, event: Event) -> Iterator[Finding]:
        parent = int(event["trigger"].removeprefix(AFTER_PREFIX))
        one = self.expected.get((event["job_id"], parent))
        if one is None:
            run = self._history.runs.get(parent)
            state = "unknown" if run is None else _state_at(run, event["seq"])
            yield event["seq"], f"run {event['run']} follows run {parent}, which is {state} and completes no set"
        elif one.run is not None:
            yield event["seq"], f"run {event['run']} and run {one.run} both follow run {parent}"
        else:
            one.run = event["run"]
            if (event["slot"], event["due"]) != (one.end["ended"], one.end["ended"]):
                ended = one.end["ended"]
                yield event["seq"], f"run {event['run']} is due at {event['due']}; run {parent} ended at {ended}"

    def _check_missing(self, event: Event) -> Iterator[Finding]:
        for one in self._due:
            if one.run is None:
                yield event["seq"], f"{_describe(self._history, one)}, but no run follows in the same write"
        self._due = []


def _state_at(run: Run, seq: int) -> str:
    states = [after.name for event, _, after in run.steps() if event["seq"] < seq]
    return states[-1] if states else "scheduled"


def _describe(history: History, one: _Expected) -> str:
    name = history.revisions[one.child_id][-1][2].name
    return f"job {name} is to run after run {one.parent}, which ended at line {one.end['seq']}"


def s26_followers(history: History) -> Iterator[Finding]:
    """The write that completes a set gives the child one run, due at that end. With `any`, each end that counts does.
    No other end gives a run, and none comes earlier."""
    yield from _Sets(history).findings()


def l8_followers(history: History) -> Iterator[Finding]:
    """After the faults, each run that had to follow an end exists. L1 asks whether it is executed."""
    if history.healed is None:
        return
    for one in _Sets(history).missing():
        yield history.events[-1]["seq"], f"{_describe(history, one)}, but it has no run"
