"""A proxy between a node and PostgreSQL that can cut, delay or block connections, or lose one answer.

    with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port)
        proxy.black_hole()

It runs in its own thread and behaves like a network: blocked bytes are not lost. They arrive after `heal`, if both
ends of the connection still exist.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from tests.chaos.frames import AT_ANY_TIME, Conversation, Reply
from tests.servers.running import PATIENCE, free_port

T = TypeVar("T")
Side = Literal["client", "server"]

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time; closing then sends RST instead of FIN


@dataclass
class _Drop:
    """The answers that must be lost."""

    word: str
    times: int
    then: Literal["reset", "silence"]


@dataclass
class _Trap:
    """The statement at which the client must freeze."""

    word: str
    at: Literal["flush", "sync"]


class Proxy:
    """Listens on one port, and forwards its connections to one port of a server."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.dropped: list[Reply] = []  # the answers that were lost
        self.waited_for: list[tuple[str, str]] = []  # how a transaction began, and a statement parsed in it with Flush
        self.frozen = threading.Event()
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._cable = _Cable(self)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._do(self._cable.listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._cable.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE)

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────

    def cut(self) -> None:
        """Close every connection, and refuse new ones until `heal`."""
        self._do(self._cable.cut())

    def reset(self) -> None:
        """Reset every connection (RST). New ones are accepted."""
        self._do(self._cable.tear(reset=True))

    def black_hole(self) -> None:
        """Block both directions without closing connections."""
        self._do(self._cable.let_through())

    def one_way(self, to: Side) -> None:
        """Forward only bytes to this side."""
        self._do(self._cable.let_through(to))

    def delay(self, seconds: float) -> None:
        """Delay all bytes by this much, in each direction."""
        self._do(self._cable.slow_down(seconds))

    def drop_reply(self, word: str = "COMMIT", *, times: int = 1, then: Literal["reset", "silence"] = "reset") -> None:
        """Lose the next answer whose command tag begins with this word, or whose statement contains it.

        The server has done the command and committed. The client sees a reset, or never gets another byte.
        """
        self._do(self._cable.lose(_Drop(word, times, then)))

    def freeze_at(self, word: str, at: Literal["flush", "sync"] = "flush") -> None:
        """Let the client look frozen to the server: block all connections after a statement with this word.

        With `flush` the last message that passes is the Parse of the statement; with `sync` the whole statement passes.
        """
        self._do(self._cable.lay(_Trap(word, at)))

    def heal(self) -> None:
        """End all faults. Blocked bytes arrive in order; a lost answer stays lost."""
        self._do(self._cable.heal())

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._cable.lines)


class _Cable:
    """The part of the proxy that runs on its event loop."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.lines: set[_Line] = set()
        self.open: dict[Side, asyncio.Event] = {"client": asyncio.Event(), "server": asyncio.Event()}
        self.seconds = 0.0
        self.drop: _Drop | None = None
        self.trap: _Trap | None = None
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        for event in self.open.values():
            event.set()

    async def listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self._proxy.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            to_server = await asyncio.open_connection("127.0.0.1", self._proxy._server_port)
        except OSError:
            writer.close()
        else:
            await _Line(self, reader, writer, *to_server).run()
        finally:
            self._tasks.discard(task)

    def lost(self, reply: Reply) -> None:
        assert self.drop is not None
        self._proxy.dropped.append(reply)
        self.drop.times -= 1
        if not self.drop.times:
            self.drop = None

    async def cut(self) -> None:
        await self._stop_listening()
        await self.tear(reset=False)

    async def tear(self, *, reset: bool) -> None:
        for line in list(self.lines):
            line.end(reset=reset)

    async def let_through(self, *sides: Side) -> None:
        for side, event in self.open.items():
            if side in sides:
                event.set()
            else:
                event.clear()

    async def slow_down(self, seconds: float) -> None:
        self.seconds = seconds

    async def lose(self, drop: _Drop) -> None:
        self.drop = drop

    async def lay(self, trap: _Trap) -> None:
        self.trap = trap

    def spring(self) -> None:
        """Block both directions. It is no coroutine, so that no answer can pass before."""
        self.trap = None
        for event in self.open.values():
            event.clear()
        self._proxy.frozen.set()

    def waits(self, begun_by: str, statement: str) -> None:
        self._proxy.waited_for.append((begun_by, statement))

    async def heal(self) -> None:
        self.seconds, self.drop, self.trap = 0.0, None, None
        await self.let_through("client", "server")
        await self.listen()

    async def close(self) -> None:
        await self._stop_listening()
        await self.tear(reset=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Line:
    """One connection through the proxy, with a pump for each direction."""

    def __init__(
        self,
        cable: _Cable,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._cable = cable
        self._client, self._to_client = client, to_client
        self._server, self._to_server = server, to_server
        self._talk = Conversation()
        self._held: list[bytes] = []  # messages of a reply that may have to be lost, until its end has come
        self._deaf = False  # an answer was lost: this client gets nothing more
        cable.lines.add(self)

    async def run(self) -> None:
        pumps = [
            asyncio.ensure_future(self._pump(self._client, self._to_server, "server", self._heard_client)),
            asyncio.ensure_future(self._pump(self._server, self._to_client, "client", self._heard_server)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.end(reset=False)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        side: Side,
        heard: Callable[[bytes], bytes],
    ) -> None:
        """Forward bytes until one side closes. The close, too, passes only while this direction is open."""
        try:
            while data := await source.read(65_536):
                passed = heard(data)
                if self._cable.seconds:
                    await asyncio.sleep(self._cable.seconds)
                await self._cable.open[side].wait()
                sink.write(passed)
                if side == "server" and self._is_trapped():
                    self._cable.spring()
                await sink.drain()
            await self._cable.open[side].wait()
        except ConnectionError:
            return

    def _heard_client(self, data: bytes) -> bytes:
        self._talk.flushed = self._talk.executed = ""
        self._talk.client_said(data)
        if self._talk.flushed and self._talk.begun_by:
            self._cable.waits(self._talk.begun_by, self._talk.flushed)
        return data

    def _is_trapped(self) -> bool:
        trap = self._cable.trap
        if trap is None or not self._talk.begun_by:
            return False
        return trap.word in (self._talk.flushed if trap.at == "flush" else self._talk.executed)

    def _heard_server(self, data: bytes) -> bytes:
        passed = []
        for message, reply in self._talk.server_said(data):
            if self._deaf:
                break
            if self._held or (self._may_be_lost(message) and reply is None):
                self._held.append(message)
            else:
                passed.append(message)
            if reply is not None:
                passed += self._decide(reply)
        return b"".join(passed)

    def _may_be_lost(self, message: bytes) -> bool:
        return self._cable.drop is not None and self._talk.waiting and message[:1] not in AT_ANY_TIME

    def _decide(self, reply: Reply) -> list[bytes]:
        """Return the held messages of a complete reply, or none if the reply must be lost."""
        held, self._held = self._held, []
        drop = self._cable.drop
        if drop is None or not reply.answers(drop.word):
            return held
        self._cable.lost(reply)
        self._deaf = True
        if drop.then == "reset":
            self.end(reset=True)
        return []

    def end(self, *, reset: bool) -> None:
        """Close both ends."""
        self._cable.lines.discard(self)
        for writer in (self._to_client, self._to_server):
            if reset and not writer.transport.is_closing():
                raw: socket.socket = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            writer.close()
