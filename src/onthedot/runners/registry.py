"""The handlers of this program, by name. Only a function that is registered here, in code, can ever be called.

Handlers that run in child processes need a path by which another process can import them. The path comes from the
registered function. It is never read from a store, from arguments or from anything else that comes from outside.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from onthedot.model.errors import ArgumentsError, DefinitionError, DuplicateJob, UnknownHandler, did_you_mean
from onthedot.model.job import Call, Guarantee, Job, Rule, When, ability_of, argument_keys
from onthedot.model.run import Lease
from onthedot.model.task import task_name
from onthedot.runners.context import Context
from onthedot.runners.hooks import Hooks
from onthedot.runners.params import arguments_of
from onthedot.runners.secrets import Provider
from onthedot.runners.signatures import Signature

MAIN = "__main__"
HANDLER = "_otd_handler"


# ── functions that another process can import ───────────────────────────────────────────────────────────────────────


class Importable(NamedTuple):
    """A function that can be found by name: `getattr(import_module(module), name)`."""

    module: str
    name: str


def importable(function: Callable[..., Any]) -> Importable:
    """The path by which a child process can import this function. `DefinitionError` if there is none.

    >>> importable(importable)
    Importable(module='onthedot.runners.registry', name='importable')
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or hasattr(function, "__self__"):
        raise _refused(f"{type(function).__name__} object, which has no name in a module")
    if "<lambda>" in name:
        raise _refused("a lambda, which has no name")
    if "<locals>" in name:
        raise _refused(f"{name}, which is local to another function")
    if module == MAIN:
        _check_main(name)
    return Importable(module, name)


def main_module() -> dict[str, str]:
    """Return how a child process imports this program's main module, as `multiprocessing` does; empty if it cannot."""
    main = sys.modules[MAIN]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {} if name.rpartition(".")[2] == MAIN else {"name": name}
    path = getattr(main, "__file__", None)
    return {"path": path} if isinstance(path, str) and not path.startswith("<") else {}


def is_found(function: Callable[..., Any], at: Importable) -> bool:
    """Return whether this path leads to this function, now that its module is loaded."""
    found: Any = sys.modules.get(at.module)
    for part in at.name.split("."):
        found = getattr(found, part, None)
    return handler_in(found) is function


def handler_in(found: Any) -> Any:
    """Return the function, even if a decorator has replaced it with an object that holds it."""
    return getattr(found, HANDLER, found)


def _check_main(name: str) -> None:
    if not main_module():
        raise _refused(f"{name} of a program that is no file (a prompt, python -c, or a package's __main__.py)")


def _refused(what: str) -> DefinitionError:
    return DefinitionError(
        f"isolation: expected a function that a child process can import, got {what}; "
        "define it with 'def' at the top level of a module"
    )


# ── handlers ────────────────────────────────────────────────────────────────────────────────────────────────────────


class BadArguments(ArgumentsError):
    """A handler cannot be called with the arguments of its run. The arguments stay the same, so the run is not retried,
    unless the job's retry policy names this error.

    >>> import onthedot as otd
    >>> otd.Retry(3, on=(otd.BadArguments,)).on
    ('onthedot.BadArguments',)
    """

    __module__ = "onthedot"  # `Retry.on` may name it, as the failures of programs: `onthedot.BadArguments`


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function and what is known about calling it."""

    name: str
    function: Callable[..., Any]
    is_coroutine: bool
    takes_context: bool
    signature: Signature

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Handler:
        """Inspect a function once, so that calls cost nothing extra."""
        if not callable(function):
            raise DefinitionError(f"handler {name!r}: expected a function, got {type(function).__name__}")
        parameters = list(inspect.signature(function).parameters.values())
        takes_context = bool(parameters) and parameters[0].name == "ctx"
        signature = Signature(function, takes_context=takes_context)
        return cls(name, function, inspect.iscoroutinefunction(function), takes_context, signature)

    def call(self, lease: Lease, context: Context | None = None) -> Any:
        """Call the function with the run's arguments. Returns its result, or its coroutine. Raise `BadArguments`
        without a call if the arguments do not fit."""
        arguments = arguments_of(lease)
        problem = self.check_arguments(arguments)
        if problem is not None:
            raise BadArguments(problem)
        if self.takes_context:
            return self.function(context or Context(lease), **arguments)
        return self.function(**arguments)

    def check_arguments(self, arguments: dict[str, Any], *, complete: bool = True) -> str | None:
        """Return why the function could not be called with these arguments (and perhaps more of them), or None."""
        problem = self.signature.problem(arguments, complete=complete)
        return problem and f"arguments do not fit {self.name}{self.signature}: {problem}"

    def check_keys(self, job: Job) -> str | None:
        """Return why the job's runs cannot be limited or shared by the arguments that it names, or None."""
        for option, key in argument_keys(job):
            if instead := self.signature.lacks(key):
                return f"{option}: expected an argument of {self.name}{self.signature}, got {key!r}{instead}"
        return None

    def check_guarantee(self, guarantee: Guarantee) -> str | None:
        """Return why the function cannot keep this guarantee, or None."""
        if guarantee is not Guarantee.EXACTLY_ONCE or self.takes_context:
            return None
        return "guarantee: expected a first parameter named ctx with 'exactly_once', for ctx.transaction(); got none"


_ALWAYS = frozenset({"sleep", "noop"})


class Registry:
    """The handlers of a program by name, and the other tasks that this node can run."""

    _offered = _ALWAYS  # tasks without a handler

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._rules: dict[str, When] = {}  # by job
        self.hooks = Hooks()
        self.providers: list[Provider] = []  # of secrets, besides those that every worker has

    def offer(self, abilities: Iterable[str]) -> None:
        """Add abilities of this node's machine, which need no handler."""
        self._offered |= frozenset(abilities)

    def withdraw(self) -> None:
        """Forget the abilities of an earlier start. Offer only the abilities of every node."""
        self._offered = _ALWAYS

    def add(self, name: str, function: Callable[..., Any]) -> Handler:
        """Register a function. A name can be taken once."""
        if name in self._handlers:
            raise DuplicateJob(
                f"handler {name!r} is registered already, for {self._handlers[name].function!r}; choose another name"
            )
        handler = Handler.of(name, function)
        self._handlers[name] = handler
        return handler

    def get(self, name: str) -> Handler:
        """Return the handler of this name. Raise `UnknownHandler` if this program has none."""
        handler = self._handlers.get(name)
        if handler is None:
            raise UnknownHandler(f"no handler {name!r} is registered here{did_you_mean(name, self._handlers)}")
        return handler

    def learn(self, job: Job) -> None:
        """Remember the function that decides the retries of a job, because no store can hold it."""
        rule = job.retry.when
        if isinstance(rule, Rule):
            self._rules[job.name] = rule.function

    def rule_of(self, job: Job) -> When | None:
        """The function that decides the retries of this job, if it has one and this program knows it."""
        return self._rules.get(job.name) if job.retry.when else None

    def handler_of(self, lease: Lease) -> Handler:
        """The handler that a lease's job calls."""
        task = lease.record.job.task
        if not isinstance(task, Call):
            raise UnknownHandler(f"job {lease.record.job.name!r} calls no handler: its task is {task!r}")
        return self.get(task.handler)

    def check(self, job: Job) -> str | None:
        """Return why this job cannot be run here, or None."""
        if not isinstance(job.task, Call):
            return None
        try:
            handler = self.get(job.task.handler)
            if job.isolation == "process" and not is_found(handler.function, at := importable(handler.function)):
                return f"isolation: expected {at.module}.{at.name} to be the handler, but that name leads elsewhere"
            if problem := handler.check_guarantee(job.guarantee) or handler.check_keys(job):
                return problem
            # Without a schedule every run is submitted, and may bring what is missing.
            if not job.schedules:
                return handler.check_arguments(dict(job.args), complete=False)
            found = (handler.check_arguments({**job.args, **schedule.args}) for schedule in job.schedules)
            return next((problem for problem in found if problem is not None), None)
        except (UnknownHandler, DefinitionError) as error:
            return str(error)

    def task_names(self) -> frozenset[str]:
        """The names of the tasks that this program can run. `reserve` filters by them."""
        return frozenset({*(task_name(Call(handler=name)) for name in self._handlers), *self._offered})

    def unknown(self, jobs: Iterable[Job]) -> set[str]:
        """The abilities that these jobs need and this program does not have."""
        return {ability_of(job) for job in jobs} - self.task_names()
