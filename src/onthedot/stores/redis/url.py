"""What a store's URL says: where the server is, and how to speak with it.

    redis://user:password@host:6379/0?prefix=onthedot
    rediss://user:password@host:6379/0?ssl_ca_certs=/etc/ca.pem

`prefix`, `connections` and `timeout` are ours; whatever else stands behind the question mark goes to the library, the
TLS options among it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from onthedot.errors import DefinitionError

OURS = ("prefix", "connections", "timeout")

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and how to speak with it."""

    dsn: str  # for the library: without our own options
    shown: str  # for people: without the password
    prefix: str = "onthedot"  # before every key of this store
    connections: int = 10  # at most, for each event loop
    timeout: float = 8.0  # seconds for one call: less than a node's lease

    @property
    def tag(self) -> str:
        """What every key begins with. In braces: in a cluster all of them lie in one slot."""
        return f"{{{self.prefix}}}"


def read_url(url: str) -> Address:
    """
    >>> read_url("redis://me:secret@db:6380/1?prefix=shop").shown
    'redis://me:***@db:6380/1'
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise DefinitionError(f"store URL: expected '{parts.scheme}://host:6379/0', got {shown_url(url)!r}")
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in given if name in OURS}
    dsn = urlunsplit(parts._replace(query=urlencode([pair for pair in given if pair[0] not in OURS], quote_via=quote)))
    prefix = own.get("prefix", "onthedot")
    if not _PREFIX.fullmatch(prefix):
        _refuse("prefix", "a name of letters, digits and . _ - :", prefix)
    connections = int(_number("connections", own.get("connections", "10"), least=2))
    return Address(dsn, shown_url(url), prefix, connections, _number("timeout", own.get("timeout", "8"), least=0.1))


def shown_url(url: str) -> str:
    """The URL without the password and what stands behind the question mark."""
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    name, has_password, _ = user.partition(":")
    who = f"{name}:***@" if has_password else f"{name}@" if name else ""
    return f"{parts.scheme}://{who}{place}{parts.path}"


def _number(name: str, text: str, *, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        _refuse(name, f"a number from {least} on", text)
    if not least <= number <= 1_000:
        _refuse(name, f"a number from {least} to 1000", text)
    return number


def _refuse(name: str, expected: str, got: str) -> NoReturn:
    raise DefinitionError(f"store URL, option {name}: expected {expected}, got {got!r}")
