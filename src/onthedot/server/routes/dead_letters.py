"""Dead letters: list, group, replay and discard runs that failed for good."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from onthedot.access.permissions import Principal
from onthedot.clock import to_micros
from onthedot.model.errors import DefinitionError, StateError
from onthedot.model.events import Events
from onthedot.model.policies import Rate
from onthedot.model.retention import Mark
from onthedot.model.run import HIGHEST_RUN, RunRecord, RunState
from onthedot.observe.formats import iso
from onthedot.operations.dead_letters import (
    BATCH,
    REPLAYED,
    Box,
    DeadLetters,
    Replayed,
    discard_letters,
    find_letters,
    fingerprint_of,
    group_letters,
    is_letter,
    replay_letter,
    replay_letters,
)
from onthedot.operations.job_lookup import job_of
from onthedot.operations.open_verbs import OpenStore
from onthedot.server.audit import record_change
from onthedot.server.auth import StoreDep, Who, verbs_for
from onthedot.server.models import (
    After,
    Body,
    Instant,
    JobName,
    Namespace,
    PageSize,
    RunOut,
    Text,
    datetime_out,
    json_response,
    run_out,
)
from onthedot.server.quotas import owner_of, quotas_for, room_for_runs
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_runs
from onthedot.stores.queries import RunCursor, decode_cursor, encode_cursor
from onthedot.stores.values import LAST_MARK

routes = Routes(prefix="/api/v1", tags=["dead letters"])

Fingerprint = Annotated[
    Text | None,
    Query(description="Only letters with this cause: the `fingerprint` of a group.", examples=["4f1d08a2b6c7"]),
]
RunIds = Annotated[list[Annotated[int, Field(ge=1, le=HIGHEST_RUN)]], Field(min_length=1, max_length=1000)]


class LetterOut(RunOut):
    """A dead run and the fingerprint of its error."""

    fingerprint: str = Field(examples=["4f1d08a2b6c7"])


class LettersOut(BaseModel):
    """A page of dead letters."""

    items: list[LetterOut]
    next: str | None = Field(description="Send it as `after` to get the next page; null: this is the last page.")


class GroupOut(BaseModel):
    """Dead letters of one job with the same error."""

    fingerprint: str = Field(examples=["4f1d08a2b6c7"])
    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    error_type: str = Field(examples=["ConnectionError"])
    error: str = Field(description="The common part of their errors.", examples=["ConnectionError: no answer from <n>"])
    count: int
    first: str = Field(description="When the oldest of them ended.", examples=["2026-01-01T09:00:00.000000Z"])
    last: str
    example: RunOut


class RateIn(Body):
    """A rate: at most this many runs per length of time."""

    most: int = Field(ge=1, le=1_000_000, examples=[10])
    per: Text = Field("1m", max_length=50, examples=["1s"])


class Replay(Body):
    """The letters to replay: those of `run_ids`, or all that match the other fields. With `run_ids`, only `dry_run` may
    be set as well."""

    run_ids: RunIds | None = Field(None, examples=[[41, 42]])
    job: Text | None = None
    fingerprint: Text | None = None
    since: Text | None = Field(None, examples=["2026-01-01T08:00:00Z"])
    until: Text | None = None
    rate: RateIn | None = None
    limit: int = Field(10_000, ge=1, le=10_000)
    dry_run: bool = False


class ReplayedOut(BaseModel):
    """The result of a replay, or of its dry run."""

    letters: int = Field(description="The number of letters that matched.")
    without_job: int = Field(description="The number of letters that stay, because their job was deleted.")
    first_due: str | None
    last_due: str | None
    run_ids: list[int] = Field(
        description="The new runs, in the order of the letters, oldest first; empty for a dry run."
    )
    dry_run: bool


class Discard(Body):
    """The letters to discard, and the reason."""

    run_ids: RunIds = Field(examples=[[41, 42]])
    why: Text = Field("", examples=["sent by hand"])


class DiscardedOut(BaseModel):
    """The result of a discard."""

    discarded: int = Field(description="The number of runs that were dead letters, and are discarded now.")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/dead-letters", response_model=LettersOut, responses={404: {}})
async def list_dead_letters(
    opened: StoreDep,
    who: Who,
    namespace: Namespace = "default",
    job: JobName = None,
    fingerprint: Fingerprint = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """List dead runs that nobody has replayed or discarded, newest end first."""
    verbs_for(opened, who, namespace)
    before = LAST_MARK
    if after is not None:
        place = decode_cursor(after, RunCursor)
        before = Mark(place.at, place.id)
    box = Box(job, namespace, fingerprint, since, until, limit + 1, who.only_owner, before)
    letters = await find_letters(opened.store, box)
    last = letters[limit - 1] if len(letters) > limit else None
    following = None if last is None else encode_cursor(RunCursor(True, last.ended_at or 0, last.id))
    return json_response({"items": [_letter(run) for run in letters[:limit]], "next": following})


def _letter(run: RunRecord) -> dict[str, Any]:
    return {**run_out(run), "fingerprint": fingerprint_of(run)}


@routes.get("/dead-letters/groups", response_model=list[GroupOut], responses={404: {}})
async def list_dead_letter_groups(
    opened: StoreDep,
    who: Who,
    namespace: Namespace = "default",
    job: JobName = None,
    since: Instant = None,
    until: Instant = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many letters to group: the newest ones.")] = 10_000,
) -> Response:
    """Group the newest dead letters by job and error. The group with the newest letter comes first."""
    verbs_for(opened, who, namespace)
    box = Box(job, namespace, None, since, until, limit, who.only_owner)
    return json_response([_group(group) for group in await group_letters(opened.store, box)])


def _group(group: DeadLetters) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "job": group.job,
        "namespace": group.namespace,
        "error_type": group.error_type,
        "error": group.error,
        "count": group.count,
        "first": iso(to_micros(group.first)),
        "last": iso(to_micros(group.last)),
        "example": run_out(group.example),
    }


# ── replaying and discarding ─────────────────────────────────────────────────────────────────────────────────


@routes.post("/dead-letters/replay", response_model=ReplayedOut, responses={404: {}, 409: {}})
async def replay_dead_letters(
    request: Request, opened: StoreDep, who: Who, body: Replay, namespace: Namespace = "default"
) -> Response:
    """Run dead letters again: those of `run_ids`, or all that match. Each new run has the arguments and the scheduled
    instant of its letter. With a `rate`, their due times are spread. Replaying a letter twice gives one run. If one of
    the `run_ids` cannot be replayed, none is (409). `dry_run` changes nothing and returns what would happen."""
    verbs_for(opened, who, namespace)
    if body.run_ids is None:
        done = await _replay_matching(request, opened, who, body, namespace)
    else:  # a run id is unique over all namespaces
        done = await _replay_these(request, opened, who, body)
    return json_response(
        {
            "letters": done.letters,
            "without_job": done.without_job,
            "first_due": datetime_out(done.first_due),
            "last_due": datetime_out(done.last_due),
            "run_ids": list(done.run_ids),
            "dry_run": done.dry_run,
        }
    )


async def _replay_matching(
    request: Request, opened: OpenStore, who: Principal, body: Replay, namespace: str
) -> Replayed:
    box = Box(body.job, namespace, body.fingerprint, body.since, body.until, body.limit, who.only_owner)
    rate = None if body.rate is None else Rate(body.rate.most, body.rate.per)
    letters = [] if body.dry_run or quotas_for(request) is None else await find_letters(opened.store, box)
    wanted = Counter(owner_of(run) for run in letters)
    async with room_for_runs(request, wanted) as made:
        done = await replay_letters(
            opened.store, box, rate=rate, dry_run=body.dry_run, clock=opened.clock, events=Events(), sees=who.sees
        )
        made.update(wanted)
    if done.run_ids:
        told = {"run_ids": list(done.run_ids[:100]), "runs": len(done.run_ids)}
        place = f"namespace/{namespace}"
        owner = who.only_owner or ""
        await record_change(request, "letters.replay", place, after=told, namespace=namespace, owner=owner)
    return done


async def _replay_these(request: Request, opened: OpenStore, who: Principal, body: Replay) -> Replayed:
    more = {"job", "fingerprint", "since", "until", "rate", "limit"} & body.model_fields_set
    if more:
        raise DefinitionError(f"run_ids: expected nothing else that says which, or how fast, got {sorted(more)}")
    runs = await visible_runs(opened.store, who, body.run_ids or ())
    for run in runs:
        if run.state is not RunState.DEAD or not (is_letter(run) or run.settled.startswith(REPLAYED)):
            what = run.settled or str(run.state)
            raise StateError(f"run {run.id}: expected one that is dead, and not discarded, got {what}")
    for run in {run.job_id: run for run in runs if is_letter(run)}.values():
        await job_of(opened.store, run, sees=who.sees)
    if body.dry_run:
        return Replayed(len(runs), dry_run=True)
    made: list[int] = []
    async with room_for_runs(request, Counter(owner_of(run) for run in runs if is_letter(run))) as new:
        for run in runs:
            _, run_id, is_new = await replay_letter(opened.store, run.id, clock=opened.clock, sees=who.sees)
            if is_new:
                new[owner_of(run)] += 1
                await record_change(request, "letters.replay", run, after={"run_id": run_id})
            made.append(run_id)
    return Replayed(len(runs), run_ids=tuple(made))


@routes.post("/dead-letters/discard", response_model=DiscardedOut, responses={404: {}})
async def discard_dead_letters(request: Request, opened: StoreDep, who: Who, body: Discard) -> Response:
    """Discard dead letters. The runs stay in history as dead, with the reason. 404 if you may not see one of them."""
    runs = await visible_runs(opened.store, who, body.run_ids)
    done = 0
    for start in range(0, len(runs), BATCH):  # each write is in the audit before the next one may fail
        some = {run.id: run for run in runs[start : start + BATCH]}
        for run_id in await discard_letters(opened.store, some, why=body.why):
            await record_change(request, "letters.discard", some[run_id], after={"why": body.why})
            done += 1
    return json_response({"discarded": done})
