"""Reports to systemd that the node is ready, stopping or alive. Does nothing without `NOTIFY_SOCKET`.

The protocol is one datagram of `NAME=value` lines. The watchdog message is sent only after every event loop of
the process has answered: if a loop hangs, the messages stop, and systemd restarts the service.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path

from onthedot.clock import SECOND, Micros
from onthedot.observe.formats import count

logger = logging.getLogger("onthedot.systemd")

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LEAVING: Micros = 30 * SECOND  # for the work after the grace: killing, storing outcomes, closing
_MOST = 4096  # bytes of a datagram that a node sends

Ping = Callable[[Callable[[], None]], None]
"""Calls its argument on an event loop, to show that the loop runs."""


class Notifier:
    """Sends messages to systemd. `watchdog` is the longest silence that systemd accepts, in microseconds (0: any)."""

    def __init__(self, address: str = "", watchdog: Micros = 0) -> None:
        self._address = _read_address(address)
        self.watchdog = watchdog if self._address else 0

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Notifier:
        """Read the variables that systemd sets, and remove them: child processes are not the service."""
        address, length, pid = (environment.pop(name, "") for name in VARIABLES)
        ours = pid in ("", str(os.getpid()))
        return cls(address, int(length) if ours and length.isascii() and length.isdigit() else 0)

    @property
    def is_wanted(self) -> bool:
        """Return whether systemd listens."""
        return self._address != ""

    def ready(self, status: str) -> None:
        """Report that the node has started."""
        self.tell("READY=1", f"STATUS={status}")

    def stopping(self, grace: Micros) -> None:
        """Report that the drain begins. It may take the whole grace, whatever `TimeoutStopSec` is."""
        self.tell("STOPPING=1", "STATUS=draining", f"EXTEND_TIMEOUT_USEC={grace + _LEAVING}")

    def alive(self) -> None:
        """Report to the watchdog that the node is alive."""
        self.tell("WATCHDOG=1")

    def tell(self, *lines: str) -> None:
        """Send these lines. An error is logged, and the node continues: systemd decides what to do."""
        if not self._address:
            return
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1.0)  # a full queue must not block the node
                sender.sendto(text.encode(), self._address)
        except OSError as error:
            logger.warning("systemd could not be told %r at NOTIFY_SOCKET: %s", lines[0], error)


def _read_address(text: str) -> str:
    """Return the address of a socket: a path in the file system, or an abstract name (`@…`). Return empty text for any
    other.

    >>> _read_address("/run/systemd/notify"), _read_address("@abc"), _read_address("vsock:2:1"), _read_address("@")
    ('/run/systemd/notify', '\\x00abc', '', '')
    """
    if text.startswith("@"):
        return "\0" + text[1:] if len(text) > 1 else ""
    return text if text.startswith("/") else ""


class Watchdog:
    """Reports twice in each watchdog period that the node is alive, while all event loops answer."""

    def __init__(self, notifier: Notifier, pings: Sequence[Ping]) -> None:
        self._notifier = notifier
        self._pings = tuple(pings)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if systemd has a watchdog."""
        if self._notifier.watchdog:
            self._thread = threading.Thread(target=self._main, name="onthedot watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop. May be called twice."""
        self._stopped.set()

    def _main(self) -> None:
        half = self._notifier.watchdog / 2 / SECOND
        while not self._stopped.is_set():
            answered = threading.Semaphore(0)
            for ping in self._pings:
                ping(answered.release)
            for _ in self._pings:
                while not answered.acquire(timeout=0.2):
                    if self._stopped.is_set():
                        return
            self._notifier.alive()
            self._stopped.wait(half)


class NotifierGroup:
    """Collects the messages of all nodes and sends one to systemd. Each node gets a socket of its own, because systemd
    listens to the first process only. `lives` returns whether a node is running now."""

    def __init__(self, notifier: Notifier, size: int, lives: Callable[[int], bool]) -> None:
        self._notifier = notifier
        self._size = size
        self._lives = lives
        self._lock = threading.Lock()
        self._ready: set[int] = set()
        self._alive: set[int] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="onthedot-") if notifier.is_wanted else None
        self._sockets = [self._listen(number) for number in range(size)] if notifier.is_wanted else []

    def environment(self, number: int) -> dict[str, str]:
        """The environment variables for this node."""
        if not self._sockets:
            return {}
        own = {"NOTIFY_SOCKET": self._sockets[number].getsockname()}
        return {**own, "WATCHDOG_USEC": str(self._notifier.watchdog)} if self._notifier.watchdog else own

    def stopping(self) -> None:
        """Report that all nodes drain. Each node reports how long that may take."""
        self._notifier.tell("STOPPING=1", "STATUS=draining")

    def close(self) -> None:
        """Stop listening. May be called twice."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            one.shutdown(socket.SHUT_RDWR)  # wakes its thread
        if self._folder is not None:
            self._folder.cleanup()

    def _listen(self, number: int) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        listening.bind(str(Path(self._folder.name if self._folder else "") / str(number)))
        threading.Thread(target=self._hear, args=(number, listening), daemon=True).start()
        return listening

    def _hear(self, number: int, listening: socket.socket) -> None:
        with listening:
            while text := listening.recv(_MOST):
                self.heard(number, text.decode(errors="replace").split("\n"))

    def heard(self, number: int, lines: Sequence[str]) -> None:
        """Handle a message of one node."""
        with self._lock:
            if "READY=1" in lines and number not in self._ready:
                self._ready.add(number)
                if len(self._ready) == self._size:
                    self._notifier.ready(f"{count(self._size, 'node')} ready")
            if "WATCHDOG=1" in lines:
                self._alive.add(number)
                if all(one in self._alive or not self._lives(one) for one in range(self._size)):
                    self._alive.clear()
                    self._notifier.alive()
            extended = [line for line in lines if line.startswith("EXTEND_TIMEOUT_USEC=")]
            if extended:
                self._notifier.tell(*extended)
