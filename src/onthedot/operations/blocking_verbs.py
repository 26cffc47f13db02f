"""The verbs for programs without an event loop: the same names, and each returns when it is done."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from onthedot.operations.verbs import Verbs

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    verb: Callable[Concatenate[Verbs, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingVerbs, P], T]:
    """The same verb of the front door, which returns when it is done."""
    name = verb.__name__

    @functools.wraps(verb)
    def call(self: BlockingVerbs, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if "connection" in kwargs:
            kwargs["connection"] = self._on_this_thread(kwargs["connection"])
        work: Coroutine[Any, Any, T] = getattr(self._door, name)(*args, **kwargs)
        return self._ask(work)

    call.__doc__ = inspect.getdoc(verb)
    return call


class BlockingVerbs:
    """See `Verbs`. A subclass provides the front door, and the thread that runs its event loop."""

    @property
    @abstractmethod
    def _door(self) -> Verbs:
        """The front door whose verbs these are."""

    @abstractmethod
    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the front door's event loop, and wait for it."""

    def _on_this_thread(self, connection: Any) -> Any:
        """The caller's connection, found before another thread uses it."""
        return connection

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
    submit = _blocking(Verbs.submit)
    submit_many = _blocking(Verbs.submit_many)
    trigger = _blocking(Verbs.trigger)
    retry_run = _blocking(Verbs.retry_run)
    cancel = _blocking(Verbs.cancel)
    get_run = _blocking(Verbs.get_run)
    list_runs = _blocking(Verbs.list_runs)
    list_skips = _blocking(Verbs.list_skips)
    history = _blocking(Verbs.history)
    logs = _blocking(Verbs.logs)
    result = _blocking(Verbs.result)
    dead_letters = _blocking(Verbs.dead_letters)
    dead_runs = _blocking(Verbs.dead_runs)
    replay = _blocking(Verbs.replay)
    replay_many = _blocking(Verbs.replay_many)
    discard = _blocking(Verbs.discard)
