"""Runs, their attempts, and skipped slots: submit, list, read, wait for, cancel and retry."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onthedot.access.audit import Entry
from onthedot.access.permissions import Principal
from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import ArgumentsError, DefinitionError, RevisionConflict, UnknownJob, UnknownRun
from onthedot.model.job import JobRecord
from onthedot.model.run import TERMINAL, NewRun, RunRecord, RunState, manual_trigger
from onthedot.observe.formats import optional_iso
from onthedot.observe.json_fields import skip_fields
from onthedot.operations.open_verbs import OpenStore
from onthedot.operations.runs import rerun, why_waiting
from onthedot.server.audit import RUN, AuditedRun, entry_of, record_change, writes_of
from onthedot.server.auth import StoreDep, Who, store_of, verbs_for
from onthedot.server.models import (
    After,
    AttemptOut,
    AttemptsOut,
    Body,
    IdempotencyKey,
    Instant,
    JobName,
    Name,
    Namespace,
    PageSize,
    RunId,
    RunOut,
    RunsOut,
    Text,
    attempt_out,
    fields,
    instant,
    json_response,
    run_out,
    schema_of,
)
from onthedot.server.problems import Problem
from onthedot.server.quotas import Share, owner_of, quotas_for, room_for_runs
from onthedot.server.router import Routes, problems
from onthedot.server.submissions import (
    NDJSON,
    Bulk,
    RunRequest,
    Submit,
    arguments,
    bulk_response,
    new_run,
    read_run_request,
    run_key,
)
from onthedot.server.visibility import (
    check_visible,
    find_attempts,
    find_runs,
    find_skips,
    visible_job,
    visible_run,
    visible_wait_reason,
)
from onthedot.stores.queries import AttemptFilter, RunFilter, SkipFilter

routes = Routes(prefix="/api/v1", tags=["runs"])

LONGEST_WAIT: Micros = 60 * SECOND


class Submitted(BaseModel):
    """The stored run."""

    run_id: int = Field(examples=[41])
    created: bool = Field(description="False: a run with this key existed before.")


class Trigger(Body):
    """The arguments of the new run: only those that the job declares."""

    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])


class Cancel(Body):
    """The reason of a cancel."""

    why: Text = Field("cancelled", examples=["sent by hand"])


class CancelOut(BaseModel):
    """The result of a cancel: `cancelled`; `asked` to stop, because it is running; or it had `ended` before."""

    answer: str = Field(examples=["cancelled"])
    state: str | None = Field(description="The present state of the run.", examples=["cancelled"])


class Retry(Body):
    """The step from which to run again."""

    from_step: Text | None = Field(None, description="Null: the step that failed.", examples=["build"])


class ResultOut(BaseModel):
    """The state and the result of a run."""

    run_id: int = Field(examples=[41])
    state: str = Field(examples=["succeeded"])
    reason: str
    error: str | None
    result: JsonValue = Field(description="The result of the handler if the run succeeded.")


# ── submitting ───────────────────────────────────────────────────────────────────────────────────────────────

_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": schema_of(Submit)},
        NDJSON: {
            "schema": {"type": "string", "description": "One such object per line."},
            "example": '{"job":"nightly_report","args":{"region":"eu"},"key":"eu-1"}\n{"job":"nightly_report"}\n',
        },
    },
}
_MANY = {NDJSON: {"schema": {"type": "string"}, "example": '{"line":1,"run_id":41,"created":true}\n'}}
_REFUSED = {NDJSON: {"schema": {"type": "string"}, "example": '{"line":1,"problem":{"status":422,"detail":"…"}}\n'}}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {**told, "content": {**told["content"], **_REFUSED}}
    for status, told in problems(404, 409).items()
    if status in (404, 409, 413, 422, 429, 503)
}


@routes.post(
    "/runs",
    response_model=Submitted,
    status_code=201,
    openapi_extra={"requestBody": _BODY},
    responses={
        200: {"model": Submitted, "description": "The run existed before; or the answer to NDJSON.", "content": _MANY},
        415: {}, **_REFUSALS,
    },
)  # fmt: skip
async def submit_run(
    request: Request,
    namespace: Namespace = "default",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit one run of a job, now or after a delay; or many runs, one JSON object per line, as
    `application/x-ndjson`. The runs are stored before the answer.

    Many runs are answered line by line: `{"line":1,"run_id":41,"created":true}`. They are stored in batches of 500. At
    the first refused line the answer ends with `{"line":7,"problem":{…}}` and has the status of that problem; the runs
    before it stay stored. If each line has a `key`, you can safely send the same request again. A line can have 64 KiB,
    a request 100,000 lines and 64 MiB.
    """
    opened, who = store_of(request), request.state.who  # no dependencies: this route is the most used one
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == NDJSON:
        if idempotency_key is not None:
            raise DefinitionError("Idempotency-Key: expected a key on each line instead: it is about one run")
        return await _submit_many(request, opened, who, namespace)
    if kind != "application/json":
        raise Problem(415, "media-type", f"expected application/json or {NDJSON}, got {kind[:80] or 'none'!r}")
    wanted = read_run_request(await request.body())
    verbs_for(opened, who, namespace)
    key = run_key(who, idempotency_key, "submit", wanted.key)
    known = opened.known.get(wanted.job, namespace)
    if known is not None:
        with suppress(ArgumentsError, RevisionConflict, UnknownJob):  # the known job is old: read it again below
            return await _submit(request, known, wanted, namespace, key, revision=known.revision)
    return await _submit(request, await opened.known.read(wanted.job, namespace), wanted, namespace, key)


async def _submit(
    request: Request,
    found: JobRecord | None,
    wanted: RunRequest,
    namespace: str,
    key: str,
    *,
    revision: int | None = None,
) -> Response:
    """Insert a run of the job that was found. Raise an error if the caller may see no such job, or if the job no longer
    has `revision`."""
    opened = store_of(request)
    record = await check_visible(opened, request.state.who, found, wanted.job, namespace)
    new = new_run(record, wanted, token=opened.ids.token(), key=key, now=opened.clock.now())
    return await _insert(request, replace(new, revision=revision), "submit", record)


async def _insert(request: Request, new: NewRun, verb: str, record: JobRecord) -> Response:
    entry = entry_of(request, f"runs.{verb}", record.job, after={"run_id": RUN})
    runs = writes_of(request).runs
    if quotas_for(request) is None:
        run_id, created = await runs.one(AuditedRun(new, entry))
    else:
        async with room_for_runs(request, {owner_of(record.job): 1}) as made:
            run_id, created = await runs.one(AuditedRun(new, entry))
            made[owner_of(record.job)] += created
    return json_response({"run_id": run_id, "created": created}, 201 if created else 200)


async def _submit_many(request: Request, opened: OpenStore, who: Principal, namespace: str) -> Response:
    verbs_for(opened, who, namespace)

    async def find(job: str) -> JobRecord:
        return (await visible_job(opened, who, job, namespace))[1]

    def make_entry(runs: int) -> Entry:
        return entry_of(request, "runs.submit", f"namespace/{namespace}", after={"runs": runs}, namespace=namespace)

    quotas = quotas_for(request)
    bulk = Bulk(opened, find, make_entry, None if quotas is None else Share(quotas, who))
    await bulk.take(request.stream())
    return bulk_response(bulk, str(request.scope.get("request_id", "")))


@routes.post(
    "/jobs/{job}/trigger",
    response_model=Submitted,
    status_code=201,
    responses={200: {"model": Submitted, "description": "A run with this key existed before."}, 404: {}, 409: {}},
)
async def trigger_job(
    request: Request,
    opened: StoreDep,
    who: Who,
    job: Name,
    body: Trigger | None = None,
    namespace: Namespace = "default",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start one run of a job now, by hand. Only declared arguments can be set, never the definition."""
    _, record = await visible_job(opened, who, job, namespace)
    args = arguments(record, None if body is None else body.args)
    key = run_key(who, idempotency_key, "trigger")
    new = NewRun(record.id, manual_trigger(opened.ids.token()), opened.clock.now(), args, key, is_new=True)
    return await _insert(request, new, "trigger", record)


@routes.post(
    "/runs/{run}/retry",
    response_model=Submitted,
    status_code=201,
    responses={200: {"model": Submitted, "description": "A run with this key existed before."}, 404: {}, 409: {}},
)
async def retry_run(
    request: Request,
    opened: StoreDep,
    who: Who,
    run_id: RunId,
    body: Retry | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Retry a finished run of a command or of steps: a new run continues at the failed step, or at `from_step`. 409 if
    the run has not ended."""
    run = await visible_run(opened.store, who, run_id)
    from_step = None if body is None else body.from_step
    key = run_key(who, idempotency_key, f"retry {run_id} {from_step or ''}")
    token = opened.ids.token()
    async with room_for_runs(request, {owner_of(run): 1}) as new_runs:
        made, _ = await rerun(
            opened.store, run_id, from_step, token=token, now=opened.clock.now(), key=key, sees=who.sees
        )
        new = await opened.store.queries.get_run(made)
        created = new is None or new.trigger.endswith(token)
        new_runs[owner_of(run)] += created
    await record_change(request, "runs.retry", run, after={"run_id": made})
    return json_response({"run_id": made, "created": created}, 201 if created else 200)


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────────────────


@routes.post("/runs/{run}/cancel", response_model=CancelOut, responses={404: {}})
async def cancel_run(
    request: Request, opened: StoreDep, who: Who, run_id: RunId, body: Cancel | None = None
) -> Response:
    """Cancel a run. A waiting run is cancelled immediately. A running attempt is asked to stop, and is not retried."""
    run = await visible_run(opened.store, who, run_id)
    why = "cancelled" if body is None else body.why
    [answer] = await opened.store.cancel([run_id], why=why)
    if answer.kind == "unknown":
        raise _forgotten(run_id)
    await record_change(request, "runs.cancel", run)
    return json_response({"answer": answer.kind, "state": None if answer.state is None else str(answer.state)})


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/runs", response_model=RunsOut)
async def list_runs(
    opened: StoreDep,
    who: Who,
    state: Annotated[list[RunState] | None, Query(description="Only runs in one of these states.")] = None,
    namespace: Annotated[Text | None, Query(description="Default: all that you may see.")] = None,
    owner: Annotated[Text | None, Query(description="Only runs of this owner's jobs.")] = None,
    job: Annotated[Text | None, Query(description="Only runs of the job with this name.")] = None,
    worker: Annotated[Text | None, Query(description="Only runs with this current or last node.")] = None,
    queue: Annotated[Text | None, Query()] = None,
    label: Annotated[Text | None, Query(description="Only runs of jobs that need this label of a worker.")] = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """List runs: live ones by due time, then finished ones, newest end first. `since` and `until` select live runs by
    due time, and finished ones by end."""
    wanted = RunFilter(
        namespaces=None if namespace is None else (namespace,),
        owner=owner,
        job=job,
        states=None if state is None else frozenset(state),
        queue=queue,
        label=label,
        node=worker,
        since=instant(since, "since"),
        until=instant(until, "until"),
    )
    found, following = await find_runs(opened, who, wanted, after=after, limit=limit)
    return json_response({"items": [run_out(run) for run in found], "next": following})


@routes.get("/runs/{run}", response_model=RunOut, responses={404: {}})
async def get_run(opened: StoreDep, who: Who, run_id: RunId) -> Response:
    """A run. 404 if you may not see it."""
    return json_response(run_out(await visible_run(opened.store, who, run_id)))


@routes.get(
    "/runs/{run}/result",
    response_model=ResultOut,
    responses={202: {"model": ResultOut, "description": "The run has not ended yet."}, 404: {}},
)
async def get_result(
    opened: StoreDep,
    who: Who,
    run_id: RunId,
    wait: Annotated[Text | None, Query(description="How long to wait for the end of the run, at most 60s.")] = None,
) -> Response:
    """The result of a run, successful or not. 202 if it has not ended, even after `wait`."""
    seconds = _wait(wait)
    run = await visible_run(opened.store, who, run_id)
    if run.state not in TERMINAL and seconds:
        run = await _ended(opened, run, seconds)
    return json_response(_result(run), 200 if run.state in TERMINAL else 202)


def _wait(wait: str | None) -> float:
    if wait is None:
        return 0.0
    length = micros(parse_duration(wait, what="wait"))
    if length > LONGEST_WAIT:
        raise DefinitionError(f"wait: expected at most {LONGEST_WAIT // SECOND}s, got {wait!r}; ask again instead")
    return length / SECOND


async def _ended(opened: OpenStore, run: RunRecord, seconds: float) -> RunRecord:
    try:
        async with asyncio.timeout(seconds):
            ended = await opened.ends.wait(run.id)
    except TimeoutError:
        return await opened.store.queries.get_run(run.id) or run
    if ended is None:
        raise _forgotten(run.id)
    return ended


def _forgotten(run_id: int) -> UnknownRun:
    return UnknownRun(f"there is no run {run_id} any more: it was forgotten meanwhile")


def _result(run: RunRecord) -> dict[str, Any]:
    result = None if run.result is None else json.loads(run.result)
    return {"run_id": run.id, "state": str(run.state), "reason": run.reason, "error": run.error, "result": result}


@routes.get("/runs/{run}/attempts", response_model=list[AttemptOut], responses={404: {}})
async def list_attempts_of_run(opened: StoreDep, who: Who, run_id: RunId) -> Response:
    """The finished attempts of a run, in order."""
    await visible_run(opened.store, who, run_id)
    return json_response([attempt_out(attempt) for attempt in await opened.store.queries.list_attempts(run_id)])


class HoldOut(BaseModel):
    """Details of why a run waits. Fields that do not apply are empty."""

    run_id: int = Field(examples=[41])
    expires_at: str | None = Field(description="The run is skipped if it has not started by then.")
    node: str = Field(description="The node that has reserved it, or executes it.")
    incarnation: str
    reserved_at: str | None
    fence: int
    gate: str = Field(description="The closed gate that it waits for.")
    holders: list[int] = Field(description="The runs that hold that gate and that you may see.")
    granted_at: str | None = Field(description="The start time that a rate limit has granted.")
    for_leader: bool = Field(description="It waits until the leader assigns it to a node.")
    place: str
    cancel_wanted: str | None = Field(description="Why its attempt was asked to stop.")


class StandingOut(BaseModel):
    """Why a run waits."""

    standing: HoldOut | None = Field(description="Null: the run has ended.")
    waits_for: list[str] = Field(description="The reasons in words, the most important first.")


@routes.get("/runs/{run}/standing", response_model=StandingOut, responses={404: {}})
async def get_standing(opened: StoreDep, who: Who, run_id: RunId) -> Response:
    """Why a run waits. It names the runs that hold its gate if you may see them."""
    run = await visible_run(opened.store, who, run_id)
    stands, unnamed = await visible_wait_reason(opened.store, who, run_id)
    waits_for = await why_waiting(opened.store, run, stands, opened.clock.now(), unnamed=unnamed)
    if stands is None:
        return json_response({"standing": None, "waits_for": waits_for})
    instants = {name: optional_iso(getattr(stands, name)) for name in ("expires_at", "reserved_at", "granted_at")}
    return json_response({"standing": {**asdict(stands), **instants}, "waits_for": waits_for})


@routes.get("/attempts", response_model=AttemptsOut)
async def list_attempts(
    opened: StoreDep,
    who: Who,
    worker: Annotated[Text | None, Query(description="Only attempts on this node.", examples=["worker-1"])] = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """List finished attempts, newest end first."""
    wanted = AttemptFilter(node=worker, since=instant(since, "since"), until=instant(until, "until"))
    found, following = await find_attempts(opened, who, wanted, after=after, limit=limit)
    return json_response({"items": [attempt_out(attempt) for attempt in found], "next": following})


# ── skipped slots ──────────────────────────────────────────────────────────────────────────────────────────────


class LeftOutOut(BaseModel):
    """A range of slots of one schedule that were skipped."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str = Field(description="The schedule's id.", examples=["s1"])
    first: str = Field(description="The first slot.", examples=["2026-01-01T09:00:00.000000Z"])
    last: str = Field(description="The last slot.", examples=["2026-01-01T12:00:00.000000Z"])
    count: int = Field(description="The number of slots.", examples=[4])
    reason: str = Field(examples=["missed"])
    recorded_at: str = Field(examples=["2026-01-01T13:00:00.000000Z"])


class LeftOutList(BaseModel):
    """A page of ranges, newest first. A page can be short and still have a `next`."""

    items: list[LeftOutOut]
    next: str | None = Field(
        description="Send it as `after` to get the next page; null: this is the last page.",
        examples=["3WPQYsc0WyJTa2lwQ3Vyc29yIiw0MV0"],
    )


@routes.get("/skips", response_model=LeftOutList, responses={404: {}})
async def list_skips(
    opened: StoreDep,
    who: Who,
    namespace: Namespace = "default",
    job: JobName = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """List the slots that were skipped before they had a run, with the reason, newest first. If a slot had a run, that
    run is in the state `skipped` instead. `since` and `until` (exclusive) select ranges that overlap this time."""
    verbs_for(opened, who, namespace)  # refuses a namespace that the caller does not see
    wanted = SkipFilter(
        namespaces=(namespace,), job=job, since=instant(since, "since"), until=instant(until, "until")
    )  # fmt: skip
    found, following = await find_skips(opened, who, wanted, after=after, limit=limit)
    items = [fields(LeftOutOut, **skip_fields(skip, namespace)) for skip in found]
    return json_response({"items": items, "next": following})
