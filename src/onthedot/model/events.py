"""The events of a node: one small value for each thing that happens, and the list of subscribers.

Subscribers in `Events` are called on the engine's thread, one after the other, and must be quick. A program's own
subscribers read from mailboxes, on threads of their own (`observe/event_delivery.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.model.run import Lease, Progress, RunRecord
from onthedot.model.verdict import Finish, Verdict


class NodeJoined(NamedTuple):
    """This process is registered, under a new incarnation."""

    node_id: str
    incarnation: str
    registered_at: Micros


class NodeLeft(NamedTuple):
    """This node has left the cluster. `abandoned` attempts were still running. `unwritten` ones had ended, but the
    store did not record their outcomes in time."""

    node_id: str
    abandoned: int
    unwritten: int = 0


class NodeFenced(NamedTuple):
    """This incarnation's lease ended while the process lived. Other nodes now own its attempts."""

    node_id: str
    incarnation: str
    lost: int


class NodeCutOff(NamedTuple):
    """The store did not answer before the node's own deadline. So the node stopped its attempts."""

    node_id: str
    incarnation: str
    stopped: int


class ClockOff(NamedTuple):
    """This machine's clock is `offset` ahead of the store's. Runs still start on time, but log times are wrong."""

    node_id: str
    offset: Micros
    uncertainty: Micros


class ClockStepped(NamedTuple):
    """The store's clock has jumped by `ahead`. Planning waits until two more readings agree."""

    ahead: Micros


class NodeLate(NamedTuple):
    """Another node has missed two heartbeats. When its lease ends, other nodes take over its runs."""

    node_id: str
    incarnation: str
    lease_until: Micros


class NodeBack(NamedTuple):
    """A late node has sent a heartbeat again."""

    node_id: str
    incarnation: str


class NodeDraining(NamedTuple):
    """A user has asked this node to take no more work, or to take work again."""

    node_id: str
    draining: bool


class RunsPlaced(NamedTuple):
    """The leader has assigned `placed` runs to workers. It has found no worker yet for `waiting` runs."""

    placed: int
    waiting: int


class TermWon(NamedTuple):
    """This node was elected leader: it plans from now on."""

    shard: int
    number: int


class TermEnded(NamedTuple):
    """This node is no longer leader."""

    shard: int
    number: int


class JobPut(NamedTuple):
    """A definition was stored at start. `change` tells if the job was created, changed or unchanged."""

    job: str
    change: str
    revision: int
    planned: int
    withdrawn: int
    namespace: str = "default"
    paused: bool = False  # the job starts when it is resumed


class JobResumed(NamedTuple):
    """A pause has ended. The event has the number of slots that became runs, of skipped slots, and of released runs."""

    job: str
    slots: int
    skipped: int
    released: int


class RunsPlanned(NamedTuple):
    """Slots of a schedule became runs."""

    job: str
    schedule_id: str
    runs: int
    first: Micros
    last: Micros


class RunsBackfilled(NamedTuple):
    """A backfill submits runs for past slots: `runs` so far, out of the total."""

    job: str
    runs: int
    of: int


class RunsReplayed(NamedTuple):
    """Dead letters are run again: `runs` so far, out of the total."""

    runs: int
    of: int


class SlotsSkipped(NamedTuple):
    """Slots of a schedule will not run."""

    job: str
    schedule_id: str
    slots: int
    first: Micros
    last: Micros
    reason: str
    namespace: str = "default"


class AttemptStarted(NamedTuple):
    """An attempt has started: user code runs."""

    lease: Lease
    started_at: Micros


class RunProgressed(NamedTuple):
    """A handler has reported progress. The latest report is sent about once a second."""

    lease: Lease
    progress: Progress


class AttemptEnded(NamedTuple):
    """An attempt has ended, and the store has recorded its verdict."""

    finish: Finish


class LeaseLost(NamedTuple):
    """A verdict was refused, because the run has another owner by now. Nothing was changed."""

    finish: Finish


class RunRecovered(NamedTuple):
    """A run was recovered from a dead node."""

    lease: Lease
    verdict: Verdict


class RunMissed(NamedTuple):
    """A slot was too late to run, and was skipped."""

    run: RunRecord


class RunBlocked(NamedTuple):
    """A due run waits for a gate that another run holds."""

    lease: Lease
    gate: str
    holder: int


class RunDelayed(NamedTuple):
    """A due run came faster than its rate allows. It starts at the instant that the rate gave it."""

    lease: Lease
    gate: str
    until: Micros


class RunSkipped(NamedTuple):
    """A due slot was skipped: an earlier run of the job had not ended (`overlap`), or after an outage a newer slot was
    due as well (`missed`, `replaced`)."""

    lease: Lease
    gate: str
    holder: int  # the run that caused it; 0: a newer slot that was not planned yet
    reason: str = "overlap"


class GatesRecounted(NamedTuple):
    """Runs waited at gates that were open. The regular check has released `freed` of them."""

    freed: int


class HistoryPruned(NamedTuple):
    """Old finished runs, ranges of skipped slots and ended nodes were removed. The runs and slots are still counted."""

    runs: int
    skips: int
    nodes: int


class OutputNotKept(NamedTuple):
    """The output store failed. The output of the attempt waits in the spool, and the node tries again. If `run_id` is
    0, the node failed to delete the output of removed runs."""

    run_id: int
    attempt: int
    error: str
    again_in: Micros


class OutputsLost(NamedTuple):
    """The output store was unavailable until the spool was full. The output of the attempts that waited longest was
    dropped."""

    attempts: int
    bytes: int


class OutputsPruned(NamedTuple):
    """The output of removed runs was deleted."""

    runs: int


class AuditSealed(NamedTuple):
    """Entries of the audit trail were sealed. The number and the hash of the seal reveal later changes to these and
    earlier entries. Outside the store, only this event has both."""

    entries: int
    seal: int
    hash: str


class KeyExpires(NamedTuple):
    """An API key expires within two weeks. Create another key before that. Each node that becomes leader reports it
    once."""

    key_id: str
    name: str
    expires_at: Micros


class ZombieHandler(NamedTuple):
    """A handler still runs although its attempt is over: the attempt timed out, was cancelled, or lost its lease. The
    node ignores the handler's result. The seat stays taken until the handler ends. This node now has `zombies` such
    seats."""

    lease: Lease
    zombies: int


class CommittedBefore(NamedTuple):
    """An attempt failed after it committed its transaction. The attempt counts as succeeded. `said` is the ignored
    outcome."""

    lease: Lease
    said: str


class HookFailed(NamedTuple):
    """A hook, or a retry's `when`, raised an error or returned an unusable answer. The record does not change."""

    job: str
    hook: str
    error: str


class StoreTrouble(NamedTuple):
    """The store failed. The service tries again."""

    service: str
    error: str
    again_in: Micros


class StoreLost(NamedTuple):
    """The store's server was restarted or replaced, and has lost acknowledged writes. It still has `kept` of them. Runs
    of the last moments may run again, or be lost. Every node that saw the writes reports it."""

    kept: int
    acknowledged: int
    epoch: int


class DrainBegun(NamedTuple):
    """The node drains: it takes no new work. The attempts in `run_ids` have not ended yet. `armed` runs are due in a
    moment, and may still start on this node."""

    running: int
    run_ids: tuple[int, ...] = ()
    armed: int = 0


class EventsLeftOut(NamedTuple):
    """A subscriber was too slow, and missed this many events. Only that subscriber receives this event."""

    events: int


Event = (
    NodeJoined
    | NodeLeft
    | NodeFenced
    | NodeCutOff
    | ClockOff
    | ClockStepped
    | NodeLate
    | NodeBack
    | NodeDraining
    | RunsPlaced
    | TermWon
    | TermEnded
    | JobPut
    | JobResumed
    | RunsPlanned
    | RunsBackfilled
    | RunsReplayed
    | SlotsSkipped
    | AttemptStarted
    | RunProgressed
    | AttemptEnded
    | LeaseLost
    | RunRecovered
    | RunMissed
    | RunBlocked
    | RunDelayed
    | RunSkipped
    | GatesRecounted
    | HistoryPruned
    | OutputNotKept
    | OutputsLost
    | OutputsPruned
    | AuditSealed
    | KeyExpires
    | ZombieHandler
    | CommittedBefore
    | HookFailed
    | StoreTrouble
    | StoreLost
    | DrainBegun
    | EventsLeftOut
)

Subscriber = Callable[[Event], None]


class Events:
    """The subscribers of a node. `wanted` is False if there are none, so that frequent operations need not build
    events."""

    def __init__(self, subscribers: Sequence[Subscriber] = ()) -> None:
        self._subscribers = list(subscribers)

    @property
    def wanted(self) -> bool:
        return bool(self._subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)
