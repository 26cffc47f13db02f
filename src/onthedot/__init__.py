"""onthedot: every job, on the dot, once."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onthedot.after import After
    from onthedot.blocking import BlockingScheduler
    from onthedot.client.blocking import BlockingClient
    from onthedot.client.client import Client
    from onthedot.define.calls import BoundCall, JobFunction
    from onthedot.errors import (
        AccessDenied,
        ArgumentsError,
        DefinitionError,
        DependencyCycle,
        DuplicateJob,
        KeyConflict,
        KeyRefused,
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
    from onthedot.job import CatchUp, Guarantee, Job, Limit, Overlap, Pause, Rate, Retry, Sleep
    from onthedot.observe.counters import Counters
    from onthedot.observe.metrics import NodeMetrics
    from onthedot.retention import Retention
    from onthedot.run import RunState
    from onthedot.scheduler import Scheduler
    from onthedot.schedules import at, cron, describe, every, gap, in_, parse
    from onthedot.settings import Settings
    from onthedot.task import Bounds, Command, Container, Http, Mount, Param, Source, Step, Steps
    from onthedot.tasks.context import Context
    from onthedot.tasks.hooks import Ended
    from onthedot.tasks.registry import BadArguments
    from onthedot.verbs import Run, Verbs

__version__ = "0.1.0"

# Each is loaded when it is asked for. Who asks for one schedule or for `--help` does not pay for the engine, nor who
# imports onthedot at the top of a large program for anything (measured: 4 ms of CPU instead of 80).
_HOME = {
    "AccessDenied": "onthedot.errors",
    "After": "onthedot.after",
    "ArgumentsError": "onthedot.errors",
    "BadArguments": "onthedot.tasks.registry",
    "BlockingClient": "onthedot.client.blocking",
    "BlockingScheduler": "onthedot.blocking",
    "BoundCall": "onthedot.define.calls",
    "Bounds": "onthedot.task",
    "CatchUp": "onthedot.job",
    "Client": "onthedot.client.client",
    "Command": "onthedot.task",
    "Container": "onthedot.task",
    "Context": "onthedot.tasks.context",
    "Counters": "onthedot.observe.counters",
    "DefinitionError": "onthedot.errors",
    "DependencyCycle": "onthedot.errors",
    "DuplicateJob": "onthedot.errors",
    "Ended": "onthedot.tasks.hooks",
    "Guarantee": "onthedot.job",
    "Http": "onthedot.task",
    "Job": "onthedot.job",
    "JobFunction": "onthedot.define.calls",
    "KeyConflict": "onthedot.errors",
    "KeyRefused": "onthedot.errors",
    "LeaseLost": "onthedot.errors",
    "Limit": "onthedot.job",
    "Mount": "onthedot.task",
    "NodeMetrics": "onthedot.observe.metrics",
    "OnTheDotError": "onthedot.errors",
    "Overlap": "onthedot.job",
    "Param": "onthedot.task",
    "Pause": "onthedot.job",
    "Rate": "onthedot.job",
    "Retention": "onthedot.retention",
    "Retry": "onthedot.job",
    "Run": "onthedot.verbs",
    "RunFailed": "onthedot.errors",
    "RunState": "onthedot.run",
    "ScheduleError": "onthedot.errors",
    "Scheduler": "onthedot.scheduler",
    "Settings": "onthedot.settings",
    "Sleep": "onthedot.job",
    "SlotSettled": "onthedot.errors",
    "Source": "onthedot.task",
    "StateError": "onthedot.errors",
    "Step": "onthedot.task",
    "Steps": "onthedot.task",
    "StoreError": "onthedot.errors",
    "StoreUnavailable": "onthedot.errors",
    "UnknownHandler": "onthedot.errors",
    "UnknownJob": "onthedot.errors",
    "UnknownRun": "onthedot.errors",
    "UnknownSlot": "onthedot.errors",
    "Verbs": "onthedot.verbs",
    "at": "onthedot.schedules",
    "cron": "onthedot.schedules",
    "describe": "onthedot.schedules",
    "every": "onthedot.schedules",
    "gap": "onthedot.schedules",
    "in_": "onthedot.schedules",
    "parse": "onthedot.schedules",
}


if not TYPE_CHECKING:  # or a type checker would take every name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "AccessDenied",
    "After",
    "ArgumentsError",
    "BadArguments",
    "BlockingClient",
    "BlockingScheduler",
    "BoundCall",
    "Bounds",
    "CatchUp",
    "Client",
    "Command",
    "Container",
    "Context",
    "Counters",
    "DefinitionError",
    "DependencyCycle",
    "DuplicateJob",
    "Ended",
    "Guarantee",
    "Http",
    "Job",
    "JobFunction",
    "KeyConflict",
    "KeyRefused",
    "LeaseLost",
    "Limit",
    "Mount",
    "NodeMetrics",
    "OnTheDotError",
    "Overlap",
    "Param",
    "Pause",
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
    "Source",
    "StateError",
    "Step",
    "Steps",
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
