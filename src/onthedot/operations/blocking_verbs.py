"""The verbs for programs without an event loop. They have the same names, and each blocks until it is done."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from onthedot.operations.run_handle import BlockingRun, Run
from onthedot.operations.verbs import Verbs

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    verb: Callable[Concatenate[Verbs, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingVerbs, P], T]:
    """Return a blocking form of a verb of the front door."""
    name = verb.__name__

    @functools.wraps(verb)
    def call(self: BlockingVerbs, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if "connection" in kwargs:
            kwargs["connection"] = self._on_this_thread(kwargs["connection"])
        work: Coroutine[Any, Any, T] = getattr(self._door, name)(*args, **kwargs)
        return self._ask(work)

    call.__doc__ = inspect.getdoc(verb)
    return call


def _blocking_run(
    verb: Callable[Concatenate[Verbs, P], Coroutine[Any, Any, Run]],
) -> Callable[Concatenate[BlockingVerbs, P], BlockingRun]:
    """Return a blocking form of a verb that makes a run. The shortcuts of its handle block as well."""
    ask = _blocking(verb)

    @functools.wraps(ask)
    def call(self: BlockingVerbs, /, *args: P.args, **kwargs: P.kwargs) -> BlockingRun:
        return self._handle(ask(self, *args, **kwargs))

    _set_returns(call, BlockingRun)
    return call


def _blocking_runs(
    verb: Callable[Concatenate[Verbs, P], Coroutine[Any, Any, list[Run]]],
) -> Callable[Concatenate[BlockingVerbs, P], list[BlockingRun]]:
    """Return a blocking form of a verb that makes several runs."""
    ask = _blocking(verb)

    @functools.wraps(ask)
    def call(self: BlockingVerbs, /, *args: P.args, **kwargs: P.kwargs) -> list[BlockingRun]:
        return [self._handle(run) for run in ask(self, *args, **kwargs)]

    _set_returns(call, list[BlockingRun])
    return call


def _set_returns(call: Callable[..., Any], kind: object) -> None:
    """Set the return type for `help()` and editors, because `functools.wraps` has copied that of the verb."""
    call.__annotations__ = {**call.__annotations__, "return": kind}
    vars(call)["__signature__"] = inspect.signature(call).replace(return_annotation=kind)


class BlockingVerbs:
    """See `Verbs`. A subclass provides the front door, and the thread that runs its event loop."""

    @property
    @abstractmethod
    def _door(self) -> Verbs:
        """Return the front door that has these verbs."""

    @abstractmethod
    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the front door's event loop, and wait for it."""

    def _on_this_thread(self, connection: Any) -> Any:
        """Return the caller's connection, determined on the caller's thread before another thread uses it."""
        return connection

    def _handle(self, run: Run) -> BlockingRun:
        return BlockingRun(run.id, job=run.job, created=run.created, verbs=self)

    put = _blocking(Verbs.put)
    apply = _blocking(Verbs.apply)
    remove = _blocking(Verbs.remove)
    pause = _blocking(Verbs.pause)
    resume = _blocking(Verbs.resume)
    get_job = _blocking(Verbs.get_job)
    list_jobs = _blocking(Verbs.list_jobs)
    skip_next = _blocking(Verbs.skip_next)
    move_next = _blocking(Verbs.move_next)
    backfill = _blocking(Verbs.backfill)
    set_shards = _blocking(Verbs.set_shards)
    list_nodes = _blocking(Verbs.list_nodes)
    drain_node = _blocking(Verbs.drain_node)
    list_terms = _blocking(Verbs.list_terms)
    list_queues = _blocking(Verbs.list_queues)
    pause_queue = _blocking(Verbs.pause_queue)
    resume_queue = _blocking(Verbs.resume_queue)
    share_queue = _blocking(Verbs.share_queue)
    submit = _blocking_run(Verbs.submit)
    submit_many = _blocking_runs(Verbs.submit_many)
    trigger = _blocking_run(Verbs.trigger)
    retry_run = _blocking_run(Verbs.retry_run)
    cancel = _blocking(Verbs.cancel)
    get_run = _blocking(Verbs.get_run)
    list_runs = _blocking(Verbs.list_runs)
    list_skips = _blocking(Verbs.list_skips)
    history = _blocking(Verbs.history)
    logs = _blocking(Verbs.logs)
    result = _blocking(Verbs.result)
    dead_letters = _blocking(Verbs.dead_letters)
    dead_runs = _blocking(Verbs.dead_runs)
    replay = _blocking_run(Verbs.replay)
    replay_many = _blocking(Verbs.replay_many)
    discard = _blocking(Verbs.discard)
