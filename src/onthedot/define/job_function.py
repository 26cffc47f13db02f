"""The function of a job with `call(…)`: it makes checked calls for `submit`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from onthedot.define.arguments import encode_arguments
from onthedot.model.errors import ArgumentsError
from onthedot.model.job import Job
from onthedot.runners.context import Context
from onthedot.runners.registry import Handler

Given = ParamSpec("Given")  # what a caller gives: the parameters without `ctx`
Whole = ParamSpec("Whole")  # the parameters as they are written
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A job and the arguments of one run: checked, and already JSON, so that they cannot change later.

    Made by `JobFunction.call`.

    >>> BoundCall("report", '{"region":"eu"}').job
    'report'
    """

    job: str
    args: str


class JobFunction(Generic[Whole, Given, R_co]):
    """The result of `@sched.job`: the function, with `call(…)` to request a run of it.

    >>> import onthedot as otd
    >>> sched = otd.Scheduler("memory:")
    >>> @sched.job
    ... def receipt(ctx: otd.Context, tenant: str, order: int) -> str:
    ...     return f"{tenant}: {order}"
    >>> receipt.call("t1", order=7)
    BoundCall(job='receipt', args='{"order":7,"tenant":"t1"}')
    >>> receipt.call("t1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.ArgumentsError: job 'receipt': arguments do not fit receipt(...
    """

    __name__: str

    def __init__(self, function: Callable[Whole, R_co], handler: Handler, job: Job) -> None:
        functools.update_wrapper(self, function)
        self.function = self._otd_handler = function  # the second name: see `runners.registry.handler_in`
        self.job = job
        self._handler = handler

    def __call__(self, *args: Whole.args, **kwargs: Whole.kwargs) -> R_co:
        """Call the function here and now, as if it were no job."""
        return self.function(*args, **kwargs)

    def call(self, *args: Given.args, **kwargs: Given.kwargs) -> BoundCall:
        """Make a call to be submitted, without `ctx`. Missing arguments come from the job's own.

        `ArgumentsError` if the arguments do not fit the function, or are not JSON.

        >>> receipt.call("t1", 7) == receipt.call(tenant="t1", order=7)
        True
        """
        subject = f"job {self.job.name!r}"
        named = {**self.job.args, **self._named(args, kwargs, subject)}
        problem = self._handler.check_arguments(named)
        if problem is not None:
            raise ArgumentsError(problem, subject=subject)
        return BoundCall(self.job.name, encode_arguments(named, subject=subject))

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any], subject: str) -> dict[str, Any]:
        """All arguments by name, as a store keeps them."""
        parameters = list(inspect.signature(self.function).parameters.values())[self._handler.takes_context :]
        names = [one.name for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][: len(args)]
        if len(names) < len(args):
            raise ArgumentsError(
                f"arguments: expected at most {len(names)} without a name, got {len(args)}", subject=subject
            )
        twice = kwargs.keys() & set(names)
        if twice:
            raise ArgumentsError(f"arguments: given twice: {', '.join(sorted(twice))}", subject=subject)
        return {**dict(zip(names, args, strict=True)), **kwargs}

    def __repr__(self) -> str:
        return f"JobFunction({self.job.name!r}, {self.function!r})"


class Define(Protocol):
    """A decorator that makes a job of a function. If the first parameter is `ctx`, callers do not give it."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Given], R_co], /
    ) -> JobFunction[Concatenate[Context, Given], Given, R_co]: ...
    @overload
    def __call__(self, function: Callable[Given, R_co], /) -> JobFunction[Given, Given, R_co]: ...
