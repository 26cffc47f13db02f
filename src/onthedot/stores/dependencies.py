"""The part of the store protocol about jobs that run after others (`onthedot.after`).

There is no call that triggers a job: **every write that moves a run to a terminal state** (finish, reap, cancel, expire
and all others) does, in the same write, for each job that names the run's job as a parent, and that counts this state:

* with `any`: it inserts a run of the job, with trigger `after:<the run that ended>`, due at the end of that;
* else it notes the run as the parent's newest in the job's set, and if the set is complete by that, inserts such a
  run and clears the set.

A write that is refused or repeated ends nothing, so it inserts nothing. A verdict of another try is no end. The runs of
a paused job are held like submitted ones; a deleted job gets none. Parents go by their names: runs of a job that was
deleted since count like those of the one that has its name now.

`put_job` keeps what was noted for parents that stay, unless `any` or `on` change; it completes no set by itself. It
raises `DependencyCycle`, and writes nothing, if the job would run after itself, whoever edits whatever meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from onthedot.clock import Micros


class Parent(NamedTuple):
    """A job that another runs after. `run_id` is the newest of its runs that counts and has not been used: None if
    there is none, and always None with `any`, which uses each at once."""

    name: str
    run_id: int | None = None
    ended_at: Micros | None = None


class DependenciesSlice(Protocol):
    """Jobs that run after others."""

    async def parents_of(self, job_id: int) -> list[Parent]:
        """The parents of a job by name, and what it has of each: what it still waits for is what has no run. Empty for
        a job that runs after nobody, or was deleted."""
        ...
