"""The session of an operation: an open store, its caller, and where instants are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

from onthedot.access.audit_recorder import Recorder
from onthedot.clock import Clock
from onthedot.ids import Ids
from onthedot.model.errors import UnknownRun
from onthedot.model.events import Events
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import RunRecord, stored_number
from onthedot.operations.job_lookup import find_job
from onthedot.operations.known_jobs import KnownJobs
from onthedot.operations.result_waiters import Ends
from onthedot.output.output_store import OutputStore
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open store and its caller. Every front door makes a session for each call. The operations are functions that
    take it.
    """

    store: Store
    clock: Clock
    """The store's clock, as this process knows it."""
    settings: Settings
    ids: Ids
    events: Events
    """Receives the progress of a long operation."""
    ends: Ends
    """Wakes callers that wait for the end of a run."""
    known: KnownJobs
    """The jobs that were read for earlier submits."""
    outputs: OutputStore | None = None
    recorder: Recorder | None = None
    """Records changes in the audit; if None, the caller records them."""
    namespace: str = "default"
    """The namespace in which names of jobs are looked up."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """The jobs that this program has defined, by name; each has a namespace of its own."""

    def namespace_of(self, job: str) -> str:
        """Return the namespace in which this name is looked up."""
        return self.jobs[job].namespace if job in self.jobs else self.namespace

    async def find_job(self, job: str) -> JobRecord:
        """Return the stored job of this name. Otherwise raise `UnknownJob` with the nearest names."""
        return await find_job(self.store, job, namespace=self.namespace_of(job), known=self.jobs)

    async def changed(self, verb: str, what: Job | RunRecord | str, *, after: Any = None, namespace: str = "") -> None:
        """Record a change in the audit."""
        if self.recorder is not None:
            await self.recorder.changed(verb, what, after=after, namespace=namespace)


def known_number(run_id: int) -> int:
    """Return a run's number. Raise `UnknownRun` for a number that no store can hold."""
    if not stored_number(run_id):
        raise no_run(run_id)
    return run_id


def no_run(run_id: int) -> UnknownRun:
    """Return the error for a run that is not stored."""
    return UnknownRun(f"there is no run {run_id}: expected one that was submitted and not removed")


# ── where instants are computed ────────────────────────────────────────────────────────────────────────────────

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Compute(Protocol):
    """Calls a pure function: on this loop, or elsewhere."""

    async def __call__(self, work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
        """Return what the function returns, or raise what it raises."""
        ...


async def at_once(work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
    """Call the function on this loop: an engine has its own loop, and its time may be virtual."""
    return work(*args, **options)
