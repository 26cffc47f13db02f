"""The request of a caller that submits runs: job, arguments, time and connection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.define.arguments import encode_arguments
from onthedot.define.job_function import BoundCall, JobFunction
from onthedot.model.duration import Duration, micros, parse_duration
from onthedot.model.errors import DefinitionError

Asked = str | Callable[..., Any] | BoundCall
"""How a caller names a job: by name, by its function, or by a call with arguments (`report.call(…)`)."""


class RunRequest(NamedTuple):
    """One run that a caller asks for. `args` is canonical JSON, or None for the default arguments of the job."""

    job: str
    args: str | None
    key: str = ""


class SubmittedRun(NamedTuple):
    """A stored run, and whether this call created it (False: a run with its key was stored before)."""

    id: int
    job: str
    created: bool


class Timing(NamedTuple):
    """When a submitted run is due, counted from the write, and how long after that it may start."""

    delay: Micros = 0
    expires: Micros | None = None

    @classmethod
    def read(cls, delay: Duration | None, expires: Duration | None) -> Timing:
        """Read the lengths as users write them.

        >>> Timing.read("2s", None)
        Timing(delay=2000000, expires=None)
        """
        return cls(
            0 if delay is None else micros(parse_duration(delay, what="delay")),
            None if expires is None else micros(parse_duration(expires, what="expires")),
        )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of the job that a function defines; otherwise the function's own name."""
    return function.job.name if isinstance(function, JobFunction) else str(getattr(function, "__name__", ""))


def read_request(
    job: Asked,
    args: Mapping[str, Any] | None = None,
    *,
    key: str = "",
    name_of: Callable[[Callable[..., Any]], str] = name_of,
) -> RunRequest:
    """Read a request before anything is sent or written. `name_of` finds the job of a plain function."""
    check_key(key)
    if isinstance(job, BoundCall):
        if args is not None:
            raise DefinitionError(f"job {job.job!r}: expected its arguments in the call, got more beside it")
        return RunRequest(job.job, job.args, key)
    name = job if isinstance(job, str) else name_of(job)
    return RunRequest(name, None if args is None else encode_arguments(args, subject=f"job {name!r}"), key)


def check_key(key: str) -> None:
    """Raise `DefinitionError` for a key that is too long."""
    if len(key) > 200:
        raise DefinitionError(f"key: expected at most 200 characters, got {len(key)}: {key[:40]!r}…")


class _Outside:
    """The default of `connection`: not None, which a program may pass by mistake."""

    def __repr__(self) -> str:
        return "OUTSIDE"


OUTSIDE: Any = _Outside()
"""No connection was given: the run is submitted in a transaction of our own."""


def given_connection(connection: Any) -> Any:
    """Return the connection that the caller gave, determined on the caller's own thread. Raise `DefinitionError` for
    None.

    Django's `connection` is another connection on each thread. This function returns that of this thread."""
    if connection is None:
        raise DefinitionError(
            "connection: expected a connection with a transaction that is open, got None; leave 'connection' out to "
            "submit without one; with Django, give 'django.db.connection' itself"
        )
    kind = type(connection)
    if (kind.__module__.partition(".")[0], kind.__name__) == ("django", "ConnectionProxy"):
        return sys.modules["django.db"].connections[connection.alias]
    return connection
