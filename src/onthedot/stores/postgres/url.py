"""What a store's URL says: where the server is, and how to speak with it.

    postgresql://user:password@host:5432/database?schema=onthedot&sslmode=verify-full&sslrootcert=…

`schema`, `pooler`, `listen_url`, `connections` and `timeout` are ours; whatever else stands behind the question mark
goes to the server library, the TLS options among it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onthedot.errors import did_you_mean
from onthedot.stores.addresses import ServerAddress, read_number, refuse_option, shown_url, split_options

OURS = ("schema", "pooler", "listen_url", "connections", "timeout")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True)
class Address(ServerAddress):
    """A server, and how to speak with it."""

    schema: str = "onthedot"  # where the tables are
    pooled: bool = False  # a pooler is between, which gives each transaction another session
    listen_dsn: str | None = field(default=None, repr=False)  # where to listen for hints; None: nowhere


def read_url(url: str) -> Address:
    """
    >>> read_url("postgresql://me:secret@db/shop?schema=jobs&sslmode=require").shown
    'postgresql://me:***@db/shop'
    """
    dsn, own = split_options(url, OURS)
    schema = own.get("schema", "onthedot")
    if not _SCHEMA.fullmatch(schema):
        refuse_option("schema", "a name of small letters, digits and underscores", schema)
    pooler = own.get("pooler", "none")
    if pooler not in ("none", "transaction"):
        refuse_option("pooler", f"'none' or 'transaction'{did_you_mean(pooler, ('none', 'transaction'))}", pooler)
    pooled = pooler == "transaction"
    listen_url = own.get("listen_url")
    return Address(
        dsn,
        shown_url(url),
        connections=int(read_number(own, "connections", 10, least=2)),
        timeout=read_number(own, "timeout", 8.0, least=0.1),
        schema=schema,
        pooled=pooled,
        listen_dsn=split_options(listen_url, ())[0] if listen_url else None if pooled else dsn,
    )
