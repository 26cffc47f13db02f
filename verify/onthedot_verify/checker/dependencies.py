"""Jobs that run after others: S26 (what follows an end, once, and in the same write), L8 (nothing is forgotten)."""

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
"""Which ends count: said here once more, since the checker takes nobody's word for it."""

_OF_ONE_WRITE = frozenset({"finish", "reap", "expire", "cancel", "delete", "follow"})
"""The ends that a call made are told first, then what follows them; anything else is another write."""


@dataclass(slots=True)
class _Child:
    """A job that runs after others, and what it has of them."""

    namespace: str
    after: After
    noted: dict[str, int] = field(default_factory=dict)  # the newest run that counts, by parent


@dataclass(slots=True)
class _Debt:
    """A run that an end has called for. `paid` is the run that came of it."""

    child_id: int
    parent: int
    end: Event
    paid: int | None = None


class _Books:
    """The sets of all jobs that run after others, moved along by the history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._children: dict[int, _Child] = {}
        self._due: list[_Debt] = []  # to be paid before the next write
        self._ends = {
            event["seq"]: run
            for event, run, before, after in history.moves
            if after.terminal and not before.terminal and after.name != "withdrawn"
        }
        self.debts: dict[tuple[int, int], _Debt] = {}  # by child, and the run that it follows

    def findings(self) -> Iterator[Finding]:
        for event in self._history.events:
            if event["ev"] not in _OF_ONE_WRITE:
                yield from self._unpaid(event)
            match event["ev"]:
                case "edit":
                    self._edit(event)
                case "delete":
                    self._children.pop(event["job_id"], None)
                case "follow":
                    yield from self._follow(event)
            if event["seq"] in self._ends:
                self._end(event, self._ends[event["seq"]])

    def left_unpaid(self) -> list[_Debt]:
        """Go through the whole history, and tell what is owed at its end; what is wrong on the way, S26 tells."""
        deque(self.findings(), maxlen=0)
        return [debt for debt in self.debts.values() if debt.paid is None]

    def _edit(self, event: Event) -> None:
        """What is noted of parents that stay is kept, unless other runs count from now on."""
        [job] = [job for seq, _, job in self._history.revisions[event["job_id"]] if seq == event["seq"]]
        old = self._children.pop(event["job_id"], None)
        if job.after is None:
            return
        new = self._children[event["job_id"]] = _Child(job.namespace, job.after)
        if old is not None and (old.after.any, old.after.on) == (new.after.any, new.after.on):
            new.noted = {name: run for name, run in old.noted.items() if name in new.after.parents}

    def _end(self, event: Event, run: Run) -> None:
        """A run has ended: note it for those that it counts for."""
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
                debt = self.debts[child_id, run.id] = _Debt(child_id, run.id, event)
                self._due.append(debt)

    def _follow(self, event: Event) -> Iterator[Finding]:
        parent = int(event["trigger"].removeprefix(AFTER_PREFIX))
        debt = self.debts.get((event["job_id"], parent))
        if debt is None:
            run = self._history.runs.get(parent)
            state = "unknown" if run is None else _state_at(run, event["seq"])
            yield event["seq"], f"run {event['run']} follows run {parent}, which is {state} and does not call for it"
        elif debt.paid is not None:
            yield event["seq"], f"run {event['run']} and run {debt.paid} both follow run {parent}"
        else:
            debt.paid = event["run"]
            if (event["slot"], event["due"]) != (debt.end["ended"], debt.end["ended"]):
                ended = debt.end["ended"]
                yield event["seq"], f"run {event['run']} is due at {event['due']}; run {parent} ended at {ended}"

    def _unpaid(self, event: Event) -> Iterator[Finding]:
        for debt in self._due:
            if debt.paid is None:
                yield event["seq"], f"{_told(self._history, debt)}: nothing follows it in the same write"
        self._due = []


def _state_at(run: Run, seq: int) -> str:
    states = [after.name for event, _, after in run.steps() if event["seq"] < seq]
    return states[-1] if states else "scheduled"


def _told(history: History, debt: _Debt) -> str:
    name = history.revisions[debt.child_id][-1][2].name
    return f"job {name} is to run after run {debt.parent}, which ended at line {debt.end['seq']}"


def s26_followers(history: History) -> Iterator[Finding]:
    """A job that runs after others gets a run in the write that completes its set, or with `any` in each that ends a
    run which counts: one, due at that end. It gets none for any other end, and none before it."""
    yield from _Books(history).findings()


def l8_followed(history: History) -> Iterator[Finding]:
    """When the faults are over, nothing is left that was to run after others and never came to be a run. That the run
    is then executed is asked by L1, as of every other."""
    if history.healed is None:
        return
    for debt in _Books(history).left_unpaid():
        yield history.events[-1]["seq"], f"{_told(history, debt)}, and never did"
