"""What a store's URL says: where the server is, and how to speak with it.

    redis://user:password@host:6379/0?prefix=onthedot
    rediss://user:password@host:6379/0?ssl_ca_certs=/etc/ca.pem

`prefix`, `connections`, `timeout`, `tls` and `history` are ours; whatever else stands behind the question mark goes to
the library, the TLS options among it. For a server on another machine `redis://` is refused without `tls=off`.

`history` is how many finished runs the server keeps. All of them are in its memory, so there is an end to it: the
oldest go with the verdicts that are too many, and with upkeep. What goes is counted by job, day and state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from onthedot.stores.addresses import (
    ServerAddress,
    is_local,
    read_number,
    refuse_option,
    refuse_url,
    shown_url,
    split_options,
)

OURS = ("prefix", "connections", "timeout", "tls", "history")

MOST_FINISHED = 100_000

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


@dataclass(frozen=True, slots=True)
class Address(ServerAddress):
    """A server, and how to speak with it."""

    prefix: str = "onthedot"  # before every key of this store
    history: int = MOST_FINISHED  # how many finished runs are kept

    @property
    def tag(self) -> str:
        """What every key begins with. In braces: in a cluster all of them lie in one slot."""
        return f"{{{self.prefix}}}"


def read_url(url: str) -> Address:
    """
    >>> read_url("rediss://me:secret@db:6380/1?prefix=shop").shown
    'rediss://me:***@db:6380/1'
    """
    dsn, own = split_options(url, OURS)
    parts = urlsplit(dsn)
    if not parts.hostname:
        refuse_url(url, f"'{parts.scheme}://host:6379/0'", todo="name the server's host")
    if "," in parts.netloc.rpartition("@")[2]:
        refuse_url(url, "one host", todo="name the primary")
    if own.get("tls", "off") != "off":
        refuse_option("tls", "'off'; 'rediss://' is what speaks TLS", own["tls"])
    if parts.scheme == "redis" and not is_local(parts.hostname) and "tls" not in own:
        secure, plain = shown_url(url).replace("redis:", "rediss:", 1), f"{'&' if '?' in url else '?'}tls=off"
        refuse_url(
            url,
            "TLS for a server on another machine",
            todo=f"write '{secure}' if the server speaks TLS, or, only in a network that you trust, add '{plain}'",
        )
    prefix = own.get("prefix", "onthedot")
    if not _PREFIX.fullmatch(prefix):
        refuse_option("prefix", "a name of letters, digits and . _ - :", prefix)
    return Address(
        dsn,
        shown_url(url),
        connections=int(read_number(own, "connections", 10, least=2)),
        timeout=read_number(own, "timeout", 8.0, least=0.1),
        prefix=prefix,
        history=_read_history(own),
    )


def _read_history(own: Mapping[str, str]) -> int:
    """How many finished runs are kept."""
    given = own.get("history", str(MOST_FINISHED))
    if not given.isdecimal():
        refuse_option("history", "a whole number from 0 on", given)
    return int(given)
