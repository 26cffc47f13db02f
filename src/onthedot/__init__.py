"""onthedot: every job, on the dot, once."""

from onthedot.errors import (
    ArgumentsError,
    DefinitionError,
    DuplicateJob,
    OnTheDotError,
    ScheduleError,
    StateError,
    StoreError,
    StoreUnavailable,
    UnknownHandler,
    UnknownJob,
)
from onthedot.job import CatchUp, Guarantee, Job, Retry, Sleep
from onthedot.scheduler import Scheduler
from onthedot.schedules import at, cron, describe, every, gap, in_, parse
from onthedot.settings import Settings
from onthedot.tasks.context import Context

__version__ = "0.1.0"

__all__ = [
    "ArgumentsError",
    "CatchUp",
    "Context",
    "DefinitionError",
    "DuplicateJob",
    "Guarantee",
    "Job",
    "OnTheDotError",
    "Retry",
    "ScheduleError",
    "Scheduler",
    "Settings",
    "Sleep",
    "StateError",
    "StoreError",
    "StoreUnavailable",
    "UnknownHandler",
    "UnknownJob",
    "at",
    "cron",
    "describe",
    "every",
    "gap",
    "in_",
    "parse",
]
