"""Whether a run may be armed, and what its holder is answered, from what a SQL store has of it."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.run import EDITED, ArmAnswer, Armed, Delayed, Gone, Lease


class Stored(NamedTuple):
    """What the store has of a run that is to be armed; the revision is the job's current one."""

    lease_id: str | None
    state: str
    fence: int
    attempt: int
    armed_at: Micros
    revision: int
    active: bool = True  # the job, and its queue
    granted_by: str | None = None
    granted_at: Micros | None = None

    @classmethod
    def armed(cls, lease: Lease, fence: int, now: Micros) -> Stored:
        """What it has when the run is armed."""
        return cls(lease.lease_id, "running", fence, lease.attempt, now, lease.record.revision)


def may_arm(lease: Lease, stored: Stored | None) -> bool:
    """Whether the run is reserved under this lease, and its job as the lease was given with."""
    if stored is None or stored.lease_id != lease.lease_id or stored.state != "reserved":
        return False
    return stored.revision == lease.record.revision and bool(stored.active)


def arm_answer(lease: Lease, stored: Stored | None) -> ArmAnswer:
    """What its holder is answered, after all that may be armed is. Asked again, it is the same."""
    if stored is None or stored.lease_id != lease.lease_id:
        return Gone("taken or withdrawn")
    if stored.state == "scheduled" and stored.granted_by is not None and stored.granted_at is not None:
        return Delayed(stored.granted_by, stored.granted_at)
    if stored.state != "running":
        return Gone(EDITED if stored.active else "paused")
    return Armed(stored.fence, stored.attempt, stored.armed_at)
