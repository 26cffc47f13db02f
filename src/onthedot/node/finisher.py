"""The finisher: decides what becomes of ended attempts, and writes their verdicts.

    outcome ──rules/retry, rules/recovery──▶ verdict ──▶ the next batch ──▶ the store

If no write is in flight, the finisher writes at once. Verdicts that arrive during a write form the next batch. So a
single finish does not wait, and many finishes share a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from onthedot import fault_points
from onthedot.clock import Clock, Micros
from onthedot.ids import Ids
from onthedot.loop import Service
from onthedot.model.events import AttemptEnded, CommittedBefore, Events, HookFailed, LeaseLost
from onthedot.model.run import Lease
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.rules import recovery, retry
from onthedot.runners.attempt import Attempt, committed, difference_after_commit, settled
from onthedot.runners.outcomes import failed
from onthedot.runners.registry import Registry
from onthedot.runners.reporter import StoreReporter
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Finisher(Service):
    """Writes verdicts in batches. A write whose answer was lost is repeated with the same leases."""

    name = "finisher"

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        events: Events,
        clock: Clock,
        ids: Ids,
        reporter: StoreReporter | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._registry = registry
        self._settings = settings
        self._events = events
        self._clock = clock
        self._ids = ids
        self._reporter = reporter
        self._on_accepted: Callable[[list[Finish]], None] | None = None
        self._waiting: list[Finish] = []
        self._all_written = asyncio.Event()
        self._all_written.set()

    def on_accepted(self, listener: Callable[[list[Finish]], None]) -> None:
        """Register a callback for the finishes that the store has accepted."""
        self._on_accepted = listener

    # ── from outcome to verdict ──────────────────────────────────────────────────────────────────────────────

    def ended(self, attempts: list[Attempt]) -> None:
        """Decide the verdicts of these attempts, and write them with the next batch."""
        self._add([self._finish_of(attempt) for attempt in attempts])

    def give_up(self, leases: list[Lease]) -> None:
        """Decide once more, by the job's guarantee, about attempts whose verdicts were lost: in the store they still
        run.
        """
        if not leases:
            return
        now, why = self._clock.now(), "the store has lost what became of it"
        verdicts = [
            recovery.decide(one.record.job, recoveries=one.recoveries, now=now, why=why, due_at=one.due_at)
            for one in leases
        ]
        self._add([Finish(*decided, 0, now) for decided in zip(leases, verdicts, strict=True)])

    def _finish_of(self, attempt: Attempt) -> Finish:
        """Return what to write about an attempt. If the attempt has committed its own finish, repeat that one."""
        done = committed(attempt)
        if done is None:
            return Finish(attempt.lease, self._judge(attempt), attempt.started_at, attempt.ended_at)
        said = difference_after_commit(attempt, done)
        if said:
            self._events.emit(CommittedBefore(attempt.lease, said))
        return done

    def _judge(self, attempt: Attempt) -> Verdict:
        if attempt.outcome is None:
            raise AssertionError(f"a runner delivered an attempt without an outcome: {attempt!r}")
        outcome, lease = settled(attempt, attempt.outcome), attempt.lease
        job = lease.record.job
        if outcome.kind is OutcomeKind.LOST:
            why = outcome.error or "stopped"
            return recovery.decide(job, recoveries=lease.recoveries, now=attempt.ended_at, why=why, due_at=lease.due_at)
        chance = self._ids.fraction() if outcome.kind is not OutcomeKind.SUCCEEDED else 0.0
        decide = partial(
            retry.decide, outcome, job, failures=lease.failures, ended_at=attempt.ended_at, chance=chance,
            due_at=lease.due_at,
        )  # fmt: skip
        rule = self._registry.rule_of(job)
        if rule is None:
            return decide()
        try:
            return decide(when=rule)
        except BaseException as error:  # noqa: BLE001 - the user's code: the rest of the policy decides without it
            self._events.emit(HookFailed(job.name, "retry.when", failed(error).error or ""))
            return decide()

    # ── from verdict to store ────────────────────────────────────────────────────────────────────────────────

    def _add(self, finishes: list[Finish]) -> None:
        self._waiting.extend(finishes)
        self._all_written.clear()
        self.wake()

    async def flushed(self) -> None:
        """Wait until the store has acknowledged every verdict."""
        await self._all_written.wait()

    def lease_ids(self) -> list[str]:
        """Return the leases of verdicts that the store has not acknowledged."""
        return [finish.lease.lease_id for finish in self._waiting]

    async def tick(self, now: Micros) -> Micros | None:
        """Write one batch. Remove it from the list only after the store has answered."""
        del now
        batch = self._waiting[: self._settings.batch]
        if not batch:
            return None
        if self._reporter is not None:  # the last messages of these attempts: their leases end with this write
            await self._reporter.write([finish.lease.lease_id for finish in batch])
        fault_points.point("finish.before_write")
        answers = await self._store.finish(batch)
        fault_points.point("finish.after_write")
        del self._waiting[: len(batch)]
        if self._events.wanted or not all(answers):
            for finish, accepted in zip(batch, answers, strict=True):
                self._events.emit(AttemptEnded(finish) if accepted else LeaseLost(finish))
        if self._on_accepted is not None:
            self._on_accepted([finish for finish, accepted in zip(batch, answers, strict=True) if accepted])
        if self._waiting:
            return 0
        self._all_written.set()
        return None
