"""The client for programs without an event loop."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from onthedot.client.client import Client
from onthedot.loop_thread import Portal

P = ParamSpec("P")
T = TypeVar("T")


def _through(
    verb: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient, P], T]:
    """The same verb, which returns when it is done."""

    @functools.wraps(verb)
    def ask(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._ask(verb(self.client, *args, **kwargs))

    ask.__doc__ = inspect.getdoc(verb)  # said in `Verbs`
    return ask


class BlockingClient:
    """A `Client` for programs without an event loop: the same verbs, and each returns when it is done.

    Verbs may be called on any thread. The first one starts a thread, which ends with `close`. After a fork, make
    another client. `result` takes a run by its handle or by its id.

    >>> import onthedot as otd
    >>> from onthedot.model.host_port import Listen
    >>> from onthedot.server.http_server import HttpServer
    >>> server = HttpServer("memory:", otd.Settings(), Listen(port=0), knows=None)
    >>> server.start()
    >>> with otd.BlockingClient(server.url) as client:
    ...     client.list_jobs()
    []
    >>> server.stop()
    """

    def __init__(self, url: str, *, key: str = "", namespace: str = "default", insecure: bool = False) -> None:
        self.client = Client(url, key=key, namespace=namespace, insecure=insecure)
        self._portal: Portal | None = None
        self._changing = threading.Lock()

    def close(self) -> None:
        """Close the connections and end the thread. It may be called twice; the next verb starts another thread.

        >>> client.close()
        """
        with self._changing:
            portal, self._portal = self._portal, None
            if portal is not None:
                try:
                    portal.ask(self.client.close())
                finally:
                    portal.close()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        with self._changing:
            portal = self._portal = self._portal or Portal()
        return portal.ask(work)

    put = _through(Client.put)
    apply = _through(Client.apply)
    remove = _through(Client.remove)
    pause = _through(Client.pause)
    resume = _through(Client.resume)
    get_job = _through(Client.get_job)
    list_jobs = _through(Client.list_jobs)
    skip_next = _through(Client.skip_next)
    move_next = _through(Client.move_next)
    backfill = _through(Client.backfill)
    set_shards = _through(Client.set_shards)
    list_nodes = _through(Client.list_nodes)
    drain_node = _through(Client.drain_node)
    list_terms = _through(Client.list_terms)
    list_queues = _through(Client.list_queues)
    pause_queue = _through(Client.pause_queue)
    resume_queue = _through(Client.resume_queue)
    share_queue = _through(Client.share_queue)
    submit = _through(Client.submit)
    submit_many = _through(Client.submit_many)
    trigger = _through(Client.trigger)
    retry_run = _through(Client.retry_run)
    cancel = _through(Client.cancel)
    get_run = _through(Client.get_run)
    list_runs = _through(Client.list_runs)
    list_skips = _through(Client.list_skips)
    history = _through(Client.history)
    logs = _through(Client.logs)
    result = _through(Client.result)
    dead_letters = _through(Client.dead_letters)
    dead_runs = _through(Client.dead_runs)
    replay = _through(Client.replay)
    replay_many = _through(Client.replay_many)
    discard = _through(Client.discard)
