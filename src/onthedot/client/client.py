"""The front door of a server, for programs with an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from onthedot.client.cluster import ClusterAsked
from onthedot.client.connection import ServerConnection
from onthedot.client.jobs import JobsAsked
from onthedot.client.letters import LettersAsked
from onthedot.client.runs import RunsAsked

if TYPE_CHECKING:
    import httpx2


class Client(JobsAsked, RunsAsked, LettersAsked, ClusterAsked):
    """The verbs of a `Scheduler`, asked of a server by HTTP: the same answers, and the same errors.

    `url` is the server's address, `key` an API key (`onthedot keys create`), `namespace` where jobs are looked up by
    name. A key is sent to another machine by `https://` only, unless `insecure` allows it: else others on the way read
    it, and the client is refused (`DefinitionError`). What a key may not do is `AccessDenied`; without one that counts
    it is `KeyRefused`; a server that cannot be reached, or has lost its store, is `StoreUnavailable`. What only reads,
    and what makes a run, is sent again by itself, a few times, with growing distances; a run is made once all the same.
    Use it on one event loop, and close it, or use `async with`. With `transport`, requests are sent in another way than
    by sockets.

    >>> from datetime import timedelta
    >>> import onthedot as otd
    >>> from onthedot.model.host_port import Listen
    >>> from onthedot.server.http_server import HttpServer
    >>> server = HttpServer("memory:", otd.Settings(), Listen(port=0), knows=None)
    >>> server.start()
    >>> nap = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)))
    >>> async with otd.Client(server.url) as client:
    ...     _ = await client.put(nap)
    ...     run = await client.submit("nap", delay="1h")
    ...     print(await run.state(), [queue.waiting for queue in await client.list_queues()])
    scheduled [1]
    >>> server.stop()
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        namespace: str = "default",
        insecure: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.server = ServerConnection(url, key, insecure=insecure, transport=transport)
        self.namespace = namespace

    async def close(self) -> None:
        """Close the connections to the server. Twice is fine.

        >>> client = Client("http://127.0.0.1:7411")
        >>> await client.close()
        """
        await self.server.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Client({self.server.url!r}, namespace={self.namespace!r})"
