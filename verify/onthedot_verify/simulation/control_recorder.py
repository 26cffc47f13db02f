"""`ControlRecorder`: records pauses, resumes, deletes, cancels and upkeep of the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from onthedot.model.job import JobState
from onthedot.model.retention import Cut, Pruned
from onthedot.model.run import AFTER_PREFIX, LIVE, RunRecord, RunState, slot_trigger
from onthedot.model.window import ExceptReason, Window
from onthedot.stores.protocol import Store
from onthedot.stores.values import CancelAnswer, MovedSlot, Paused, Resumed
from onthedot_verify.checker import Journal

_ALL = 1_000_000


@dataclass(slots=True)
class Look:
    """What a definition change may change of one job: its live runs, the marks of its schedules, its skips."""

    runs: dict[int, RunRecord] = field(default_factory=dict)
    marks: dict[str, dict[str, int]] = field(default_factory=dict)
    skips: list[Any] = field(default_factory=list)


class ControlRecorder:
    """Records pause, resume, delete, cancel, prune and the recount of gates. Other calls go to the store."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._names: dict[int, tuple[str, str]] = {}  # name and namespace of each job that was ever stored
        self._ended: set[int] = set()  # runs whose end is recorded
        self._at_gates: set[int] = set()  # runs that met a closed gate and were not armed since
        self._namespaces: set[str] = set()  # namespaces of jobs that run after others
        self._followed: set[int] = set()  # runs of such jobs that are recorded
        self._excepted: defaultdict[tuple[int, str], dict[int, str]] = defaultdict(dict)  # slot → reason, by schedule
        if store.clock is None:
            raise TypeError(f"expected a store on this machine's clock, got {store!r}")
        self.clock = store.clock
        self.hints = store.hints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _note(self, ev: str, **facts: Any) -> None:
        self._journal.add("store", ev, **facts)

    # ── before and after ─────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, job_id: int) -> Look:
        """Look by the job's name, because a deleted job of that name may have left some rows."""
        if job_id not in self._names:
            return Look()
        name, namespace = self._names[job_id]
        runs = await self._store.queries.list_runs(job=name, namespace=namespace, states=LIVE, limit=_ALL)
        states = await self._store.queries.schedules_of(job_id)
        skips = await self._store.queries.list_skips(job=name, namespace=namespace, limit=_ALL)
        marks = {state.schedule_id: {"origin": state.origin, "watermark": state.watermark} for state in states}
        return Look({run.id: run for run in runs}, marks, skips)

    async def _note_gone(self, job_id: int, before: dict[int, RunRecord], after: dict[int, RunRecord]) -> None:
        """Record what happened to runs that are no longer live: withdrawn, or ended in the same write."""
        for number in sorted(before.keys() - after.keys()):
            old, now = before[number], await self._store.queries.get_run(number)
            of = {"run": number, "job_id": job_id, "trigger": old.trigger, "slot": old.slot_at, "target": old.target}
            if now is None:
                self._note("withdraw", **of)
            elif now.state is RunState.CANCELLED:
                self._ended.add(number)
                self._note(
                    "cancel", **of, kind="cancelled", state=str(now.state), why=now.reason, ended=now.ended_at,
                    due=old.due_at,
                )  # fmt: skip
            else:
                self._ended.add(number)
                self._note("expire", **of, state=str(now.state), reason=now.reason, ended=now.ended_at)

    def _note_aside(self, runs: Iterable[RunRecord]) -> None:
        """Record runs that a write has sent back from their gates: they hold no limit any more."""
        for run in runs:
            if run.id in self._at_gates and run.state is not RunState.RUNNING:
                self._at_gates.discard(run.id)
                self._note("aside", run=run.id)

    async def _note_followers(self) -> None:
        """Record the runs that a write has inserted because it ended their parents."""
        for namespace in sorted(self._namespaces):
            live = await self._store.queries.list_runs(namespace=namespace, states=LIVE, limit=_ALL)
            new = [run for run in live if run.trigger.startswith(AFTER_PREFIX) and run.id not in self._followed]
            for run in sorted(new, key=lambda run: run.id):
                self._followed.add(run.id)
                job_id = max(number for number, name in self._names.items() if name == (run.job, namespace))
                self._note(
                    "follow", run=run.id, job_id=job_id, trigger=run.trigger, slot=run.slot_at, due=run.due_at,
                    target=run.target,
                )  # fmt: skip

    def _note_plans(self, job_id: int, revision: int, before: Look, after: Look) -> dict[str, list[Any]]:
        """Record the new skips and runs of a definition change. Returns its marks, as schedule → [before, after]."""
        known = {(skip.schedule_id, skip.first, skip.reason): skip for skip in before.skips}
        for skip in sorted(after.skips, key=lambda skip: (skip.schedule_id, skip.first)):
            old = known.get((skip.schedule_id, skip.first, skip.reason))
            if old is None or old.count != skip.count:
                self._note_skip(job_id, skip.schedule_id, skip, old.last if old else 0, old.count if old else 0)
        new = [after.runs[run] for run in sorted(after.runs.keys() - before.runs.keys())]
        for schedule in sorted(after.marks):
            mark = after.marks[schedule]
            mine = [run for run in new if run.trigger == slot_trigger(schedule)]
            self._note(
                "plan", job_id=job_id, schedule=schedule, rev=revision, term=0, start=mark["origin"],
                end=mark["watermark"], slots=sorted({run.slot_at for run in mine}),
                targets=sorted({run.target for run in mine}),
            )  # fmt: skip
        return _both(before, after)

    def _note_skip(self, job_id: int, schedule: str, skip: Any, after: int = 0, before: int = 0) -> None:
        self._note(
            "skip", job_id=job_id, schedule=schedule, after=after, first=skip.first, last=skip.last,
            count=skip.count - before, reason=skip.reason,
        )  # fmt: skip

    # ── control ──────────────────────────────────────────────────────────────────────────────────────────────

    async def pause_job(self, job_id: int, **options: Any) -> Paused:
        before = await self._look(job_id)
        paused = await self._store.pause_job(job_id, **options)
        after = await self._look(job_id)
        await self._note_gone(job_id, before.runs, after.runs)
        for run in after.runs.values():
            if paused.held and run.state is not RunState.RUNNING:
                self._note("hold", run=run.id, job_id=job_id, trigger=run.trigger, slot=run.slot_at, target=run.target)
        self._note(
            "pause", job_id=job_id, until=options.get("until"), marks=_both(before, after),
            answer=[paused.withdrawn, paused.skipped, paused.held],
        )  # fmt: skip
        return paused

    async def resume_job(
        self, job_id: int, windows: Sequence[Window] = (), *, dry_run: bool = False, **options: Any
    ) -> Resumed:
        name, namespace = self._names[job_id]
        stored = await self._store.queries.get_job(name, namespace=namespace)
        paused = stored is not None and stored.id == job_id and stored.state is JobState.PAUSED
        before = await self._look(job_id)
        resumed = await self._store.resume_job(job_id, windows, dry_run=dry_run, **options)
        if paused:
            marks: dict[str, list[Any]] = {}
            if not dry_run:
                marks = self._note_plans(job_id, resumed.record.revision, before, await self._look(job_id))
            self._note(
                "preview" if dry_run else "resume", job_id=job_id, marks=marks, slots=sorted(resumed.slots),
                skips=[[skip.first, skip.last, skip.count] for skip in resumed.skips], released=resumed.released,
                windows=[[window.schedule_id, window.start, window.end] for window in windows],
            )  # fmt: skip
        return resumed

    async def move_slot(
        self, job_id: int, schedule_id: str, slot_at: int, *, reason: ExceptReason, **options: Any
    ) -> MovedSlot:
        before = await self._look(job_id)
        excepted = await self._store.move_slot(job_id, schedule_id, slot_at, reason=reason, **options)
        after = await self._look(job_id)
        await self._note_gone(job_id, before.runs, after.runs)
        self._excepted[job_id, schedule_id][slot_at] = reason
        for run in [after.runs[number] for number in sorted(after.runs.keys() - before.runs.keys())]:
            self._note(
                "submit", run=run.id, job_id=job_id, trigger=run.trigger, slot=run.slot_at, due=run.due_at,
                body=run.args, key="", expires=None,
            )  # fmt: skip
        return excepted

    async def delete_job(self, job_id: int, **options: Any) -> int:
        before = await self._look(job_id)
        count = await self._store.delete_job(job_id, **options)
        await self._note_gone(job_id, before.runs, (await self._look(job_id)).runs)
        self._note("delete", job_id=job_id, answer=count)
        await self._note_followers()
        return count

    async def cancel(self, run_ids: Sequence[int], *, why: str, **options: Any) -> list[CancelAnswer]:
        answers = await self._store.cancel(run_ids, why=why, **options)
        for number, answer in zip(run_ids, answers, strict=True):
            of: dict[str, Any] = {}
            run = await self._store.queries.get_run(number) if answer.kind == "cancelled" else None
            if run is not None:
                self._ended.add(number)
                job = await self._store.queries.get_job(run.job, namespace=run.namespace)
                of = {"job_id": job.id if job else 0, "trigger": run.trigger, "slot": run.slot_at, "target": run.target}
                of["due"] = run.due_at
            self._note(
                "cancel", run=number, **of, kind=answer.kind, state=str(answer.state or ""), why=why,
                ended=self.clock.now(),
            )  # fmt: skip
        await self._note_followers()
        return answers

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────────────────

    async def recount_gates(self, **options: Any) -> int:
        freed = await self._store.recount_gates(**options)
        if freed:
            self._note("recount", freed=freed)
        return freed

    async def prune_runs(self, cut: Cut, **options: Any) -> Pruned:
        before = await self._counted()
        pruned = await self._store.prune_runs(cut, **options)
        if pruned.runs:
            kept = await self._store.queries.get_runs(sorted(self._ended))
            gone = sorted(self._ended.difference(run.id for run in kept))
            self._ended.difference_update(gone)
            for run in gone:
                self._note("prune", run=run)
            self._note("pruned", answer=pruned.runs, runs=gone, counted=_diff(before, await self._counted()))
        return pruned

    async def prune_skips(self, until: int, **options: Any) -> int:
        before = await self._counted()
        gone = await self._store.prune_skips(until, **options)
        if gone:
            self._note("pruned", answer=gone, skips=True, counted=_diff(before, await self._counted()))
        return gone

    async def _counted(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for row in await self._store.queries.list_daily_counts(limit=_ALL):
            found[row.job, str(row.state)] += row.count
        return found


def _both(before: Look, after: Look) -> dict[str, list[Any]]:
    return {name: [before.marks.get(name), after.marks.get(name)] for name in sorted(before.marks | after.marks)}


def _diff(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> list[list[Any]]:
    return [[job, state, after[job, state] - before[job, state]] for job, state in sorted(after - before)]
