"""The verbs about dead letters, which are a part of `Verbs`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from onthedot.model.policies import Rate
from onthedot.model.run import RunRecord

if TYPE_CHECKING:
    from onthedot.operations.dead_letters import DeadLetters, Replayed
    from onthedot.operations.run_handle import Run


class LetterVerbs(Protocol):
    """What can be asked about dead letters: dead runs about which nobody has done anything yet. In the examples `sched`
    is the one of `Scheduler`.

    >>> async def how_many(onthedot: LetterVerbs) -> int:
    ...     return sum(group.count for group in await onthedot.dead_letters())
    """

    async def dead_letters(
        self,
        job: str | None = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 10_000,
    ) -> list[DeadLetters]:
        """Dead runs that nobody has replayed or discarded, grouped by what they died of: what died last first.

        A group has a `fingerprint`, made of the job, the type of the error, and its text without numbers, quotes and
        paths; how many there are, when the first and the last ended, and the newest as an `example`. Of more than
        `limit`, the newest count.

        >>> from contextlib import suppress
        >>> @sched.job
        ... async def charge(order: int) -> None:
        ...     raise ConnectionError(f"no answer for order {order}")
        >>> async with sched:
        ...     for order in (7, 8):
        ...         with suppress(otd.RunFailed):
        ...             await sched.result(await sched.submit(charge.call(order)), timeout="10s")
        ...     print([(group.count, group.error) for group in await sched.dead_letters()])
        [(2, 'ConnectionError: no answer for order <n>')]
        """
        ...

    async def dead_runs(
        self,
        job: str | None = None,
        *,
        fingerprint: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """The same runs one by one, newest end first: of a job, of one fingerprint, that ended from `since` on and
        before `until`.

        >>> async with sched:
        ...     print(await sched.dead_runs("report", since="2026-01-01T00:00Z"))
        []
        """
        ...

    async def replay(self, run_id: Run | int) -> Run:
        """Ask for a dead run again, now, with its own arguments, for its own instant. Asked twice, it is one run.

        The new run's trigger is `rerun:<run id>`; the old one stays in history, dead, and is no dead letter any more.
        `StateError` for a run that is not dead, or was discarded. `UnknownJob` if its job was deleted, also when
        another job has that name now.

        >>> from contextlib import suppress
        >>> @sched.job
        ... async def charge(order: int) -> None:
        ...     raise ConnectionError(f"no answer for order {order}")
        >>> async with sched:
        ...     run = await sched.submit(charge.call(order=7))
        ...     with suppress(otd.RunFailed):
        ...         await run.result(timeout="10s")
        ...     new = await sched.replay(run)
        ...     print((await sched.get_run(new)).args, await sched.replay(run) == new)
        {"order":7} True
        """
        ...

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
        """Replay all dead letters that match, the oldest first; with a `rate`, due at instants that are so far apart.

        More than `limit` are refused. `dry_run` only tells. If it breaks off, those before stay, and the same call does
        the rest. Letters of a job that is gone stay as they are, and are counted. Subscribers hear of each 500 runs.

        >>> async with sched:
        ...     print(await sched.replay_many("report", rate=otd.Rate(10, "1s"), dry_run=True))
        no dead letters match
        """
        ...

    async def discard(self, run_ids: Run | int | Iterable[Run | int], *, why: str = "") -> int:
        """Take dead letters out of the box; how many of these runs were in it. They stay in history, dead, and
        `run.settled` says why.

        >>> async with sched:
        ...     print(await sched.discard([7, 8], why="known, and mended"))
        0
        """
        ...
