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
from onthedot.server.auth import There, Who, store_of, verbs_for
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
    """A run is stored."""

    run_id: int = Field(examples=[41])
    created: bool = Field(description="False: a run with this key was there already.")


class Trigger(Body):
    """One run now, with these arguments: those that the job declares, and nothing else."""

    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])


class Cancel(Body):
    """Why."""

    why: Text = Field("cancelled", examples=["sent by hand"])


class CancelOut(BaseModel):
    """What became of it: `cancelled` now, `asked` to stop because it runs, or it had `ended` before."""

    answer: str = Field(examples=["cancelled"])
    state: str | None = Field(description="The state that it is in now.", examples=["cancelled"])


class Retry(Body):
    """From where."""

    from_step: Text | None = Field(None, description="None: where it failed.", examples=["build"])


class ResultOut(BaseModel):
    """What a run has come to."""

    run_id: int = Field(examples=[41])
    state: str = Field(examples=["succeeded"])
    reason: str
    error: str | None
    result: JsonValue = Field(description="What its handler gave back, if it has succeeded.")


# ── asking for runs ──────────────────────────────────────────────────────────────────────────────────────────

_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": schema_of(Submit)},
        NDJSON: {
            "schema": {"type": "string", "description": "One such object a line."},
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
        200: {"model": Submitted, "description": "It was there already; or many were sent.", "content": _MANY},
        415: {}, **_REFUSALS,
    },
)  # fmt: skip
async def submit_run(
    request: Request,
    namespace: Namespace = "default",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask for one run of a job, now or after a delay; or for many, one JSON object a line, as `application/x-ndjson`.
    They are stored when this is answered.

    Many are answered line by line: `{"line":1,"run_id":41,"created":true}`. They are stored as they come, 500 at a
    time; at the first line that is refused it ends with `{"line":7,"problem":{…}}` and the status of that problem, and
    what came before stays. With a `key` on each line the same can be sent again. A line has at most 64 KiB, a request
    100,000 lines and 64 MiB.
    """
    there, who = store_of(request), request.state.who  # not as dependencies: this is called most of all
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == NDJSON:
        if idempotency_key is not None:
            raise DefinitionError("Idempotency-Key: expected a key on each line instead: it is about one run")
        return await _submit_many(request, there, who, namespace)
    if kind != "application/json":
        raise Problem(415, "media-type", f"expected application/json or {NDJSON}, got {kind[:80] or 'none'!r}")
    wanted = read_run_request(await request.body())
    verbs_for(there, who, namespace)
    key = run_key(who, idempotency_key, "submit", wanted.key)
    known = there.known.get(wanted.job, namespace)
    if known is not None:
        with suppress(ArgumentsError, RevisionConflict, UnknownJob):  # what the job was: what it is decides
            return await _submit(request, known, wanted, namespace, key, revision=known.revision)
    return await _submit(request, await there.known.read(wanted.job, namespace), wanted, namespace, key)


async def _submit(
    request: Request,
    found: JobRecord | None,
    wanted: RunRequest,
    namespace: str,
    key: str,
    *,
    revision: int | None = None,
) -> Response:
    """Insert a run of the job that was found, if there is one for whoever asks, and if this is still its revision."""
    there = store_of(request)
    record = await check_visible(there, request.state.who, found, wanted.job, namespace)
    new = new_run(record, wanted, token=there.ids.token(), key=key, now=there.clock.now())
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


async def _submit_many(request: Request, there: OpenStore, who: Principal, namespace: str) -> Response:
    verbs_for(there, who, namespace)

    async def find(job: str) -> JobRecord:
        return (await visible_job(there, who, job, namespace))[1]

    def told(runs: int) -> Entry:
        return entry_of(request, "runs.submit", f"namespace/{namespace}", after={"runs": runs}, namespace=namespace)

    quotas = quotas_for(request)
    bulk = Bulk(there, find, told, None if quotas is None else Share(quotas, who))
    await bulk.take(request.stream())
    return bulk_response(bulk, str(request.scope.get("request_id", "")))


@routes.post(
    "/jobs/{job}/trigger",
    response_model=Submitted,
    status_code=201,
    responses={200: {"model": Submitted, "description": "It was there already."}, 404: {}, 409: {}},
)
async def trigger_job(
    request: Request,
    there: There,
    who: Who,
    job: Name,
    body: Trigger | None = None,
    namespace: Namespace = "default",
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """One run of a job now, as a person asks for it. Only what the job declares can be given: no definition."""
    _, record = await visible_job(there, who, job, namespace)
    args = arguments(record, None if body is None else body.args)
    key = run_key(who, idempotency_key, "trigger")
    new = NewRun(record.id, manual_trigger(there.ids.token()), there.clock.now(), args, key)
    return await _insert(request, new, "trigger", record)


@routes.post(
    "/runs/{run}/retry",
    response_model=Submitted,
    status_code=201,
    responses={200: {"model": Submitted, "description": "It was there already."}, 404: {}, 409: {}},
)
async def retry_run(
    request: Request,
    there: There,
    who: Who,
    run_id: RunId,
    body: Retry | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """A new run that goes on where this one has failed, or at the step that is named. Of commands and steps only."""
    run = await visible_run(there.store, who, run_id)
    from_step = None if body is None else body.from_step
    key = run_key(who, idempotency_key, f"retry {run_id} {from_step or ''}")
    token = there.ids.token()
    async with room_for_runs(request, {owner_of(run): 1}) as new_runs:
        made, _ = await rerun(
            there.store, run_id, from_step, token=token, now=there.clock.now(), key=key, sees=who.sees
        )
        new = await there.store.queries.get_run(made)
        created = new is None or new.trigger.endswith(token)
        new_runs[owner_of(run)] += created
    await record_change(request, "runs.retry", run, after={"run_id": made})
    return json_response({"run_id": made, "created": created}, 201 if created else 200)


# ── looking at them ──────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/runs", response_model=RunsOut)
async def list_runs(
    there: There,
    who: Who,
    state: Annotated[list[RunState] | None, Query(description="In one of these states.")] = None,
    namespace: Annotated[Text | None, Query(description="None: every one that there is for you.")] = None,
    owner: Annotated[Text | None, Query(description="Whose jobs.")] = None,
    job: Annotated[Text | None, Query(description="The job's name.")] = None,
    worker: Annotated[Text | None, Query(description="The node that holds it, or had it last.")] = None,
    queue: Annotated[Text | None, Query()] = None,
    label: Annotated[Text | None, Query(description="That its job needs of a worker.")] = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """Live runs by due instant, then finished ones, newest end first. `since` and `until` are about the same instants:
    when it is due while it lives, when it ended once it has."""
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
    found, following = await find_runs(there, who, wanted, after=after, limit=limit)
    return json_response({"items": [run_out(run) for run in found], "next": following})


@routes.get("/runs/{run}", response_model=RunOut, responses={404: {}})
async def get_run(there: There, who: Who, run_id: RunId) -> Response:
    """One run, as it is now."""
    return json_response(run_out(await visible_run(there.store, who, run_id)))


@routes.get(
    "/runs/{run}/result",
    response_model=ResultOut,
    responses={202: {"model": ResultOut, "description": "It has not ended yet."}, 404: {}},
)
async def get_result(
    there: There,
    who: Who,
    run_id: RunId,
    wait: Annotated[Text | None, Query(description="How long to wait for its end, 60s at most.")] = None,
) -> Response:
    """What a run has come to, however it ended; 202 if it has not, also after the wait."""
    seconds = _wait(wait)
    run = await visible_run(there.store, who, run_id)
    if run.state not in TERMINAL and seconds:
        run = await _ended(there, run, seconds)
    return json_response(_result(run), 200 if run.state in TERMINAL else 202)


def _wait(wait: str | None) -> float:
    if wait is None:
        return 0.0
    length = micros(parse_duration(wait, what="wait"))
    if length > LONGEST_WAIT:
        raise DefinitionError(f"wait: expected at most {LONGEST_WAIT // SECOND}s, got {wait!r}; ask again instead")
    return length / SECOND


async def _ended(there: OpenStore, run: RunRecord, seconds: float) -> RunRecord:
    try:
        async with asyncio.timeout(seconds):
            ended = await there.ends.wait(run.id)
    except TimeoutError:
        return await there.store.queries.get_run(run.id) or run
    if ended is None:
        raise UnknownRun(f"there is no run {run.id} any more: it was forgotten meanwhile")
    return ended


def _result(run: RunRecord) -> dict[str, Any]:
    result = None if run.result is None else json.loads(run.result)
    return {"run_id": run.id, "state": str(run.state), "reason": run.reason, "error": run.error, "result": result}


@routes.get("/runs/{run}/attempts", response_model=list[AttemptOut], responses={404: {}})
async def list_attempts_of_run(there: There, who: Who, run_id: RunId) -> Response:
    """The attempts of a run that are over, in order."""
    await visible_run(there.store, who, run_id)
    return json_response([attempt_out(attempt) for attempt in await there.store.queries.list_attempts(run_id)])


class HoldOut(BaseModel):
    """What keeps a run where it is. What does not apply is empty."""

    run_id: int = Field(examples=[41])
    expires_at: str | None = Field(description="Not started by then, it is skipped.")
    node: str = Field(description="Who has reserved it, or executes it.")
    incarnation: str
    reserved_at: str | None
    fence: int
    gate: str = Field(description="The closed one that it waits at.")
    holders: list[int] = Field(description="The runs that hold that gate, as far as they are there for you.")
    granted_at: str | None = Field(description="The instant that a rate has handed out.")
    for_leader: bool = Field(description="It waits for the leader to find it a place.")
    place: str
    cancel_wanted: str | None = Field(description="Why its attempt is asked to stop.")


class StandingOut(BaseModel):
    """Why a run is not running."""

    standing: HoldOut | None = Field(description="None: it has ended.")
    waits_for: list[str] = Field(description="In words, the first to look at first.")


@routes.get("/runs/{run}/standing", response_model=StandingOut, responses={404: {}})
async def get_standing(there: There, who: Who, run_id: RunId) -> Response:
    """How a run stands, and what it waits for. Of runs that hold its gate, those that there are for you are named."""
    run = await visible_run(there.store, who, run_id)
    stands, unnamed = await visible_wait_reason(there.store, who, run_id)
    waits_for = await why_waiting(there.store, run, stands, there.clock.now(), unnamed=unnamed)
    if stands is None:
        return json_response({"standing": None, "waits_for": waits_for})
    instants = {name: optional_iso(getattr(stands, name)) for name in ("expires_at", "reserved_at", "granted_at")}
    return json_response({"standing": {**asdict(stands), **instants}, "waits_for": waits_for})


# ── ending them ──────────────────────────────────────────────────────────────────────────────────────────────


@routes.post("/runs/{run}/cancel", response_model=CancelOut, responses={404: {}})
async def cancel_run(request: Request, there: There, who: Who, run_id: RunId, body: Cancel | None = None) -> Response:
    """Cancel a run: now if it waits; if it runs, its attempt is asked to stop, and is not tried again."""
    run = await visible_run(there.store, who, run_id)
    why = "cancelled" if body is None else body.why
    [answer] = await there.store.cancel([run_id], why=why)
    if answer.kind == "unknown":
        raise UnknownRun(f"there is no run {run_id} any more: it was forgotten meanwhile")
    await record_change(request, "runs.cancel", run)
    return json_response({"answer": answer.kind, "state": None if answer.state is None else str(answer.state)})


@routes.get("/attempts", response_model=AttemptsOut)
async def list_attempts(
    there: There,
    who: Who,
    worker: Annotated[Text | None, Query(description="The node that tried.", examples=["worker-1"])] = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """Attempts that are over, of one worker or of all, newest end first."""
    wanted = AttemptFilter(node=worker, since=instant(since, "since"), until=instant(until, "until"))
    found, following = await find_attempts(there, who, wanted, after=after, limit=limit)
    return json_response({"items": [attempt_out(attempt) for attempt in found], "next": following})


class LeftOutOut(BaseModel):
    """Slots of one schedule that did not run: a range of them."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str = Field(description="The schedule's id.", examples=["s1"])
    first: str = Field(description="The first slot.", examples=["2026-01-01T09:00:00.000000Z"])
    last: str = Field(description="The last slot.", examples=["2026-01-01T12:00:00.000000Z"])
    count: int = Field(description="How many there are.", examples=[4])
    reason: str = Field(examples=["missed"])
    recorded_at: str = Field(examples=["2026-01-01T13:00:00.000000Z"])


class LeftOutList(BaseModel):
    """Some ranges, the newest first. A page may be short although there is a next."""

    items: list[LeftOutOut]
    next: str | None = Field(
        description="What `after` is for the older ones; null: there are none.",
        examples=["3WPQYsc0WyJTa2lwQ3Vyc29yIiw0MV0"],
    )


@routes.get("/skips", response_model=LeftOutList, responses={404: {}})
async def list_skips(
    there: There,
    who: Who,
    namespace: Namespace = "default",
    job: JobName = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """Why slots did not run: those that were skipped before there was a run of them, the newest first. Slots whose run
    was skipped are runs in the state `skipped`. With `since` and `until` (without it): ranges that reach into this
    one."""
    verbs_for(there, who, namespace)  # refuses a namespace that the caller does not see
    wanted = SkipFilter(
        namespaces=(namespace,), job=job, since=instant(since, "since"), until=instant(until, "until")
    )  # fmt: skip
    found, following = await find_skips(there, who, wanted, after=after, limit=limit)
    items = [fields(LeftOutOut, **skip_fields(skip, namespace)) for skip in found]
    return json_response({"items": items, "next": following})
