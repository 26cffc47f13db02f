"""One node in virtual time: the engine of production, on a loop whose time jumps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from onthedot.clock import SECOND, Micros
from onthedot.model.job import Job
from onthedot.model.retention import Retention
from onthedot.node.engine import Engine
from onthedot.runners.attempt import Attempt
from onthedot.runners.runner import Host
from onthedot.runners.thread import ThreadRunner
from onthedot.settings import Settings
from onthedot.simulate.virtual_loop import VirtualLoop
from onthedot.stores.values import PutJob

MINUTE: Micros = 60 * SECOND
KEEP_ALL = Retention(age=None, count=None, failures_age=None, failures_count=None)


def alone(settings: Settings, jobs: Iterable[Job]) -> Settings:
    """The settings of a node that stands for the whole cluster: it serves every queue that these jobs need."""
    found = list(jobs)
    queues = dict.fromkeys([*settings.queues_for(found), *(job.queue for job in found)])
    labels = dict.fromkeys([*settings.labels, *(label for job in found for label in job.labels)])
    return replace(settings, queues=tuple(queues), labels=tuple(labels))


def quiet(settings: Settings, *, lookahead: Micros = 5 * MINUTE) -> Settings:
    """The same settings with a slow pulse: a virtual day is then a seventh of a second, and not ten.

    Beats, renewals and polls are needed for other nodes, lost hints and dead processes. Here one node runs, and its
    hints arrive, so no start waits for any of them. No ended run is removed.
    """
    look = 2 * lookahead
    return replace(
        settings,
        lookahead=lookahead, plan_every=lookahead // 2, term_ttl=lookahead * 4 // 5, renew_every=lookahead // 5,
        node_ttl=60 * MINUTE, beat_every=15 * MINUTE, poll_every=look, reap_every=look, recount_every=look,
        expire_every=lookahead // 10, prune_every=6 * look, retention=KEEP_ALL,
    )  # fmt: skip


class OneThread(ThreadRunner):
    """Runs plain functions one after the other, in the order in which they are due. Meanwhile time stands still."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._seats = 1
        if not isinstance(host.engine_loop, VirtualLoop):
            raise TypeError(f"expected a VirtualLoop, got {host.engine_loop!r}")
        self._time = host.engine_loop

    def start(self, attempts: list[Attempt]) -> None:
        for _ in attempts:
            self._time.hold()
        super().start(attempts)

    def _returned(self, attempt: Attempt) -> None:
        super()._returned(attempt)
        self._time.release()


class VirtualEngine(Engine):
    """The engine on a virtual loop, with what a test may do to it."""

    plain_functions = OneThread
    outside = False
    audits = False

    async def put_job(self, job: Job, *, revision: int | None = None) -> PutJob:
        """As in production; but this node stands for the whole cluster, so it can do whatever the job needs, and there
        are no child processes in virtual time."""
        serving = self._membership
        self._membership.serve(
            queues=dict.fromkeys([*serving.queues, job.queue]),
            labels=dict.fromkeys([*serving.labels, *sorted(job.labels)]),
        )
        return await super().put_job(replace(job, isolation="none"), revision=revision)

    def wake(self, service: str) -> None:
        """Let a service tick now instead of at its time."""
        self._loop.wake(service)

    async def plan(self) -> None:
        """One pass of the planner."""
        await self._planner.tick(self.clock.now())

    async def die(self, settings: Settings) -> None:
        """Stop this node as if the power failed: it writes nothing more.

        It leaves its lease and its term as a node with these settings would: they were renewed just now.
        """
        await self.store.beat(self._membership.incarnation, ttl=settings.node_ttl)
        for term in self._leadership.terms.values():
            await self.store.renew(term, ttl=settings.term_ttl)
        await self.crash()
        self._seats.stop_all()
        self.let_go()
