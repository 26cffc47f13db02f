"""What people and programs ask of a stored job, for every front door alike: which one is meant, and a run of it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from onthedot.clock import Clock
from onthedot.errors import UnknownJob, did_you_mean
from onthedot.job import Call, JobRecord
from onthedot.run import NewRun
from onthedot.stores.base import Store
from onthedot.tasks.params import require_params


async def find_job(store: Store, name: str, *, namespace: str = "default", known: Iterable[str] = ()) -> JobRecord:
    """The stored job of that name; `UnknownJob`, with the nearest of the stored and the otherwise `known` names."""
    record = await store.get_job(name, namespace=namespace)
    if record is None:
        stored = [other.job.name for other in await store.list_jobs() if other.job.namespace == namespace]
        raise UnknownJob(f"no job {name!r} is stored{did_you_mean(name, {*stored, *known})}")
    return record


def check_arguments(record: JobRecord, args: str | None) -> None:
    """`ArgumentsError` if a job that is no handler does not declare these arguments (canonical JSON; None: its own)."""
    if not isinstance(record.job.task, Call):
        require_params(record.job, record.job.args if args is None else json.loads(args))


async def submit_run(store: Store, record: JobRecord, *, trigger: str, clock: Clock, args: str | None = None) -> int:
    """Ask for one run of a job now; its id. `ArgumentsError` if the job does not take these arguments."""
    check_arguments(record, args)
    [run_id] = await store.submit([NewRun(record.id, trigger, clock.now(), args)])
    return run_id
