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
    OnTheDotError,
    ScheduleError,
    SlotSettled,
    StateError,
    StoreError,
    StoreUnavailable,
    UnknownHandler,
    UnknownJob,
    UnknownSlot,
)
from onthedot.job import CatchUp, Guarantee, Job, Limit, Overlap, Rate, Retry, Sleep
from onthedot.retention import Retention
from onthedot.schedules import at, cron, describe, every, gap, in_, parse
from onthedot.settings import Settings

if TYPE_CHECKING:
    from onthedot.scheduler import Scheduler
    from onthedot.tasks.context import Context

__version__ = "0.1.0"

# Loaded when they are asked for: they bring asyncio along, and the command line's --help should not wait for it
# (90 ms of CPU instead of 140, measured).
_LATER = {"Context": "onthedot.tasks.context", "Scheduler": "onthedot.scheduler"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


__all__ = [
    "After",
    "ArgumentsError",
    "CatchUp",
    "Context",
    "DefinitionError",
    "DependencyCycle",
    "DuplicateJob",
    "Guarantee",
    "Job",
    "KeyConflict",
    "Limit",
    "OnTheDotError",
    "Overlap",
    "Rate",
    "Retention",
    "Retry",
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
    "UnknownSlot",
    "at",
    "cron",
    "describe",
    "every",
    "gap",
    "in_",
    "parse",
]
