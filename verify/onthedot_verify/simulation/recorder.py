"""`Recorder`: records each accepted and refused write of the store, in the same step as its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import Any

from onthedot.model.errors import KeyConflict
from onthedot.model.job import Job
from onthedot.model.job_json import encode
from onthedot.model.run import (
    LIVE,
    Armed,
    Blocked,
    Delayed,
    GateAsk,
    Lease,
    NewRun,
    RunRecord,
    RunState,
    Skipped,
    is_slot,
)
from onthedot.model.verdict import Finish, Verdict
from onthedot.model.window import ScheduleState, SkipRange, Window
from onthedot.stores.memory import MemoryStore
from onthedot.stores.queries import Queries
from onthedot.stores.values import Beat, Due, Layout, Node, PutJob, Replanned, Reserved, ReserveRequest, Term
from onthedot_verify.checker import Journal
from onthedot_verify.simulation.placement_recorder import PlacementRecorder
from onthedot_verify.simulation.transactions import RecordedTransactions

_ALL = 1_000_000

SENT: ContextVar[int] = ContextVar("sent", default=0)
"""When the current call was sent, by the store's clock; 0: unknown."""


class RecordedQueries:
    """The queries of a store. Reads of one run are recorded."""

    def __init__(self, queries: Queries, journal: Journal) -> None:
        self._queries = queries
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queries, name)

    async def get_run(self, run_id: int) -> RunRecord | None:
        found = await self._queries.get_run(run_id)
        self._journal.add("api", "read", run=run_id, state="" if found is None else str(found.state))
        return found


class Recorder(PlacementRecorder):
    """A store that records what it does in the journal."""

    zone_data: Callable[[str], str] | None = None
    """Returns the version of the zone data of a machine, by its name; None: all machines are this one."""

    # ── definitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def put_job(self, job: Job, windows: Sequence[Window] = (), **options: Any) -> PutJob:
        before = await self._look(self._last_of(job))
        put = await self._store.put_job(job, windows, **options)
        if put.change != "unchanged":
            job_id, revision = put.record.id, put.record.revision
            self._names[job_id] = job.name, job.namespace
            if job.after is not None:
                self._namespaces.add(job.namespace)
            after = await self._look(job_id)
            await self._note_gone(job_id, before.runs, after.runs)
            marks = self._note_plans(job_id, revision, before, after)
            self._note(
                "edit", job=job.name, job_id=job_id, rev=revision, change=put.change, definition=encode(job),
                marks=marks,
            )  # fmt: skip
            self._note_aside(after.runs.values())
        return put

    def _last_of(self, job: Job) -> int:
        """The id of the current or last job of that name; 0 if there was none."""
        named = [number for number, name in self._names.items() if name == (job.name, job.namespace)]
        return max(named, default=0)

    # ── plans and submits ────────────────────────────────────────────────────────────────────────────────────

    async def due_schedules(self, **options: Any) -> Due:
        due = await self._store.due_schedules(**options)
        self._note("pass", shard=options.get("shard", 0))
        return due

    async def plan(self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], **options: Any) -> list[bool]:
        answers = await self._store.plan(term, windows, **options)
        for (state, window), written in zip(windows, answers, strict=True):
            if not written:
                continue
            excepted = self._excepted.get(
                (state.record.id, window.schedule_id), {}
            )  # also exceptions that the caller did not know
            moved = [slot.slot_at for slot in window.slots if slot.slot_at in excepted]
            for skip in (*window.skips, *(SkipRange(slot, slot, 1, excepted[slot]) for slot in moved)):
                self._note_skip(state.record.id, window.schedule_id, skip)
            self._note(
                "plan", job_id=state.record.id, schedule=window.schedule_id, rev=state.record.revision,
                start=window.start, end=window.end,
                slots=[slot.slot_at for slot in window.slots if slot.slot_at not in moved],
                targets=list(window.targets), term=term.number, shard=term.shard, layout=term.layout,
                inc=term.incarnation,
            )  # fmt: skip
        return answers

    async def submit(self, runs: Sequence[NewRun], **options: Any) -> list[int]:
        try:
            ids = await self._store.submit(runs, **options)
        except KeyConflict:
            for run in runs:
                self._note("conflict", job_id=run.job_id, key=run.key, body=run.args)
            raise
        for run, number in zip(runs, ids, strict=True):
            self._note(
                "submit", run=number, job_id=run.job_id, trigger=run.trigger, slot=run.instant, due=run.due_at,
                body=run.args, key=run.key, expires=run.expires_at,
            )  # fmt: skip
        return ids

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────

    def _note_lease(self, ev: str, lease: Lease, fence: int, attempt: int, **facts: Any) -> None:
        if is_slot(lease.trigger) and lease.args is not None:
            facts["body"] = lease.args  # of a slot's schedule; `submit` has recorded other bodies
        self._note(
            ev, run=lease.run_id, job_id=lease.record.id, trigger=lease.trigger, slot=lease.slot_at,
            lease=lease.lease_id, attempt=attempt, fence=fence, inc=lease.incarnation, due=lease.due_at,
            rev=lease.record.revision, failures=lease.failures, recoveries=lease.recoveries, target=lease.target,
            **facts,
        )  # fmt: skip

    async def reserve(self, ask: ReserveRequest, **options: Any) -> Reserved:
        reserved = await self._store.reserve(ask, **options)
        for lease in reserved.held:
            until = max(lease.due_at, reserved.now) + ask.lapse
            self._note_lease("reserve", lease, lease.fence, lease.attempt, until=until)
        for lease in reserved.armed:
            quick = lease.record.id in ask.quick
            self._note_lease("arm", lease, lease.fence, lease.attempt, gates=[], quick=quick)
        return reserved

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, **options: Any
    ) -> list[Any]:
        asks = gates or {}
        replacing = [lease for lease in leases if _may_end_others(asks.get(lease.lease_id))]
        before = await self._live(replacing)
        answers: list[Any] = list(await self._store.arm(leases, gates=gates, **options))
        live = await self._live(replacing)
        told = {lease.run_id for lease, answer in zip(leases, answers, strict=True) if _closed(answer)}
        for lease in replacing:
            others = _of(lease, {number: run for number, run in before.items() if number not in told})
            await self._note_gone(lease.record.id, others, live)
            told |= others.keys()  # once, even if several leases replace it
        waiting: dict[int, RunRecord] = {}  # runs that wait since this call, which its later leases may replace
        for lease, answer in zip(leases, answers, strict=True):
            ask = asks.get(lease.lease_id)
            if _may_end_others(ask):
                replaced = {number: run for number, run in _of(lease, waiting).items() if number not in live}
                await self._note_gone(lease.record.id, replaced, live)
                waiting = {number: run for number, run in waiting.items() if number not in replaced}
            if isinstance(answer, Armed):
                taken = [list(gate) for gate in ask.gates] if ask is not None else []
                self._at_gates.discard(lease.run_id)
                rate = list(ask.rate) if ask is not None and ask.rate is not None else None
                self._note_lease("arm", lease, answer.fence, answer.attempt, gates=taken, rate=rate, sent=self._sent())
                continue
            await self._note_refusal(lease, answer, ask)
            if isinstance(answer, Blocked | Delayed) and lease.run_id in before:
                waiting[lease.run_id] = before[lease.run_id]
        return answers

    async def _live(self, leases: Sequence[Lease]) -> dict[int, RunRecord]:
        """The live runs of the jobs of these leases."""
        found: dict[int, RunRecord] = {}
        for job in {lease.record.job.name: lease.record.job for lease in leases}.values():
            runs = await self._store.queries.list_runs(job=job.name, namespace=job.namespace, states=LIVE, limit=_ALL)
            found |= {run.id: run for run in runs}
        return found

    async def _note_refusal(self, lease: Lease, answer: Any, ask: GateAsk | None) -> None:
        of = {
            "run": lease.run_id, "job_id": lease.record.id, "trigger": lease.trigger, "slot": lease.slot_at,
            "lease": lease.lease_id, "inc": lease.incarnation, "target": lease.target, "sent": self._sent(),
        }  # fmt: skip
        match answer:
            case Skipped(gate=gate, holder=holder):
                self._ended.add(lease.run_id)
                stored = await self._store.queries.get_run(lease.run_id)
                reason = "overlap" if stored is None else stored.reason
                self._note(
                    "expire", **of, state="skipped", reason=reason, gate=gate, holder=holder, ended=self.clock.now()
                )
            case Blocked(gate=gate, holder=holder):
                self._at_gates.add(lease.run_id)
                found = [[one.key, one.capacity, one.until_end] for one in ask.gates] if ask is not None else []
                stops = _replaces(ask) and gate.startswith("overlap:") and await self._is_replaced(holder)
                self._note("block", **of, gate=gate, holder=holder, gates=found, stops=stops)
                if stops:
                    self._note("cancel", run=holder, kind="asked", state=str(RunState.RUNNING), why="replaced")
            case Delayed(until=until):
                kept = [[one.key, one.capacity, True] for one in ask.gates if one.until_end] if ask is not None else []
                self._note("release", **of, ok=True, delayed=True, due=until, gates=kept)
            case _:
                self._note({"Gone": "gone", "Busy": "busy"}[type(answer).__name__], **of, ok=True)

    def _sent(self) -> int:
        """When the current call was sent, by the store's clock."""
        return SENT.get() or self.clock.now()

    async def _is_replaced(self, holder: int) -> bool:
        """Whether a running run was asked to stop for another slot."""
        standing = await self._store.queries.why_waiting(holder)
        run = await self._store.queries.get_run(holder)
        if standing is None or run is None or run.state is not RunState.RUNNING:
            return False
        return standing.cancel_wanted == "replaced" and is_slot(run.trigger)

    async def release(self, leases: Sequence[Lease], **options: Any) -> list[bool]:
        answers = await self._store.release(leases, **options)
        for lease, ok in zip(leases, answers, strict=True):
            self._note("release", run=lease.run_id, lease=lease.lease_id, inc=lease.incarnation, ok=ok)
        return answers

    async def finish(self, finishes: Sequence[Finish], **options: Any) -> list[bool]:
        answers = await self._store.finish(finishes, **options)
        for finish, ok in zip(finishes, answers, strict=True):
            await self._note_verdict("finish", finish.lease, finish.verdict, ok, finish.ended_at)
        if any(answers):
            await self._note_followers()
        return answers

    @cached_property
    def transactions(self) -> RecordedTransactions | None:
        """The transactions of the memory store. The effects of other stores cannot be read here."""
        if not isinstance(self._store, MemoryStore):
            return None
        return RecordedTransactions(
            self._store,
            lambda run_id, fence: self._note("effect", run=run_id, fence=fence),
            lambda finish, ok: self._note_verdict("finish", finish.lease, finish.verdict, ok, finish.ended_at),
        )

    async def reap(self, verdicts: Sequence[tuple[Lease, Verdict]], **options: Any) -> list[bool]:
        answers = await self._store.reap(verdicts, **options)
        for (lease, verdict), ok in zip(verdicts, answers, strict=True):
            await self._note_verdict("reap", lease, verdict, ok, self.clock.now())
        if any(answers):
            await self._note_followers()
        return answers

    async def _note_verdict(self, ev: str, lease: Lease, verdict: Verdict, ok: bool, ended: int) -> None:
        """Record a verdict with the state that it got. A delete or a cancel may have changed a retry."""
        state = verdict.state
        if ok and state is RunState.SCHEDULED:
            stored = await self._store.queries.get_run(lease.run_id)
            state = state if stored is None or stored.state is not RunState.CANCELLED else stored.state
        if ok and state is not RunState.SCHEDULED:
            self._ended.add(lease.run_id)
        self._note(
            ev, run=lease.run_id, lease=lease.lease_id, attempt=lease.attempt, inc=lease.incarnation, ok=ok,
            state=str(state), sent=str(verdict.state), outcome=str(verdict.outcome), due=verdict.due_at,
            failed=verdict.failed, recovered=verdict.recovered, ended=ended,
        )  # fmt: skip

    async def expire(self, **options: Any) -> list[RunRecord]:
        missed = await self._store.expire(**options)
        for run in missed:
            self._ended.add(run.id)
            job = await self._store.queries.get_job(run.job, namespace=run.namespace)
            self._note(
                "expire", run=run.id, job_id=job.id if job else 0, trigger=run.trigger, slot=run.slot_at,
                target=run.target, state=str(run.state), reason=run.reason, ended=run.ended_at or 0,
            )  # fmt: skip
        if missed:
            await self._note_followers()
        return missed

    @cached_property
    def queries(self) -> RecordedQueries:
        return RecordedQueries(self._store.queries, self._journal)

    # ── nodes and terms ──────────────────────────────────────────────────────────────────────────────────────

    async def register(self, node: Node, *, ttl: int, **options: Any) -> Beat:
        if self.zone_data is not None:
            node = replace(node, tzdata=self.zone_data(node.id))
        beat = await self._store.register(node, ttl=ttl, **options)
        self._note(
            "join", inc=node.incarnation, ttl=ttl, node_id=node.id, queues=list(node.queues), labels=list(node.labels),
            tzdata=node.tzdata if "planner" in node.roles else "",
        )  # fmt: skip
        return beat

    async def beat(self, incarnation: str, *, ttl: int, **options: Any) -> Beat:
        beat = await self._store.beat(incarnation, ttl=ttl, **options)
        if options.get("draining"):
            self._note("drain", inc=incarnation, draining=True)
        self._note("beat", inc=incarnation, ttl=ttl, cancels=[list(cancel) for cancel in beat.cancels])
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
            self._note(
                "elect", inc=term.incarnation, term=term.number, shard=term.shard, layout=term.layout, until=term.until,
                tzdata=term.tzdata, zones=term.zones,
            )  # fmt: skip
        return term

    async def set_shards(self, shards: int, **options: Any) -> Layout:
        before = await self._store.queries.get_layout()
        layout = await self._store.set_shards(shards, **options)
        if layout != before:
            self._note("layout", version=layout.version, shards=layout.shards)
        return layout

    async def replan(self, term: Term, rows: Sequence[Replanned], **options: Any) -> list[bool]:
        answers = await self._store.replan(term, rows, **options)
        for row in [row for row, written in zip(rows, answers, strict=True) if written]:
            self._note(
                "replan", job_id=row.job_id, schedule=row.schedule_id, term=term.number, shard=term.shard,
                layout=term.layout,
            )  # fmt: skip
        if options.get("done"):
            self._note("zones", term=term.number, shard=term.shard, layout=term.layout, zones=term.tzdata)
        return answers

    async def resign(self, term: Term, **options: Any) -> bool:
        ok = await self._store.resign(term, **options)
        if ok:
            self._note("resign", inc=term.incarnation, term=term.number, shard=term.shard, until=self.clock.now())
        return ok


def _of(lease: Lease, runs: dict[int, RunRecord]) -> dict[int, RunRecord]:
    return {number: run for number, run in runs.items() if run.job == lease.record.job.name}


def _closed(answer: Any) -> bool:
    return isinstance(answer, Blocked | Delayed | Skipped)


def _may_end_others(ask: GateAsk | None) -> bool:
    """Whether this ask may end other slots of the job: it is due, and its job does not overlap itself."""
    return ask is not None and ask.on_busy is not None and any(gate.until_end for gate in ask.gates)


def _replaces(ask: GateAsk | None) -> bool:
    return ask is not None and ask.on_busy is not None and ask.on_busy.action == "replace"
