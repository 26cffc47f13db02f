"""What a store's URL says: where the server is, and how to speak with it.

    postgresql://user:password@host:5432/database?schema=onthedot&sslmode=verify-full&sslrootcert=…

`schema`, `pooler`, `listen_url`, `connections` and `timeout` are ours; whatever else stands behind the question mark
goes to the server library, the TLS options among it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from onthedot.errors import DefinitionError, did_you_mean

OURS = ("schema", "pooler", "listen_url", "connections", "timeout")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and how to speak with it."""

    dsn: str  # for the server library: without our own options
    shown: str  # for people: without the password
    schema: str = "onthedot"  # where the tables are
    pooled: bool = False  # a pooler is between, which gives each transaction another session
    listen_dsn: str | None = None  # where to listen for hints; None: nowhere
    connections: int = 10  # at most, for each event loop
    timeout: float = 8.0  # seconds for one statement of the engine: less than a node's lease


def read_url(url: str) -> Address:
    """
    >>> read_url("postgresql://me:secret@db/shop?schema=jobs&sslmode=require").shown
    'postgresql://me:***@db/shop'
    """
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in given if name in OURS}
    dsn = urlunsplit(parts._replace(query=urlencode([pair for pair in given if pair[0] not in OURS], quote_via=quote)))
    schema = own.get("schema", "onthedot")
    if not _SCHEMA.fullmatch(schema):
        _refuse("schema", "a name of small letters, digits and underscores", schema)
    pooler = own.get("pooler", "none")
    if pooler not in ("none", "transaction"):
        _refuse("pooler", f"'none' or 'transaction'{did_you_mean(pooler, ('none', 'transaction'))}", pooler)
    pooled = pooler == "transaction"
    return Address(
        dsn,
        _shown(url),
        schema,
        pooled,
        own.get("listen_url") or (None if pooled else dsn),
        int(_number("connections", own.get("connections", "10"), least=2)),
        _number("timeout", own.get("timeout", "8"), least=0.1),
    )


def _shown(url: str) -> str:
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
