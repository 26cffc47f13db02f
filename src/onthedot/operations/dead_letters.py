"""Dead letters: lists dead runs, groups them by the cause, and replays or discards them.

A replay stores a new run for the same instant, with the same arguments. Its key is `rerun:<the old one's id>`, so that
repeated replays give the same run. Then the old run is settled, and leaves the box. If the second write is lost, the
letter stays in the box, and another replay only settles it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from onthedot.clock import Clock, Micros, to_datetime, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import DefinitionError, StateError, UnknownRun
from onthedot.model.events import Events, RunsReplayed
from onthedot.model.job import JobRecord
from onthedot.model.policies import Rate
from onthedot.model.retention import Mark
from onthedot.model.run import NewRun, RunRecord, RunState, rerun_trigger, stored_number
from onthedot.operations.job_lookup import Sees, job_of, jobs_of, sees_all
from onthedot.operations.run_request import SubmittedRun
from onthedot.operations.session import Session, known_number
from onthedot.rules import fingerprint as policy
from onthedot.schedules.instants import format_instant, read_instant
from onthedot.stores.protocol import Store
from onthedot.stores.values import LAST_MARK, most

BATCH = 500
"""How many letters one write handles. The engine does other work in between."""

TURN = 25
"""How many fingerprints are computed in one turn of the loop."""

REPLAYED = "replayed:"
DISCARDED = "discarded:"


class Box(NamedTuple):
    """Selects letters: of a job, of one fingerprint, of runs that ended from `since` on and before `until`, of jobs of
    one owner. With a mark, it selects the letters after it: the next page.
    """

    job: str | None = None
    namespace: str = "default"
    fingerprint: str | None = None
    since: datetime | str | None = None
    until: datetime | str | None = None
    limit: int | None = 10_000  # None: all
    owner: str | None = None
    before: Mark = LAST_MARK


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Letters of one job with the same cause."""

    fingerprint: str
    job: str
    namespace: str
    error_type: str  # empty: not an error of the handler
    error: str  # the common part of their error texts
    count: int
    first: datetime  # when the first of them ended
    last: datetime
    example: RunRecord  # the newest


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay, or of its dry run.

    >>> print(Replayed(3, without_job=1, dry_run=True))
    3 dead letters: 2 new runs would be made, 1 is of a job that is gone
    """

    letters: int
    without_job: int = 0  # letters whose job was deleted: they stay in the box
    first_due: datetime | None = None
    last_due: datetime | None = None
    run_ids: tuple[int, ...] = ()  # the run of the oldest letter first; empty after a dry run
    dry_run: bool = False

    @property
    def runs(self) -> int:
        """The number of runs that were made, or would be made."""
        return self.letters - self.without_job

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, at: Callable[[datetime], str] = format_instant) -> str:
        """The same with instants as the reader wants them."""
        if not self.letters:
            return "no dead letters match"
        told = [f"{_count(self.runs, 'new run')}{' would be made' if self.dry_run else ''}"]
        if self.first_due is not None and self.last_due is not None and self.last_due > self.first_due:
            told.append(f"due from {at(self.first_due)} to {at(self.last_due)}")
        if self.without_job:
            told.append(f"{self.without_job} {'is' if self.without_job == 1 else 'are'} of a job that is gone")
        return f"{_count(self.letters, 'dead letter')}: {', '.join(told)}"


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def find_letters(store: Store, box: Box) -> list[RunRecord]:
    """Return the selected letters, newest end first, up to the limit."""
    found: list[RunRecord] = []
    async for run in _letters(store, box):
        if len(found) == box.limit:
            break
        found.append(run)
    return found


async def group_letters(store: Store, box: Box) -> list[DeadLetters]:
    """Return the newest `limit` selected letters, grouped by fingerprint. The group with the latest end comes first."""
    groups: dict[str, list[RunRecord]] = {}
    async for run, name in _fingerprinted(await find_letters(store, box)):
        groups.setdefault(name, []).append(run)
    return [_group(name, runs) for name, runs in groups.items()]


def _group(name: str, runs: Sequence[RunRecord]) -> DeadLetters:
    newest, oldest = runs[0], runs[-1]
    return DeadLetters(
        name,
        newest.job,
        newest.namespace,
        policy.error_type(_died_of(newest)),
        policy.common_text(_died_of(newest)),
        len(runs),
        to_datetime(oldest.ended_at or 0),
        to_datetime(newest.ended_at or 0),
        newest,
    )


def is_letter(run: RunRecord) -> bool:
    """Return whether a run is in the box."""
    return run.state is RunState.DEAD and not run.settled


def fingerprint_of(run: RunRecord) -> str:
    """Return the fingerprint of a run's error: twelve characters."""
    return policy.fingerprint(run.namespace, run.job, _died_of(run))


def _died_of(run: RunRecord) -> str:
    return run.error or run.reason


async def _letters(store: Store, box: Box) -> AsyncIterator[RunRecord]:
    """Return all selected letters, page by page."""
    if box.limit is not None and box.limit < 1:
        raise DefinitionError(f"limit: expected a whole number above zero, got {box.limit!r}")
    since = 0 if box.since is None else _instant(box.since, "since")
    mark = box.before if box.until is None else min(box.before, Mark(_instant(box.until, "until"), 0))
    while page := await store.queries.list_dead(
        job=box.job, namespace=box.namespace, since=since, before=mark, limit=BATCH
    ):
        own = page if box.owner is None else [run for run in page if run.owner == box.owner]
        if box.fingerprint is None:
            for run in own:
                yield run
        else:
            async for run, name in _fingerprinted(own):
                if name == box.fingerprint:
                    yield run
        if len(page) < BATCH:
            return
        mark = Mark(page[-1].ended_at or 0, page[-1].id)


async def _fingerprinted(runs: Sequence[RunRecord]) -> AsyncIterator[tuple[RunRecord, str]]:
    """Return runs with their fingerprints. Each takes up to 0.2 ms, so other tasks get turns in between."""
    for number, run in enumerate(runs):
        if number % TURN == 0:
            await asyncio.sleep(0)
        yield run, fingerprint_of(run)


def _instant(given: datetime | str, what: str) -> Micros:
    return to_micros(read_instant(given, what=what))


# ── replaying ────────────────────────────────────────────────────────────────────────────────────────────────────


async def replay_letter(
    store: Store, run_id: int, *, clock: Clock, sees: Sees = sees_all
) -> tuple[RunRecord, int, bool]:
    """Run a dead run again. Return the letter, the new run's id, and whether this call has made it. A repeated call
    returns the same run. Raise `StateError` if the run is not dead, or was discarded; `UnknownRun`, `UnknownJob` if it
    or its job is gone.
    """
    letter = await store.queries.get_run(run_id)
    if letter is None:
        raise UnknownRun(f"there is no run {run_id}: expected one that is dead and not removed")
    if letter.state is not RunState.DEAD:
        raise StateError(f"run {run_id}: expected one that is dead, got {letter.state}; ask for a new run instead")
    if letter.settled.startswith(REPLAYED):
        return letter, int(letter.settled.removeprefix(REPLAYED)), False
    if letter.settled:
        raise StateError(f"run {run_id} was settled before ({letter.settled}); ask for a new run instead")
    record = await job_of(store, letter, sees=sees)
    [(new_id, made)] = await _replay_batch(store, [(letter, record, clock.now())])
    return letter, new_id, made


async def replay_letters(
    store: Store,
    box: Box,
    *,
    rate: Rate | None,
    dry_run: bool,
    clock: Clock,
    events: Events,
    sees: Sees = sees_all,
) -> Replayed:
    """Store a new run for each selected letter, oldest first. The runs are due at once, or spread over time by the
    rate. If there are more than the limit, raise `DefinitionError` and write nothing. With `dry_run` nothing is
    written.
    """
    letters = await find_letters(store, box._replace(limit=most(box.limit) + 1))
    if len(letters) > most(box.limit):
        raise DefinitionError(
            f"limit: expected at most {box.limit} dead letters, got more; choose fewer, or raise the limit"
        )
    records = await jobs_of(store, letters, sees=sees)
    doable = [(run, records[run.job_id]) for run in reversed(letters) if run.job_id in records]
    now = clock.now()
    asked = [(run, record, _due(now, number, rate)) for number, (run, record) in enumerate(doable)]
    answer = Replayed(len(letters), len(letters) - len(doable), dry_run=dry_run)
    if not asked:
        return answer
    ids: list[int] = []
    for start in range(0, 0 if dry_run else len(asked), BATCH):
        ids += [run_id for run_id, _ in await _replay_batch(store, asked[start : start + BATCH])]
        events.emit(RunsReplayed(len(ids), len(asked)))
    return Replayed(
        answer.letters, answer.without_job, to_datetime(asked[0][2]), to_datetime(asked[-1][2]), tuple(ids), dry_run
    )


def _due(now: Micros, number: int, rate: Rate | None) -> Micros:
    """Return when the run with this number is due.

    >>> [_due(0, number, Rate(3, "1s")) for number in range(4)]
    [0, 333334, 666667, 1000000]
    """
    return now if rate is None else now - (-number * micros(rate.per) // rate.most)


async def _replay_batch(store: Store, asked: Sequence[tuple[RunRecord, JobRecord, Micros]]) -> list[tuple[int, bool]]:
    """Store the runs, then settle the letters. This order loses no letter if the process dies in between."""
    new = [NewRun(record.id, rerun_trigger(run.id), due, run.args, slot_at=run.slot_at) for run, record, due in asked]
    ids = await store.submit(new)
    letters = [(run.id, f"{REPLAYED}{run_id}") for (run, _, _), run_id in zip(asked, ids, strict=True)]
    return list(zip(ids, await store.settle_dead(letters), strict=True))


# ── discarding ───────────────────────────────────────────────────────────────────────────────────────────────────


async def discard_letters(store: Store, run_ids: Iterable[int], *, why: str = "") -> list[int]:
    """Remove letters from the box, for a reason. Return which of them were in it. The runs stay in history as dead."""
    if len(why) > 200:
        raise DefinitionError(f"why: expected at most 200 characters, got {len(why)}: {why[:40]!r}…")
    ids = list(dict.fromkeys(int(run_id) for run_id in run_ids if stored_number(run_id)))
    done: list[int] = []
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        settled = await store.settle_dead([(run_id, DISCARDED + why) for run_id in some])
        done += [run_id for run_id, by_this in zip(some, settled, strict=True) if by_this]
    return done


# ── the verbs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def dead_letters(
    session: Session,
    job: str | None = None,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    limit: int = 10_000,
) -> list[DeadLetters]:
    """See `Verbs.dead_letters`."""
    return await group_letters(session.store, Box(job, session.namespace_of(job or ""), None, since, until, limit))


async def dead_runs(
    session: Session,
    job: str | None = None,
    *,
    fingerprint: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    limit: int | None = None,
) -> list[RunRecord]:
    """See `Verbs.dead_runs`."""
    box = Box(job, session.namespace_of(job or ""), fingerprint, since, until, limit)
    return await find_letters(session.store, box)


async def replay(session: Session, run_id: int) -> SubmittedRun:
    """See `Verbs.replay`."""
    letter, new_id, made = await replay_letter(session.store, known_number(run_id), clock=session.clock)
    if made:
        await session.changed("letters.replay", letter, after={"run_id": new_id})
    return SubmittedRun(new_id, letter.job, made)


async def replay_many(
    session: Session,
    job: str | None = None,
    *,
    fingerprint: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    rate: Rate | None = None,
    limit: int = 10_000,
    dry_run: bool = False,
) -> Replayed:
    """See `Verbs.replay_many`."""
    box = Box(job, session.namespace_of(job or ""), fingerprint, since, until, limit)
    done = await replay_letters(
        session.store, box, rate=rate, dry_run=dry_run, clock=session.clock, events=session.events
    )
    if done.run_ids:
        told = {"run_ids": list(done.run_ids[:100]), "runs": len(done.run_ids)}
        place = f"namespace/{box.namespace}"
        await session.changed("letters.replay", place, after=told, namespace=box.namespace)
    return done


async def discard(session: Session, run_ids: Iterable[int], *, why: str = "") -> int:
    """See `Verbs.discard`."""
    done = await discard_letters(session.store, run_ids, why=why)
    if session.recorder is not None:
        runs = await session.store.queries.get_runs(done)
        await session.recorder.all_changed("letters.discard", runs, after={"why": why})
    return len(done)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
