"""Limits the connections of a server: in all, and from one address.

They are counted when they are accepted, before TLS and HTTP, so a client that sends nothing counts as well.
"""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

from onthedot.access.login_limits import place_of
from onthedot.model.host_port import Listen
from onthedot.server.proxies import Proxies

logger = logging.getLogger("onthedot.server")

_OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_BACKLOG = 1024
_FOR_THE_REST = 1024  # open files of a process beside its connections
_TOLD = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connections:
    """Counts open connections. A trusted proxy has no limit of its own, because it stands for many clients."""

    def __init__(self, most: int, most_per_address: int, proxies: Proxies) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._proxies = proxies
        self._open: Counter[str] = Counter()
        self.count = 0

    def add(self, host: str) -> str | None:
        """Count a connection from an address. Returns what to `remove` later, or None if there are too many."""
        place = place_of(host)
        if self.count >= self._most:
            logger.warning("refused a connection from %s: expected at most %d in all, "
                           "see Settings.api_clients", place, self._most)  # fmt: skip
            return None
        if self._open[place] >= self._most_per_address and not self._proxies.trusts(host):
            logger.warning("refused a connection from %s: expected at most %d from one address; is it a proxy? "
                           "See --trusted-proxy and Settings.api_clients_per_address",
                           place, self._most_per_address)  # fmt: skip
            return None
        self.count += 1
        self._open[place] += 1
        return place

    def remove(self, place: str) -> None:
        """A connection is closed."""
        self.count -= 1
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]


class BoundedListener(socket.socket):
    """A listening socket that accepts a limited number of connections."""

    def __init__(self, family: int, connections: Connections, *, tells: bool) -> None:
        # Created as TCP, or asyncio would leave Nagle's algorithm on. Headers and body are two writes, and the second
        # would wait 40 ms for the delayed acknowledgement of the first.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._connections = connections
        self._tells = tells  # whether a refused client gets an answer in plain HTTP
        self._failed = False

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; `ConnectionAbortedError` if there are too many, which asyncio ignores."""
        if self._failed:  # without this, asyncio would try and report 1,024 times; now it retries in a second
            self._failed = False
            raise BlockingIOError
        try:
            connection, address = super().accept()
        except OSError as error:
            self._failed = error.errno in _OUT_OF_FILES
            raise
        place = self._connections.add(address[0])
        if place is None:
            with connection:
                if self._tells:
                    with suppress(OSError):
                        connection.setblocking(False)
                        connection.send(_TOLD)
            raise ConnectionAbortedError
        return _Accepted(connection, self._connections, place), address


class _Accepted(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, accepted: socket.socket, connections: Connections, place: str) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._connections = connections
        self._place: str | None = place

    def close(self) -> None:
        """Close it. It may be called twice."""
        super().close()
        if self._place is not None:
            self._connections.remove(self._place)
            self._place = None


def listen_at(listen: Listen, connections: Connections, *, tells: bool) -> BoundedListener:
    """A socket that listens there; `OSError` if it cannot."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    listener = BoundedListener(family, connections, tells=tells)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listen.host, listen.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def affordable(most: int) -> int:
    """How many connections this process can hold, at most `most`: half of the files that it may open. Raises the soft
    limit of open files if that is necessary."""
    needed = most + max(most, _FOR_THE_REST)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return most
    fewer = min(most, max(1, soft // 2))
    if fewer < most:
        logger.warning("this process may open %d files: it takes %d connections at a time instead of %d; "
                       "raise the limit (ulimit -n)", soft, fewer, most)  # fmt: skip
    return fewer
