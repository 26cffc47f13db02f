"""The routes of the two requirements documents, with their exact paths and field names (`models.py`).

The other routes of the API can do more.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, NamedTuple

from fastapi import Path, Query, Request, Response

from onthedot.access.permissions import Principal
from onthedot.clock import Micros
from onthedot.define.check import parents_first
from onthedot.define.job_reader import read_jobs
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.run import LIVE, TERMINAL, RunRecord, RunState
from onthedot.observe.formats import iso, milliseconds, optional_iso
from onthedot.operations.next_slots import look_ahead
from onthedot.operations.open_verbs import OpenStore
from onthedot.rules.next_slots import coming
from onthedot.server.auth import StoreDep, Who, verbs_for
from onthedot.server.compat.models import (
    CancelledJob,
    Document,
    DocumentJob,
    DocumentJobs,
    Execution,
    Executions,
    History,
    JobStatus,
    LastLogs,
    PastExecution,
    Status,
    SubmittedJob,
    SubmittedJobs,
    frequency_of,
    in_our_words,
    is_recurring,
    status_of_job,
    status_of_run,
)
from onthedot.server.compute import in_thread
from onthedot.server.job_writes import (
    Check,
    JobKey,
    Make,
    check_sees,
    checked_job,
    create_job,
    remove_job,
    with_owner,
    write_job,
)
from onthedot.server.models import JobsAfter, JobsLimit, Word, fields, read_definition
from onthedot.server.problems import Problem
from onthedot.server.quotas import Owner, owner_of, quotas_for, room_for_runs
from onthedot.server.router import Routes
from onthedot.server.visibility import find_jobs, find_runs, job_by_id
from onthedot.stores.queries import JobFilter, RunFilter, all_runs
from onthedot.stores.values import PutJob

routes = Routes(prefix="", tags=["documents"])

YAML = ("application/yaml", "application/x-yaml", "text/yaml")
MOST_JOBS = 1_000
MOST_LOG = 256 * 1024
"""The answer has this many characters of the logs, the last ones. `/api/v1/runs/{run}/logs` has all of them."""

JobId = Annotated[int, Path(description="The job's id.", ge=1, le=2**62, examples=[7])]
_FILE = """jobs:
  - name: BuildAndTest
    schedule: "0 0 * * *"
    run_once: false
    steps:
      - name: Build
        run: go build -v ./...
"""
_YAML_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}, "example": _FILE} for kind in YAML},
    }
}


# ── the first document ───────────────────────────────────────────────────────────────────────────────────────


@routes.post(
    "/jobs", response_model=DocumentJob, status_code=201,
    responses={404: {}, 409: {}},
)  # fmt: skip
async def document_submit_job(
    request: Request,
    response: Response,
    opened: StoreDep,
    who: Who,
    document: Document,
) -> Any:
    """Store a new one-time or periodic job. Without `frequency` it runs once, immediately. 409 if the name is taken."""
    body: dict[str, Any] = {"name": f"job-{opened.ids.token()[:12]}", "namespace": _namespace(who), **document}
    definition = in_our_words(body)
    job = await in_thread(read_definition, definition)
    names_owner = "owner" in definition
    owner = owner_of(with_owner(who, job, None, names_owner=names_owner))
    once = 0 if is_recurring(job) or not job.schedules else 1
    async with room_for_runs(request, {owner: once}) as made:
        stored = await create_job(request, opened, who, job, names_owner=names_owner)
        made[owner] += once
    response.headers["Location"] = f"/jobs/{stored.id}"
    return _job(stored, await job_standing(opened, stored))


@routes.get("/jobs/{job_id}", response_model=DocumentJob, responses={404: {}})
async def document_job(opened: StoreDep, who: Who, job_id: JobId) -> Any:
    """A job, its status and its next run time. 404 if you may not see it."""
    record = await _seen(opened, who, job_id)
    return _job(record, await job_standing(opened, record))


@routes.delete("/jobs/{job_id}", response_model=CancelledJob, responses={404: {}, 409: {}})
async def document_cancel_job(request: Request, opened: StoreDep, who: Who, job_id: JobId) -> Any:
    """Delete a job and cancel its waiting executions. A running execution finishes, and is not retried."""
    record = await _seen(opened, who, job_id)
    place = JobKey(record.job.namespace, record.job.name)
    cancelled = await remove_job(request, opened, who, place, job_id=job_id)
    return {"job_id": job_id, "cancelled": cancelled}


@routes.get("/jobs", response_model=DocumentJobs)
async def document_list_jobs(
    opened: StoreDep,
    who: Who,
    status: Annotated[Status | None, Query(description="Only jobs with this status.")] = None,
    user_id: Annotated[Word, Query(description="Only jobs of this user.")] = None,
    limit: JobsLimit = 100,
    after: JobsAfter = None,
) -> Any:
    """List jobs, by user and status. A page can be short and still have a `next`."""
    found, following = await find_jobs(opened, who, JobFilter(owner=user_id), after=after, limit=limit)
    items = [_job(record, await job_standing(opened, record)) for record in found]
    return {"items": [item for item in items if status is None or item["status"] == status], "next": following}


@routes.get("/job/executions", response_model=Executions)
async def document_executions(
    opened: StoreDep,
    who: Who,
    worker_id: Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", examples=["w001"])],
    limit: JobsLimit = 100,
    after: JobsAfter = None,
) -> Any:
    """The executions that are running on a worker."""
    wanted = RunFilter(node=worker_id, states=frozenset({RunState.RUNNING}))
    runs, following = await find_runs(opened, who, wanted, after=after, limit=limit)
    jobs = {(run.namespace, run.job): None for run in runs}
    ids = {place: await opened.store.queries.get_job(place[1], namespace=place[0]) for place in jobs}
    return {"items": [_execution(run, ids[run.namespace, run.job]) for run in runs], "next": following}


# ── the second document ──────────────────────────────────────────────────────────────────────────────────────


@routes.post(
    "/api/v1/submit_job", response_model=SubmittedJobs, status_code=201, openapi_extra=_YAML_BODY,
    responses={404: {}, 409: {}, 415: {}},
)  # fmt: skip
async def document_submit_file(request: Request, opened: StoreDep, who: Who) -> Any:
    """Store all jobs of a YAML file. Jobs of the same name are replaced. If one job is not valid, or you may not write
    it, nothing is stored."""
    jobs = await in_thread(_read_file, await _text_of(request))
    writes = [(JobKey(job.namespace, job.name), *_putting(who, job)) for job in parents_first(jobs)]
    new: Counter[Owner] = Counter()
    for key, check, make in writes:
        verbs_for(opened, who, key.namespace)
        before = await opened.store.queries.get_job(key.name, namespace=key.namespace)
        job = checked_job(who, before, check, make)
        if before is None:
            new[owner_of(job)] += 1
    quotas = quotas_for(request)
    if quotas is not None:
        await quotas.check_jobs(who, new)
    stored = {key: (await write_job(request, opened, who, key, check, make)).put for key, check, make in writes}
    made = [_submitted(stored[JobKey(job.namespace, job.name)]) for job in jobs]
    return {"job_id": made[0]["job_id"], "jobs": made}


@routes.get("/api/v1/retrieve_history_execution/{job_id}", response_model=History, responses={404: {}})
async def document_history(
    opened: StoreDep, who: Who, job_id: JobId, limit: JobsLimit = 100, after: JobsAfter = None
) -> Any:
    """The executions of a job: running and waiting ones first, then finished ones, newest first."""
    await _seen(opened, who, job_id)
    runs, following = await find_runs(opened, who, RunFilter(job_id=job_id), after=after, limit=limit)
    return {"items": [_past(run, job_id) for run in runs], "next": following}


@routes.get("/api/v1/last_execution_logs/{job_id}", response_model=LastLogs, responses={404: {}})
async def document_last_logs(opened: StoreDep, who: Who, job_id: JobId) -> Any:
    """The logs of the last execution of a job, at most the last 256 KiB."""
    record = await _seen(opened, who, job_id)
    run = await last_execution(opened, record)
    if run is None:
        return fields(LastLogs, job_id=job_id, execution_id=None, status="pending", logs_path=None, logs="", cut=False)
    text = "".join(log.text for log in await opened.verbs(record.job.namespace).logs(run.id))
    return fields(
        LastLogs,
        job_id=job_id,
        execution_id=run.id,
        status=status_of_run(run),
        logs_path=_logs_path(run),
        logs=text[-MOST_LOG:],
        cut=len(text) > MOST_LOG,
    )


@routes.get("/api/v1/job_status/{job_id}", response_model=JobStatus, responses={404: {}})
async def document_status(opened: StoreDep, who: Who, job_id: JobId) -> Any:
    """The status of a job, of its last execution, and its next execution time."""
    record = await _seen(opened, who, job_id)
    standing, last = await job_standing(opened, record), await last_execution(opened, record)
    return fields(
        JobStatus,
        job_id=job_id,
        user_id=record.job.owner,
        name=record.job.name,
        is_recurring=is_recurring(record.job),
        schedule=frequency_of(record.job),
        created_time=iso(record.created_at),
        status=status_of_job(record, standing.newest),
        last_status=None if last is None else status_of_run(last),
        next_execution_time=optional_iso(standing.next_at),
    )


# ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────────


def _namespace(who: Principal) -> str:
    """The namespace of new jobs. The documents have no namespaces."""
    return "default" if not who.namespaces or "default" in who.namespaces else who.namespaces[0]


async def _seen(opened: OpenStore, who: Principal, job_id: int) -> JobRecord:
    record = await job_by_id(opened, who, job_id)
    if record is None:
        raise Problem(404, "unknown", f"there is no job {job_id}")
    return record


async def _text_of(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in YAML:
        told = f"expected a YAML file as one of {', '.join(YAML)}, got {kind[:80] or 'none'!r}"
        raise Problem(415, "media-type", f"Content-Type: {told}")
    try:
        return (await request.body()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"expected text in UTF-8, got other bytes at {error.start}") from None


def _read_file(text: str) -> list[Job]:
    jobs = read_jobs(text, "body", four_fields=True)
    if not 1 <= len(jobs) <= MOST_JOBS:
        raise DefinitionError(f"jobs: expected from 1 to {MOST_JOBS} of them, got {len(jobs)}")
    return jobs


def _putting(who: Principal, job: Job) -> tuple[Check, Make]:
    """Return the two functions that `write_job` needs for a job of a file: the check, and the maker of the new
    definition."""

    def check(before: JobRecord | None) -> None:
        check_sees(who, job.name, before)

    def make(before: JobRecord | None) -> Job:
        return with_owner(who, job, before, names_owner=bool(job.owner))

    return check, make


def _submitted(put: PutJob) -> dict[str, Any]:
    return fields(SubmittedJob, job_id=put.record.id, name=put.record.job.name, change=put.change)


def _job(record: JobRecord, standing: JobStanding) -> dict[str, Any]:
    return fields(
        DocumentJob,
        job_id=record.id,
        user_id=record.job.owner,
        name=record.job.name,
        frequency=frequency_of(record.job),
        payload=dict(record.job.args),
        status=status_of_job(record, standing.newest),
        next_run_time=optional_iso(standing.next_at),
    )


def _execution(run: RunRecord, record: JobRecord | None) -> dict[str, Any]:
    return fields(
        Execution,
        execution_id=run.id,
        job_id=None if record is None or record.created_at > run.created_at else record.id,
        name=run.job,
        user_id=run.owner,
        worker_id=run.node,
        status=status_of_run(run),
        attempts=run.attempts,
    )


def _past(run: RunRecord, job_id: int) -> dict[str, Any]:
    began, ended = run.started_at, run.ended_at
    return fields(
        PastExecution,
        job_id=job_id,
        execution_id=run.id,
        execution_time=iso(run.due_at if began is None else began),
        status=status_of_run(run),
        last_update_time=iso(ended or began or run.armed_at or run.created_at),
        logs_path=_logs_path(run),
        attempts=run.attempts,
        duration_ms=None if began is None or ended is None else milliseconds(ended - began),
        error=run.error,
    )


def _logs_path(run: RunRecord) -> str:
    return f"/api/v1/runs/{run.id}/logs"


# ── executions ───────────────────────────────────────────────────────────────────────────────────

_RUNNING = frozenset({RunState.RUNNING})
_TRIED = TERMINAL - {RunState.SKIPPED}


class JobStanding(NamedTuple):
    """The most important run of a job (running, else waiting, else newest), and the next run time of the job."""

    newest: RunRecord | None
    next_at: Micros | None


async def job_standing(opened: OpenStore, record: JobRecord) -> JobStanding:
    """Read the run and the next run time of a job from the store."""
    running = await _first(opened, record, _RUNNING)
    waiting = await _first(opened, record, LIVE - _RUNNING)
    newest = running or waiting or await _first(opened, record, TERMINAL)
    if record.state is JobState.PAUSED:
        return JobStanding(newest, None)
    now = opened.clock.now()
    found = await in_thread(coming, await look_ahead(opened.store, record.id, now), now, 1)
    instants = [one.due_at for one in found] + ([waiting.due_at] if waiting else [])
    return JobStanding(newest, min(instants, default=None))


async def last_execution(opened: OpenStore, record: JobRecord) -> RunRecord | None:
    """The running run, else one that waits for its retry, else the newest finished one; only runs with an attempt."""
    running = await _first(opened, record, _RUNNING)
    if running is not None:
        return running
    for states in (LIVE - _RUNNING, _TRIED):
        found = await all_runs(opened.store.queries, RunFilter(job_id=record.id, states=states), 100)
        tried = [run for run in found if run.attempts]
        if tried:
            return tried[0]
    return None


async def _first(opened: OpenStore, record: JobRecord, states: frozenset[RunState]) -> RunRecord | None:
    return next(iter(await all_runs(opened.store.queries, RunFilter(job_id=record.id, states=states), 1)), None)
