"""Self-fencing: a node that cannot reach the store stops its attempts before other nodes take them over.

A reaper elsewhere takes a node's runs when its lease has ended. At the local deadline, a margin before that, the node
stops its attempts by itself, so that no run is executed twice at the same time. A process that was frozen past its
deadline could not do that. When it wakes, it waits for one beat: if no node has taken its runs, they continue.
"""

from __future__ import annotations

from collections.abc import Callable

from onthedot.clock import SECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.model.events import Events, NodeCutOff
from onthedot.node.heartbeat import Membership

ONE_BEAT: Micros = 1 * SECOND
"""How long a node that overslept its deadline waits for the answer to its first beat."""

StopAttempts = Callable[[str], int]
"""Stops the attempts of an incarnation; returns how many there were."""


class SelfFencing(Service):
    """Stops attempts when no beat was answered by the local deadline."""

    name = "self-fencing"

    def __init__(self, membership: Membership, clock: Clock, events: Events, stop_attempts: StopAttempts) -> None:
        super().__init__()
        self._membership = membership
        self._clock = clock
        self._events = events
        self._stop_attempts = stop_attempts
        self._woke_at: Micros | None = None

    async def tick(self, now: Micros) -> Micros | None:
        """Sleep until the deadline; if no beat has moved it by then, stop the running attempts."""
        del now
        steady = self._clock.steady()
        late = steady - self._membership.deadline
        if late < 0:
            self._woke_at = None
            return -late
        if late >= ONE_BEAT and self._woke_at is None:  # we slept: the timer should have rung long ago
            self._woke_at = steady
        if self._woke_at is not None and steady < self._woke_at + ONE_BEAT:
            return ONE_BEAT
        stopped = self._stop_attempts(self._membership.incarnation)
        if stopped:
            self._events.emit(NodeCutOff(self._membership.node_id, self._membership.incarnation, stopped))
        self._woke_at = 0  # these are stopped; the next round stops only attempts that start later
        return ONE_BEAT
