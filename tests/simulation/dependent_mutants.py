"""Jobs that run after others, with one thing left out. See `mutants.py`."""

from __future__ import annotations

from onthedot.stores.memory import MemoryStore
from onthedot.stores.memory.dependencies import Dependencies


class RetriedParentForgotten(MemoryStore):
    """The end of a run that needed a second try calls for nobody: its trigger was bound to the first."""

    def _follow(self, namespace, name, run_id, state, ended_at):
        if self.finished[run_id].attempts < 2:
            super()._follow(namespace, name, run_id, state, ended_at)


class AllIsAny(MemoryStore):
    """Whoever waits for all runs after each."""

    class _Dependencies(Dependencies):
        def _completes(self, child_id, ended):
            return True

    def __init__(self, clock=None):
        super().__init__(clock)
        self.dependencies = self._Dependencies()


class FollowedTwice(MemoryStore):
    """A finish that comes again calls for its dependents again, under another instant."""

    def _finish_one(self, finish):
        run_id = finish.lease.run_id
        again = any(attempt.lease_id == finish.lease.lease_id for attempt in self.attempts.get(run_id, ()))
        ended = self.finished.get(run_id)
        if again and ended is not None:
            self._follow(ended.namespace, ended.job, run_id, ended.state, self.read_clock(None))
        return super()._finish_one(finish)


class ReaperForgetsDependents(MemoryStore):
    """Only a finish calls for dependents: who waits for a failure waits for ever when the parent is lost."""

    reaping = False

    def _reap_one(self, lease, verdict, now):
        self.reaping = True
        try:
            return super()._reap_one(lease, verdict, now)
        finally:
            self.reaping = False

    def _follow(self, namespace, name, run_id, state, ended_at):
        if not self.reaping:
            super()._follow(namespace, name, run_id, state, ended_at)


class SetKeptWhenUsed(MemoryStore):
    """A set that was complete once stays so: after that, each parent's next run calls for the child."""

    class _Dependencies(Dependencies):
        def _completes(self, child_id, ended):
            noted = dict(self._sets[child_id])
            complete = super()._completes(child_id, ended)
            self._sets[child_id] |= noted
            return complete

    def __init__(self, clock=None):
        super().__init__(clock)
        self.dependencies = self._Dependencies()
