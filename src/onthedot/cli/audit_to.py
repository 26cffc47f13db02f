"""Where `onthedot audit --follow --to` sends entries: a syslog receiver, or a signed webhook."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from onthedot.access.audit_sender import Send, SendFailed, signature
from onthedot.cli.errors import BadInput
from onthedot.clock import SECOND, SystemClock
from onthedot.model.addresses import AddressRefused, Allowed, Target, literal, read_url
from onthedot.observe.formats import iso

if TYPE_CHECKING:
    from onthedot.access.audit import Recorded
    from onthedot.runners.http import HttpDoor

KEY = "ONTHEDOT_AUDIT_KEY"
"""The variable with the key that webhooks are signed with."""
LEAST_KEY = 16

_PRIORITY = 13 * 8 + 5  # facility "log audit", severity "notice"
_SECONDS = 5.0  # for a connection, and for the end of one
_PORTS = {"syslog": 514, "syslog+tcp": 601}


def as_line(entry: Recorded) -> str:
    """An entry as one line of JSON."""
    return json.dumps({**entry._asdict(), "at": iso(entry.at)})


def read_destination(text: str, allow: Sequence[str]) -> Send:
    """What sends entries there. `BadInput` for what is no destination, or a webhook without a key."""
    if text.startswith("syslog"):
        return _read_syslog(text).send
    if not text.startswith(("https://", "http://")):
        raise BadInput(
            f"--to: expected https://…, syslog:/dev/log, syslog://HOST:PORT or syslog+tcp://HOST:PORT, got {text!r}"
        )
    try:
        target, allowed = read_url(text), Allowed.of(allow)
    except AddressRefused as error:
        raise BadInput(f"--to: {error}") from None
    address = literal(target.host)
    is_allowed = allowed.has_host(target.host) or (address is not None and allowed.has(address))
    if target.scheme == "http" and not is_allowed:
        raise BadInput(f"--to: expected https://…, got http://{target.host}; --allow {target.host} if the way is safe")
    key = os.environ.get(KEY, "")
    if len(key) < LEAST_KEY:
        raise BadInput(
            f"--to: expected a key to sign with in {KEY}, of at least {LEAST_KEY} characters, got {len(key)}; "
            f"make one with 'openssl rand -hex 32', and give it to the receiver"
        )
    from onthedot.runners.http import HttpDoor

    return Webhook(HttpDoor(allowed, SystemClock()), target, key).send


# ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────


class Webhook:
    """Posts entries as JSON lines. The receiver answers 200 to 299 when it has stored them; anything else, a redirect
    too, and they are sent again."""

    def __init__(self, door: HttpDoor, target: Target, key: str) -> None:
        self._door = door
        self._target = target
        self._key = key

    async def send(self, entries: Sequence[Recorded]) -> None:
        from onthedot.runners.http import HttpTrouble
        from onthedot.runners.http_rules import Request

        body = "".join(f"{as_line(entry)}\n" for entry in entries).encode()
        timestamp = SystemClock().now() // SECOND
        headers = (
            ("user-agent", "onthedot"),
            ("content-type", "application/x-ndjson"),
            ("onthedot-timestamp", str(timestamp)),
            ("onthedot-signature", signature(self._key, timestamp, body)),
        )
        try:
            status = await self._door.status_of(Request("POST", self._target, headers, body))
        except AddressRefused as error:
            raise SendFailed(f"{error} (here: --allow HOST or NETWORK)") from error
        except HttpTrouble as error:
            raise SendFailed(str(error)) from error
        if not 200 <= status < 300:
            raise SendFailed(f"{self._target.authority}: expected status 200 to 299, got {status}")


# ── syslog ───────────────────────────────────────────────────────────────────────────────────────────────────


class Syslog(NamedTuple):
    """A receiver of RFC 5424 messages: a local socket, or a host by UDP or TCP."""

    kind: str  # "unix", "udp" or "tcp"
    where: str | tuple[str, int]

    async def send(self, entries: Sequence[Recorded]) -> None:
        try:
            await asyncio.to_thread(self._send, [_message(entry) for entry in entries])
        except OSError as error:
            raise SendFailed(f"syslog at {self.where}: {error}") from error

    def _send(self, messages: Sequence[bytes]) -> None:
        if self.kind == "tcp":
            self._send_stream(messages)
            return
        with self._datagrams() as link:
            for message in messages:
                link.send(message)

    def _datagrams(self) -> socket.socket:
        family, where = socket.AF_UNIX, self.where
        if not isinstance(where, str):
            family, where = _resolved(*where)
        link = socket.socket(family, socket.SOCK_DGRAM)
        link.settimeout(_SECONDS)
        try:
            link.connect(where)
        except OSError:
            link.close()
            raise
        return link

    def _send_stream(self, messages: Sequence[bytes]) -> None:
        """Each message with its length before it (RFC 6587). A receiver that reads to the end closes its side."""
        with socket.create_connection(self.where, timeout=_SECONDS) as link:  # type: ignore[arg-type]  # host and port
            link.sendall(b"".join(b"%d %s" % (len(message), message) for message in messages))
            link.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):  # some keep it open, and have read all the same
                link.recv(1)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    return family, where


def _message(entry: Recorded) -> bytes:
    """RFC 5424. JSON in ASCII: no line ends, no control characters."""
    return f"<{_PRIORITY}>1 {iso(entry.at)} {socket.gethostname()} onthedot - audit - {as_line(entry)}".encode()


def _read_syslog(text: str) -> Syslog:
    scheme, _, rest = text.partition(":")
    if scheme == "syslog" and not rest.startswith("//"):
        return Syslog("unix", rest or "/dev/log")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or _PORTS[scheme]
    except (KeyError, ValueError):
        host, port = None, 0
    if not host:
        raise BadInput(f"--to: expected syslog:/dev/log, syslog://HOST:PORT or syslog+tcp://HOST:PORT, got {text!r}")
    return Syslog("tcp" if scheme == "syslog+tcp" else "udp", (host, port))
