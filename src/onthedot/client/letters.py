"""The verbs about dead letters, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from onthedot.client import values
from onthedot.client.asking import Asking, said_instant
from onthedot.client.values import read
from onthedot.clock import to_datetime
from onthedot.model.duration import format_duration
from onthedot.model.errors import StoreError, UnknownRun
from onthedot.model.policies import Rate
from onthedot.model.run import RunRecord
from onthedot.operations.dead_letters import REPLAYED, DeadLetters, Replayed
from onthedot.operations.run_handle import Run, run_number

_AT_ONCE = 1_000
_LETTERS = "/api/v1/dead-letters"


class LettersAsked(Asking):
    """See `Verbs`."""

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        query = {**self._box(job, since, until), "limit": limit}
        return [read(_group, one) for one in await self.server.ask("GET", f"{_LETTERS}/groups", query=query)]

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        query = {**self._box(job, since, until), "fingerprint": fingerprint}
        return [run async for run in self._pages(values.run_record, _LETTERS, query, limit)]

    def _box(self, job: str | None, since: datetime | str | None, until: datetime | str | None) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "job": job,
            "since": said_instant(since, "since"),
            "until": said_instant(until, "until"),
        }

    async def replay(self, run_id: Run | int) -> Run:
        number = run_number(run_id)
        letter = await self.get_run(number)
        if letter is None:
            raise UnknownRun(f"there is no run {number}: expected one that is dead and not forgotten since")
        told = await self._replay({"run_ids": [number]}, repeat=True)  # asked twice, it is one run
        if len(told.run_ids) != 1:
            raise StoreError(f"{self.server.url}: expected the run that replays {number}, got {told.run_ids}")
        created = not letter.settled.startswith(REPLAYED)
        return Run(told.run_ids[0], job=letter.job, created=created, verbs=self)

    async def replay_many(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        rate: Rate | None = None,
        limit: int = 10_000,
        dry_run: bool = False,
    ) -> Replayed:
        body = {
            "job": job,
            "fingerprint": fingerprint,
            "since": said_instant(since, "since"),
            "until": said_instant(until, "until"),
            "rate": None if rate is None else {"most": rate.most, "per": format_duration(rate.per)},
            "limit": limit,
            "dry_run": dry_run,
        }
        return await self._replay(body, repeat=dry_run)

    async def _replay(self, body: dict[str, Any], *, repeat: bool) -> Replayed:
        query = {"namespace": self.namespace}
        return read(
            _replayed, await self.server.ask("POST", f"{_LETTERS}/replay", query=query, body=body, repeat=repeat)
        )

    async def discard(self, run_ids: Run | int | Iterable[Run | int], *, why: str = "") -> int:
        ids = [run_number(one) for one in ([run_ids] if isinstance(run_ids, int | Run) else run_ids)]
        done = 0
        for first in range(0, len(ids), _AT_ONCE):
            done += await self._discard(ids[first : first + _AT_ONCE], why)
        return done

    async def _discard(self, ids: list[int], why: str) -> int:
        """How many of these were in the box. A server refuses all for one that is not there: then one by one."""
        try:
            told = await self.server.ask("POST", f"{_LETTERS}/discard", body={"run_ids": ids, "why": why})
            return int(told["discarded"])
        except UnknownRun:
            return 0 if len(ids) == 1 else sum([await self._discard([one], why) for one in ids])


def _group(told: values.Told) -> DeadLetters:
    return DeadLetters(
        told["fingerprint"],
        told["job"],
        told["namespace"],
        told["error_type"],
        told["error"],
        told["count"],
        to_datetime(values.instant(told["first"])),
        to_datetime(values.instant(told["last"])),
        values.run_record(told["example"]),
    )


def _replayed(told: values.Told) -> Replayed:
    return Replayed(
        told["letters"],
        told["without_job"],
        values.moment(told["first_due"]),
        values.moment(told["last_due"]),
        tuple(told["run_ids"]),
        told["dry_run"],
    )
