"""What tests ask a harness for, read and checked: a slip of the test is said, and is not an empty answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onthedot.model.errors import DefinitionError, UnknownJob, did_you_mean
from onthedot.model.run import RunState

JobLike = str | Callable[..., Any]
"""A job: its name, or its function."""


def name_of(job: JobLike) -> str:
    """The job's name."""
    return job if isinstance(job, str) else str(getattr(getattr(job, "job", None), "name", job))


def no_such_job(name: str, known: Iterable[str]) -> UnknownJob:
    """Says which job may have been meant."""
    return UnknownJob(f"expected a job of this scheduler, got {name!r}{did_you_mean(name, known)}")


def read_states(state: str | Iterable[str] | None) -> list[RunState] | None:
    """A state or several, by name; None: all."""
    if state is None:
        return None
    names = [state] if isinstance(state, str) else list(state)
    known = [known.value for known in RunState]
    for name in names:
        if name not in known:
            raise DefinitionError(f"state: expected one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")
    return [RunState(name) for name in names]
