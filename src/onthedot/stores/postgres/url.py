"""What a store's URL says: where the server is, and how to speak with it.

    postgresql://user:password@host:5432/database?schema=onthedot&sslmode=verify-full&sslrootcert=…

`schema`, `pooler`, `listen_url`, `connections` and `timeout` are ours; whatever else stands behind the question mark
goes to the server library, the TLS options among it. If none says otherwise, a server on another machine has to speak
TLS with a certificate that is checked: `sslmode=verify-full`.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from onthedot.model.errors import did_you_mean
from onthedot.stores.addresses import (
    ServerAddress,
    hosts_of,
    is_local,
    options_of,
    read_number,
    refuse_option,
    shown_url,
    split_options,
)

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
    dsn = with_tls(dsn)
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
        listen_dsn=with_tls(split_options(listen_url, ())[0]) if listen_url else None if pooled else dsn,
    )


_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def with_tls(dsn: str) -> str:
    """The same, with `sslmode=verify-full` for a server on another machine, unless the URL, `PGSSLMODE` or a service
    file says otherwise. Without a root certificate of its own, the machine's are believed.

    >>> with_tls("postgresql://10.0.0.7/shop?sslmode=disable"), with_tls("postgresql://localhost/shop")
    ('postgresql://10.0.0.7/shop?sslmode=disable', 'postgresql://localhost/shop')
    >>> with_tls("postgresql://db/shop?sslrootcert=/ca.pem")
    'postgresql://db/shop?sslrootcert=/ca.pem&sslmode=verify-full'
    """
    given = options_of(dsn)
    environment = os.environ
    if not given.keys().isdisjoint(("sslmode", "ssl", "service")) or {"PGSSLMODE", "PGSERVICE"} & environment.keys():
        return dsn
    hosts = hosts_of(dsn) or [environment.get("PGHOST", "")]
    if all(map(is_local, hosts)):
        return dsn
    dsn += f"{'&' if '?' in dsn else '?'}sslmode=verify-full"
    own = Path("~/.postgresql/root.crt").expanduser()
    if "sslrootcert" in given or "PGSSLROOTCERT" in environment or own.exists():
        return dsn
    machines = ssl.get_default_verify_paths().cafile or next((one for one in _BUNDLES if os.path.exists(one)), None)
    return f"{dsn}&sslrootcert={quote(machines, safe='')}" if machines else dsn
