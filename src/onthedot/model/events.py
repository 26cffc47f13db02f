"""What a node tells about itself: one small value per thing that happened, and who wants to hear of it.

Whoever is in `Events` is called on the engine's thread, one after the other, and must be quick. A program's own
subscribers are not: they read from mailboxes, on threads of their own (`node/event_delivery.py`).
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
    """This process has handed over and gone. `abandoned` attempts were still running; `unwritten` had ended, and the
    store did not take their outcomes in time."""

    node_id: str
    abandoned: int
    unwritten: int = 0


class NodeFenced(NamedTuple):
    """This incarnation's lease ended while it lived; its attempts now belong to others."""

    node_id: str
    incarnation: str
    lost: int


class NodeCutOff(NamedTuple):
    """The store did not answer until the node's own deadline: its attempts were stopped before others take them."""

    node_id: str
    incarnation: str
    stopped: int


class ClockOff(NamedTuple):
    """This machine's clock is `offset` ahead of the store's. Runs are on time all the same; its logs are not."""

    node_id: str
    offset: Micros
    uncertainty: Micros


class ClockStepped(NamedTuple):
    """The store's clock has jumped `ahead`; nothing is planned until it has been seen twice more."""

    ahead: Micros


class NodeLate(NamedTuple):
    """Another node has missed two beats; its runs are taken from it when its lease ends, then."""

    node_id: str
    incarnation: str
    lease_until: Micros


class NodeBack(NamedTuple):
    """A node that was late has beaten again."""

    node_id: str
    incarnation: str


class NodeDraining(NamedTuple):
    """Somebody has asked this node to take no more work, or to go on."""

    node_id: str
    draining: bool


class RunsPlaced(NamedTuple):
    """The leader has chosen workers for runs; for some it found none yet."""

    placed: int
    waiting: int


class TermWon(NamedTuple):
    """This node plans from now on."""

    shard: int
    number: int


class TermEnded(NamedTuple):
    """This node no longer plans."""

    shard: int
    number: int


class JobPut(NamedTuple):
    """A definition was stored at start: created, changed or unchanged."""

    job: str
    change: str
    revision: int
    planned: int
    withdrawn: int
    namespace: str = "default"
    paused: bool = False  # it starts when it is resumed


class JobResumed(NamedTuple):
    """A pause is over: slots that became runs, slots that were skipped, held runs that are free."""

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
    """Runs for slots that have passed were asked for: `runs` so far, of so many in all."""

    job: str
    runs: int
    of: int


class RunsReplayed(NamedTuple):
    """Dead letters were asked for again: `runs` so far, of so many in all."""

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
    """User code began."""

    lease: Lease
    started_at: Micros


class RunProgressed(NamedTuple):
    """A handler has told how much is done; the newest word, every second or so."""

    lease: Lease
    progress: Progress


class AttemptEnded(NamedTuple):
    """A verdict was accepted by the store."""

    finish: Finish


class LeaseLost(NamedTuple):
    """A verdict was refused: the run belongs to somebody else by now, and nothing was changed."""

    finish: Finish


class RunRecovered(NamedTuple):
    """A run was taken from a dead node."""

    lease: Lease
    verdict: Verdict


class RunMissed(NamedTuple):
    """A slot came too late to run, and was skipped."""

    run: RunRecord


class RunBlocked(NamedTuple):
    """A due run waits at a gate that another run holds."""

    lease: Lease
    gate: str
    holder: int


class RunDelayed(NamedTuple):
    """A due run came faster than its rate allows: it starts at the instant that the rate has given it."""

    lease: Lease
    gate: str
    until: Micros


class RunSkipped(NamedTuple):
    """A due slot was skipped: an earlier run of the job had not ended (`overlap`), or a newer slot was due as well
    after an outage (`missed`, `replaced`)."""

    lease: Lease
    gate: str
    holder: int  # the run that was in the way; 0: a newer slot, which was not planned yet
    reason: str = "overlap"


class GatesRecounted(NamedTuple):
    """Runs waited at gates that were open: the safety net had to free them."""

    freed: int


class HistoryPruned(NamedTuple):
    """Finished runs, ranges of skipped slots and ended nodes were forgotten; the runs and slots are counted still."""

    runs: int
    skips: int
    nodes: int


class OutputNotKept(NamedTuple):
    """The output store could not be used; what an attempt has left waits in the spool, and is tried again. Run 0: the
    output of runs that have gone could not be removed."""

    run_id: int
    attempt: int
    error: str
    again_in: Micros


class OutputsLost(NamedTuple):
    """The output store was away for so long that the spool was full: the output of so many attempts, those that had
    waited longest, was given up."""

    attempts: int
    bytes: int


class OutputsPruned(NamedTuple):
    """The output of so many runs was removed, because the runs have gone."""

    runs: int


class AuditSealed(NamedTuple):
    """So many entries of the audit were put under a seal. Its number and hash are enough to find out later whether any
    of them, or one before them, was changed: this is the one place outside of the store where they are."""

    entries: int
    seal: int
    hash: str


class KeyExpires(NamedTuple):
    """An API key will not be good any more in two weeks or less: make another one before. Told once by each node that
    leads meanwhile."""

    key_id: str
    name: str
    expires_at: Micros


class ZombieHandler(NamedTuple):
    """A handler still runs although its attempt is over: it timed out, was cancelled, or lost its lease. Nobody listens
    to it any more; its seat stays taken until it ends. `zombies` such seats are taken on this node now."""

    lease: Lease
    zombies: int


class CommittedBefore(NamedTuple):
    """An attempt came to something else after it had committed its transaction: it has succeeded all the same. `said`
    is what does not count."""

    lease: Lease
    said: str


class HookFailed(NamedTuple):
    """A hook, or a retry's `when`, raised an error or gave a useless answer. What was recorded stays as it is."""

    job: str
    hook: str
    error: str


class StoreTrouble(NamedTuple):
    """The store could not be used; the service tries again."""

    service: str
    error: str
    again_in: Micros


class StoreLost(NamedTuple):
    """The store's server was started again, or is another one, and has lost writes that it had acknowledged: `kept` of
    them are there. Runs of the last moments may run again, or be gone. Told by every node that had seen them."""

    kept: int
    acknowledged: int
    epoch: int


class DrainBegun(NamedTuple):
    """The node takes no new work. So many attempts are still to end, at these runs; one that was just being armed may
    still start."""

    running: int
    run_ids: tuple[int, ...] = ()


class EventsLeftOut(NamedTuple):
    """A subscriber was too slow: so many events were left out here. Told to that subscriber only."""

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
    """Who listens. `wanted` is False while nobody does, so that the hot path need not build events."""

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
