"""onthedot: every job, on the dot, once."""

import importlib
from typing import TYPE_CHECKING, Any

from onthedot.after import After
from onthedot.errors import (
    ArgumentsError,
    DefinitionError,
    DependencyCycle,
    DuplicateJob,
    KeyConflict,
    LeaseLost,
    OnTheDotError,
    RunFailed,
    ScheduleError,
    SlotSettled,
    StateError,
    StoreError,
    StoreUnavailable,
    UnknownHandler,
    UnknownJob,
    UnknownRun,
    UnknownSlot,
)
from onthedot.job import CatchUp, Guarantee, Job, Limit, Overlap, Rate, Retry, Sleep
from onthedot.retention import Retention
from onthedot.schedules import at, cron, describe, every, gap, in_, parse
from onthedot.settings import Settings

if TYPE_CHECKING:
    from onthedot.blocking import BlockingScheduler
    from onthedot.define.calls import BoundCall, JobFunction
    from onthedot.observe.counters import Counters
    from onthedot.run import RunState
    from onthedot.scheduler import Scheduler
    from onthedot.tasks.context import Context
    from onthedot.tasks.hooks import Ended
    from onthedot.verbs import Run, Verbs

__version__ = "0.1.0"

# Loaded when they are asked for: they bring asyncio along, and the command line's --help should not wait for it
# (90 ms of CPU instead of 140, measured).
_LATER = {
    "BlockingScheduler": "onthedot.blocking",
    "BoundCall": "onthedot.define.calls",
    "Context": "onthedot.tasks.context",
    "Counters": "onthedot.observe.counters",
    "Ended": "onthedot.tasks.hooks",
    "JobFunction": "onthedot.define.calls",
    "Run": "onthedot.verbs",
    "RunState": "onthedot.run",
    "Scheduler": "onthedot.scheduler",
    "Verbs": "onthedot.verbs",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


__all__ = [
    "After",
    "ArgumentsError",
    "BlockingScheduler",
    "BoundCall",
    "CatchUp",
    "Context",
    "Counters",
    "DefinitionError",
    "DependencyCycle",
    "DuplicateJob",
    "Ended",
    "Guarantee",
    "Job",
    "JobFunction",
    "KeyConflict",
    "LeaseLost",
    "Limit",
    "OnTheDotError",
    "Overlap",
    "Rate",
    "Retention",
    "Retry",
    "Run",
    "RunFailed",
    "RunState",
    "ScheduleError",
    "Scheduler",
    "Settings",
    "Sleep",
    "SlotSettled",
    "StateError",
    "StoreError",
    "StoreUnavailable",
    "UnknownHandler",
    "UnknownJob",
    "UnknownRun",
    "UnknownSlot",
    "Verbs",
    "at",
    "cron",
    "describe",
    "every",
    "gap",
    "in_",
    "parse",
]
