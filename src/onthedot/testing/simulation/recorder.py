"""The store's side of the history: every accepted and refused write, noted in the same step as its commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.job import Job
from onthedot.run import LIVE, Armed, Lease, NewRun, RunRecord, slot_trigger
from onthedot.stores.base import Ask, Beat, Due, Node, PutJob, Reserved, ScheduleState, Store, Term, Window
from onthedot.stores.definitions import encode
from onthedot.testing.checker import Journal
from onthedot.verdict import Finish, Verdict

_ALL = 1_000_000
_REFUSALS = {"Gone": "gone", "Busy": "busy", "Blocked": "block", "Delayed": "block", "Skipped": "expire"}


class Recorder:
    """A store that tells the journal what it did. What it does not know by name it passes on."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        if store.clock is None:
            raise TypeError(f"expected a store on this machine's clock, got {store!r}")
        self.clock = store.clock
        self.hints = store.hints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _note(self, ev: str, **facts: Any) -> None:
        self._journal.add("store", ev, **facts)

    # ── definitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def put_job(self, job: Job, windows: Sequence[Window] = (), **options: Any) -> PutJob:
        before = await self._look(job)
        put = await self._store.put_job(job, windows, **options)
        if put.change != "unchanged":
            self._note_edit(job, put, before, await self._look(job))
        return put

    async def _look(self, job: Job) -> tuple[dict[int, RunRecord], dict[str, Any], list[Any]]:
        """What an edit may change: the live runs, the marks of the schedules, the skips."""
        stored = await self._store.get_job(job.name, namespace=job.namespace)
        if stored is None:
            return {}, {}, []
        runs = await self._store.list_runs(job=job.name, namespace=job.namespace, states=LIVE, limit=_ALL)
        states = await self._store.schedules_of(stored.id)
        skips = await self._store.list_skips(job=job.name, namespace=job.namespace, limit=_ALL)
        marks = {state.schedule_id: {"origin": state.origin, "watermark": state.watermark} for state in states}
        return {run.id: run for run in runs}, marks, skips

    def _note_edit(self, job: Job, put: PutJob, before: Any, after: Any) -> None:
        (runs, marks, skips), (runs_now, marks_now, skips_now) = before, after
        job_id, revision = put.record.id, put.record.revision
        for run in sorted(runs.keys() - runs_now.keys()):
            gone = runs[run]
            self._note("withdraw", run=run, job_id=job_id, trigger=gone.trigger, slot=gone.slot_at)
        known = {(skip.schedule_id, skip.first, skip.reason): skip for skip in skips}
        for skip in sorted(skips_now, key=lambda skip: (skip.schedule_id, skip.first)):
            old = known.get((skip.schedule_id, skip.first, skip.reason))
            if old is None or old.count != skip.count:
                self._note_skip(job_id, skip.schedule_id, skip, old.last if old else 0, old.count if old else 0)
        new = [runs_now[run] for run in sorted(runs_now.keys() - runs.keys())]
        for schedule in sorted(marks_now):
            slots = [run.slot_at for run in new if run.trigger == slot_trigger(schedule)]
            mark = marks_now[schedule]
            self._note(
                "plan", job_id=job_id, schedule=schedule, rev=revision, slots=slots, term=0,
                start=mark["origin"], end=mark["watermark"],
            )  # fmt: skip
        both = {name: [marks.get(name), marks_now.get(name)] for name in sorted(marks | marks_now)}
        self._note(
            "edit", job=job.name, job_id=job_id, rev=revision, change=put.change, definition=encode(job), marks=both
        )

    def _note_skip(self, job_id: int, schedule: str, skip: Any, after: int = 0, before: int = 0) -> None:
        self._note(
            "skip", job_id=job_id, schedule=schedule, after=after, first=skip.first, last=skip.last,
            count=skip.count - before, reason=skip.reason,
        )  # fmt: skip

    # ── plans and submits ────────────────────────────────────────────────────────────────────────────────────

    async def due_schedules(self, **options: Any) -> Due:
        due = await self._store.due_schedules(**options)
        self._note("pass")
        return due

    async def plan(self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], **options: Any) -> list[bool]:
        answers = await self._store.plan(term, windows, **options)
        for (state, window), written in zip(windows, answers, strict=True):
            if not written:
                continue
            for skip in window.skips:
                self._note_skip(state.record.id, window.schedule_id, skip)
            self._note(
                "plan", job_id=state.record.id, schedule=window.schedule_id, rev=state.record.revision,
                start=window.start, end=window.end, slots=[slot.slot_at for slot in window.slots],
                term=term.number, shard=term.shard, inc=term.incarnation,
            )  # fmt: skip
        return answers

    async def submit(self, runs: Sequence[NewRun], **options: Any) -> list[int]:
        ids = await self._store.submit(runs, **options)
        for run, number in zip(runs, ids, strict=True):
            self._note(
                "submit", run=number, job_id=run.job_id, trigger=run.trigger, slot=run.due_at, due=run.due_at,
                body=run.args,
            )  # fmt: skip
        return ids

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────

    def _note_lease(self, ev: str, lease: Lease, fence: int, attempt: int, **facts: Any) -> None:
        self._note(
            ev, run=lease.run_id, job_id=lease.record.id, trigger=lease.trigger, slot=lease.slot_at,
            lease=lease.lease_id, attempt=attempt, fence=fence, inc=lease.incarnation, due=lease.due_at,
            rev=lease.record.revision, failures=lease.failures, recoveries=lease.recoveries, **facts,
        )  # fmt: skip

    async def reserve(self, ask: Ask, **options: Any) -> Reserved:
        reserved = await self._store.reserve(ask, **options)
        for lease in reserved.held:
            until = max(lease.due_at, reserved.now) + ask.lapse
            self._note_lease("reserve", lease, lease.fence, lease.attempt, until=until)
        for lease in reserved.armed:
            self._note_lease("arm", lease, lease.fence, lease.attempt)
        return reserved

    async def arm(self, leases: Sequence[Lease], **options: Any) -> list[Any]:
        answers: list[Any] = list(await self._store.arm(leases, **options))
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, Armed):
                self._note_lease("arm", lease, answer.fence, answer.attempt)
                continue
            ev = _REFUSALS[type(answer).__name__]
            self._note(
                ev, run=lease.run_id, job_id=lease.record.id, trigger=lease.trigger, slot=lease.slot_at,
                lease=lease.lease_id, inc=lease.incarnation, state="skipped", reason="overlap",
                ended=self.clock.now(),
            )  # fmt: skip
        return answers

    async def release(self, leases: Sequence[Lease], **options: Any) -> list[bool]:
        answers = await self._store.release(leases, **options)
        for lease, ok in zip(leases, answers, strict=True):
            self._note("release", run=lease.run_id, lease=lease.lease_id, inc=lease.incarnation, ok=ok)
        return answers

    async def finish(self, finishes: Sequence[Finish], **options: Any) -> list[bool]:
        answers = await self._store.finish(finishes, **options)
        for finish, ok in zip(finishes, answers, strict=True):
            self._note_verdict("finish", finish.lease, finish.verdict, ok, finish.ended_at)
        return answers

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], **options: Any) -> list[bool]:
        answers = await self._store.reap(verdicts, **options)
        for (lease, verdict), ok in zip(verdicts, answers, strict=True):
            self._note_verdict("reap", lease, verdict, ok, self.clock.now())
        return answers

    def _note_verdict(self, ev: str, lease: Lease, verdict: Verdict, ok: bool, ended: int) -> None:
        self._note(
            ev, run=lease.run_id, lease=lease.lease_id, attempt=lease.attempt, inc=lease.incarnation, ok=ok,
            state=str(verdict.state), outcome=str(verdict.outcome), due=verdict.due_at, failed=verdict.failed,
            recovered=verdict.recovered, ended=ended,
        )  # fmt: skip

    async def expire(self, **options: Any) -> list[RunRecord]:
        missed = await self._store.expire(**options)
        for run in missed:
            job = await self._store.get_job(run.job, namespace=run.namespace)
            self._note(
                "expire", run=run.id, job_id=job.id if job else 0, trigger=run.trigger, slot=run.slot_at,
                state=str(run.state), reason=run.reason, ended=run.ended_at or 0,
            )  # fmt: skip
        return missed

    async def get_run(self, run_id: int) -> RunRecord | None:
        found = await self._store.get_run(run_id)
        self._journal.add("api", "read", run=run_id, state="" if found is None else str(found.state))
        return found

    # ── nodes and terms ──────────────────────────────────────────────────────────────────────────────────────

    async def register(self, node: Node, *, ttl: int, **options: Any) -> Beat:
        beat = await self._store.register(node, ttl=ttl, **options)
        self._note("join", inc=node.incarnation, ttl=ttl)
        return beat

    async def beat(self, incarnation: str, *, ttl: int, **options: Any) -> Beat:
        beat = await self._store.beat(incarnation, ttl=ttl, **options)
        self._note("beat", inc=incarnation, ttl=ttl)
        return beat

    async def leave(self, incarnation: str, **options: Any) -> None:
        await self._store.leave(incarnation, **options)
        self._note("leave", inc=incarnation)

    async def campaign(self, incarnation: str, *, ttl: int, **options: Any) -> Term | None:
        term = await self._store.campaign(incarnation, ttl=ttl, **options)
        return self._note_term(term)

    async def renew(self, term: Term, *, ttl: int, **options: Any) -> Term | None:
        renewed = await self._store.renew(term, ttl=ttl, **options)
        return self._note_term(renewed)

    def _note_term(self, term: Term | None) -> Term | None:
        if term is not None:
            self._note("elect", inc=term.incarnation, term=term.number, shard=term.shard, until=term.until)
        return term

    async def resign(self, term: Term, **options: Any) -> bool:
        ok = await self._store.resign(term, **options)
        if ok:
            self._note("resign", inc=term.incarnation, term=term.number, shard=term.shard, until=self.clock.now())
        return ok
