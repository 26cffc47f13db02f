"""Opens a store on this event loop, and offers the verbs on it: for front doors without an engine."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from onthedot.access.audit_recorder import Recorder
from onthedot.clock import SECOND, Clock, Micros, SystemClock
from onthedot.define.job_writer import written
from onthedot.ids import Ids, RandomIds
from onthedot.loop import Loop
from onthedot.model.events import Event, Events
from onthedot.operations.known_jobs import KnownJobs
from onthedot.operations.result_waiters import Ends
from onthedot.operations.session import Session
from onthedot.operations.store_verbs import StoreVerbs
from onthedot.output.output_owner import find_owner
from onthedot.output.output_store import OutputStore
from onthedot.settings import Settings
from onthedot.store_clock import clock_of
from onthedot.stores.addresses import with_connections
from onthedot.stores.connect import open_store
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store

T = TypeVar("T")
logger = logging.getLogger("onthedot.operations.open_verbs")


class OpenStore:
    """An open store with its clock, its output store, and the callers that wait for results."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, outputs: OutputStore | None) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.outputs = outputs
        self.ids: Ids = RandomIds()
        self.ends = Ends(store, settings)
        self.known = KnownJobs(store)
        self._loop = Loop(clock, self.ids, _tell_trouble)
        self._loop.add(self.ends)
        store.hints.listen(self._hear)

    def _hear(self, hint: Hint) -> None:
        if self.ends.wants(hint):
            self.ends.wake()

    def start(self) -> None:
        """Begin to wake callers that wait for results."""
        self._loop.start()

    async def stop(self) -> None:
        """Stop waking them."""
        await self._loop.abandon()

    def session(self, namespace: str, recorder: Recorder | None, events: Events) -> Session:
        """Return the session that operations need, for a caller in this namespace."""
        return Session(
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            ids=self.ids,
            events=events,
            ends=self.ends,
            known=self.known,
            outputs=self.outputs,
            recorder=recorder,
            namespace=namespace,
        )

    def verbs(self, namespace: str = "default", *, door: str = "") -> OpenVerbs:
        """The verbs for this namespace. With a door, such as "command line", changes are recorded in the audit as
        this process's own; without one, the caller records them."""
        return OpenVerbs(self, namespace, Recorder(self.store, self.clock, door, written) if door else None)


@asynccontextmanager
async def opened(url: str, settings: Settings | None = None) -> AsyncGenerator[OpenStore]:
    """Open the store of this URL on this event loop until the block ends. It has its own connections, as
    many as `Settings.api_connections` says.

    >>> import asyncio
    >>> async def names() -> list[str]:
    ...     async with opened("memory:") as there:
    ...         return [record.job.name for record in await there.verbs().list_jobs()]
    >>> asyncio.run(names())
    []
    """
    settings = settings or Settings()
    store = await open_store(with_connections(url, settings.api_connections))
    try:
        outputs = OutputStore((await find_owner(store)).location(settings.output, url))
        there = OpenStore(store, await clock_of(store, SystemClock()), settings, outputs)
        there.start()
        try:
            yield there
        finally:
            await there.stop()
    finally:
        await store.close()


class OpenVerbs(StoreVerbs):
    """See `Verbs`. An object is small and has one namespace; any number of them share an `OpenStore`. No handler is
    known here, so the worker checks the arguments of handlers.
    """

    def __init__(self, there: OpenStore, namespace: str = "default", recorder: Recorder | None = None) -> None:
        self.there = there
        self.namespace = namespace
        self._events = Events()
        self._session = there.session(namespace, recorder, self._events)

    def subscribe(self, subscriber: Callable[[Event], None]) -> None:
        """Receive the events of these verbs, such as the progress of a backfill."""
        self._events.subscribe(subscriber)

    async def _with_session(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        return await work(self._session)


def _tell_trouble(service: str, error: Exception, again_in: Micros) -> None:
    logger.warning("%s: %s; tried again in %.1f s", service, error, again_in / SECOND)
