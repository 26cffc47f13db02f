"""Parses the URLs of stores: the part that all drivers share.

    scheme://user:password@host:port/path?ours=…&theirs=…

Some options are ours, and each driver lists its own. The other options go to its library. `shown_url` hides passwords
in logs and errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NoReturn
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from onthedot.model.errors import DefinitionError

HIDDEN = "***"

HIGHEST_PORT = 65_535
HIGHEST_NUMBER = 1_000

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OPTIONS = re.compile(r"\?(?=\w+=|$)")  # the question mark before options; others may be part of a password
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server, and the connection options that every driver has."""

    dsn: str = field(repr=False)  # for the driver's library: without our own options, with the password
    shown: str  # for people: without the password
    connections: int = 10  # at most, for each event loop
    timeout: float = 8.0  # seconds for one call: less than a node's lease


def shown_url(url: str) -> str:
    """Return the URL for people, without the password and without options.

    A password without the required percent-encoding is hidden, too.

    >>> shown_url("postgresql://ann:secret@db:5432/shop?password=secret")
    'postgresql://ann:***@db:5432/shop'
    """
    if url.startswith("sqlite:///"):
        return url  # a file may have any name
    scheme = _SCHEME.match(url)
    begins = scheme.end() if scheme else 0
    who, at, place = _OPTIONS.split(url[begins:], maxsplit=1)[0].rpartition("@")
    place = place.partition("?")[0]
    if at:
        name, colon, _ = who.partition(":")
        return f"{url[:begins]}{name}{f':{HIDDEN}' if colon else ''}@{place}"
    hosts, slash, path = place.partition("/")
    if scheme:  # without an @, a port that is not a number may be a password
        hosts = ",".join(map(_shown_host, hosts.split(",")))
    return f"{url[:begins]}{hosts}{slash}{path}"


def _shown_host(host: str) -> str:
    return host if _HOST.fullmatch(host) else f"{host.partition(':')[0]}:{HIDDEN}"


def split_options(url: str, ours: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the URL for the driver's library, without our own options, and our own options."""
    _check_hosts(url)
    place, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    theirs = urlencode([pair for pair in given if pair[0] not in ours], quote_via=quote)
    return f"{place}?{theirs}" if theirs else place, {name: value for name, value in given if name in ours}


def hosts_of(url: str) -> list[str]:
    """Return the hosts that a URL names, without ports. Empty: the library's default host.

    >>> hosts_of("postgresql://me:x@db1:5432,[::1]/shop"), hosts_of("postgresql://%2Frun%2Fpostgresql/shop")
    (['db1', '::1'], ['/run/postgresql'])
    """
    place = re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0]  # urlsplit refuses several with brackets
    named = unquote(place.rpartition("@")[2]) or options_of(url).get("host", "")
    return [_without_port(host) for host in named.split(",") if host]


def options_of(url: str) -> dict[str, str]:
    """Return the options of a URL, after its question mark."""
    return dict(parse_qsl(url.partition("?")[2].partition("#")[0], keep_blank_values=True))


def _without_port(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_local(host: str) -> bool:
    """Return whether a host is this machine: a socket's path, `localhost`, 127.0.0.0/8 or ::1.

    >>> [is_local(host) for host in ("/run/postgresql", "localhost", "127.0.0.2", "::1", "10.0.0.7", "localhost.evil")]
    [True, True, True, True, False, False]
    """
    if not host or host[0] in "/@" or host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def exposed(url: str) -> str:
    """Return what is unsafe about the connection to a store on another machine, and what to do. Empty: it is safe.

    >>> exposed("redis://db/0?tls=off")
    "not encrypted: whoever is between can read it, the password as well; use 'rediss://'"
    >>> exposed("redis://127.0.0.1/0"), exposed("rediss://db/0"), exposed("sqlite:///jobs.db")
    ('', '', '')
    """
    scheme = url.partition(":")[0]
    environment = os.environ if scheme.startswith("postgres") else {}
    hosts = hosts_of(url) or [environment.get("PGHOST", "")]
    if scheme not in ("postgresql", "postgres", "redis", "rediss") or all(map(is_local, hosts)):
        return ""
    options = options_of(url)
    if scheme in ("redis", "rediss"):
        plain, unchecked = scheme == "redis", options.get("ssl_cert_reqs") in ("none", "optional")
        unchecked |= options.get("ssl_check_hostname", "").lower() in ("false", "0", "no", "n", "f")
        better = "use 'rediss://'" if plain else "leave out ssl_cert_reqs and ssl_check_hostname"
    else:
        mode = options.get("sslmode", environment.get("PGSSLMODE", "verify-full"))
        plain, unchecked = mode in ("disable", "allow", "prefer"), mode in ("require", "verify-ca")
        better = "use sslmode=verify-full"
    if plain:
        return f"not encrypted: whoever is between can read it, the password as well; {better}"
    return f"encrypted, but another server can pretend to be it; {better}" if unchecked else ""


def with_connections(url: str, connections: int | None) -> str:
    """Return the URL of the same store with at most this many connections for each event loop. None: keep the URL's
    number. A file or a store in memory has no connections.

    >>> with_connections("redis://db/0?prefix=shop&connections=9", 4)
    'redis://db/0?prefix=shop&connections=4'
    >>> with_connections("sqlite:///jobs.db", 4)
    'sqlite:///jobs.db'
    """
    if connections is None or url.startswith(("sqlite:", "memory:")):
        return url
    place, _ = split_options(url, ("connections",))
    return f"{place}{'&' if '?' in place else '?'}connections={connections}"


def _check_hosts(url: str) -> None:
    """Refuse hosts that the libraries cannot handle."""
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    except ValueError:
        refuse_url(url, "a host, or an IPv6 address in brackets")
    found = [_HOST.fullmatch(host) for host in hosts]
    if not all(host and int(host[1] or 0) <= HIGHEST_PORT for host in found):
        todo = "mend the port; in a password write / ? # @ as %2F %3F %23 %40"
        refuse_url(url, f"'host' or 'host:port' with a port up to {HIGHEST_PORT}", todo=todo)


def read_number(own: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    """Return the number of one of our options, or the default."""
    text = own.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        refuse_option(name, f"a number from {least} on", text)
    if not least <= number <= HIGHEST_NUMBER:
        refuse_option(name, f"a number from {least} to {HIGHEST_NUMBER}", text)
    return number


def refuse_option(name: str, expected: str, got: str) -> NoReturn:
    """Raise `DefinitionError` for one of our options."""
    raise DefinitionError(
        f"store URL, option {name}: expected {expected}, got {got!r}; change it, or leave it out for the default"
    )


def refuse_url(url: str, expected: str, *, todo: str = "mend it") -> NoReturn:
    """Raise `DefinitionError` for a whole URL, which is shown without its password."""
    raise DefinitionError(f"store URL: expected {expected}, got {shown_url(url)!r}; {todo}")
