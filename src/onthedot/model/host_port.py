"""Reads the address that a server listens on: `HOST:PORT`."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.model.addresses import is_loopback
from onthedot.model.errors import DefinitionError

PORT = 7411
"""The port of the HTTP API, by default."""


class Listen(NamedTuple):
    """Where to listen. With port 0, or `elsewhere` if the port is taken: at a free one."""

    host: str = "127.0.0.1"
    port: int = PORT
    elsewhere: bool = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def text(self) -> str:
        """As in a URL.

        >>> Listen("::1", 80).text
        '[::1]:80'
        """
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_listen(text: str, what: str = "listen") -> Listen:
    """`HOST:PORT`, `PORT` or `[::1]:PORT`.

    >>> read_listen("7411"), read_listen("[::1]:80").host
    (Listen(host='127.0.0.1', port=7411, elsewhere=False), '::1')
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in bare and bare == host):
        raise DefinitionError(f"{what}: expected HOST:PORT such as 127.0.0.1:{PORT}, or a port, got {text!r}")
    return Listen(bare or "127.0.0.1", int(port))
