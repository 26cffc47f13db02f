"""Named fault points: places where a test can kill or freeze the process, to prove what survives.

Set `OTD_CRASHPOINT=name` (or `name:3` for the third time) and the process kills itself with SIGKILL there: no
`finally`, no flush. Set `OTD_STOPPOINT` in the same way and it stops itself with SIGSTOP, all threads at once, until it
gets SIGCONT: like a laptop that sleeps, or a container that is throttled. If neither is set, a point costs one call to
an empty function.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS: dict[str, str] = {
    "put_job.in_transaction": "a job is stored, its schedules are not",
    "plan.before_write": "slots are computed, nothing is written",
    "plan.in_transaction": "runs are inserted, the watermark has not moved",
    "plan.after_write": "runs are planned, nobody has been told",
    "reserve.in_transaction": "runs are chosen, the reservation is not committed",
    "reserve.after_write": "runs are reserved, the worker does not know yet",
    "arm.before_write": "reservations are about to be armed",
    "arm.after_write": "attempts are armed, no user code has begun",
    "attempt.before_call": "the attempt has a seat, the handler has not been called",
    "attempt.after_call": "the handler has returned, its outcome is known to nobody",
    "finish.before_write": "outcomes are judged, nothing is written",
    "finish.in_transaction": "runs are gone from the live table, not yet in history",
    "finish.followed": "a run has ended and the runs after it are inserted, nothing is committed",
    "finish.after_write": "verdicts are committed, the worker does not know yet",
    "commit.before_write": "a handler's effects are written, its run has not moved",
    "commit.in_transaction": "effects and the end of the run are written, nothing is committed",
    "commit.after_write": "effects and success are committed, the worker does not know yet",
    "beat.before_write": "the lease is about to be renewed",
    "reap.before_write": "orphans are found, nothing is written",
    "reap.in_transaction": "an orphan's attempt is recorded, its run has not moved",
    "expire.before_write": "missed runs are about to be skipped",
    "expire.in_transaction": "missed runs are found, none of them is skipped yet",
    "prune.before_write": "a step of pruning is about to be written",
    "stop.draining": "a stopping node waits for its attempts",
    "stop.before_leave": "all attempts have ended, the node has not left",
}
"""Every point and what is true there. Tests kill a process at each of them."""

TRANSACTIONAL = tuple(name for name in POINTS if name.startswith("commit."))
"""The points that only jobs under exactly_once reach, on a store with transactions."""

VARIABLE = "OTD_CRASHPOINT"
STOP_VARIABLE = "OTD_STOPPOINT"

Point = Callable[[str], None]


def _never(name: str) -> None:
    """No fault is wanted."""


def _at(variable: str, act: Callable[[], object]) -> Point:
    """Do something when the wanted point is reached for the wanted time, and only then."""
    wanted = os.environ[variable]
    target, _, count = wanted.partition(":")
    if target not in POINTS or not (count or "1").isdigit():
        raise SystemExit(f"{variable}: expected one of {', '.join(POINTS)} (and :N), got {wanted!r}")
    left = int(count or "1")

    def reach(name: str) -> None:
        nonlocal left
        if name == target:
            left -= 1
            if left == 0:
                act()

    return reach


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    signal.raise_signal(signal.SIGSTOP)  # to this thread, which stops here; all other threads stop with it


def _chosen() -> Point:
    """Return the fault that the environment requests, or none."""
    wanted = [_at(name, act) for name, act in ((VARIABLE, _crash), (STOP_VARIABLE, _stop)) if os.environ.get(name)]

    def reach_all(name: str) -> None:
        for reach in wanted:
            reach(name)

    return reach_all if len(wanted) > 1 else wanted[0] if wanted else _never


point: Point = _chosen()
"""Call as `fault_points.point("plan.before_write")`."""
