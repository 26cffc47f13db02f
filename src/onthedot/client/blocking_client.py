"""The client for programs without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from onthedot.client.client import Client
from onthedot.loop_thread import LoopThread
from onthedot.operations.blocking_verbs import BlockingVerbs

T = TypeVar("T")


class BlockingClient(BlockingVerbs):
    """A `Client` for programs without an event loop: the same verbs, and each returns when it is done.

    Verbs may be called on any thread. The first one starts a thread, which ends with `close`. After a fork, make
    another client. `submit` returns a `BlockingRun`.

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
        self._thread: LoopThread | None = None
        self._changing = threading.Lock()

    def close(self) -> None:
        """Close the connections and end the thread. It may be called twice; the next verb starts another thread.

        >>> client.close()
        """
        with self._changing:
            thread, self._thread = self._thread, None
            if thread is not None:
                try:
                    thread.ask(self.client.close())
                finally:
                    thread.close()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _door(self) -> Client:
        return self.client

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        with self._changing:
            thread = self._thread = self._thread or LoopThread()
        return thread.ask(work)
