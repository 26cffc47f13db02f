"""Reads and judges the URLs, hosts and addresses that a job may send a request to. Pure: it looks nothing up.

A job's URL is written by somebody who may not be trusted with the worker's own network. So what is connected to is an
*address* that was judged, never a name: private, loopback, link-local and all other special addresses are refused, in
every spelling and in every envelope (v4-mapped, NAT64, 6to4), unless the operator allows the host or its network
(`Settings.http_allow`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNFIT = re.compile(r"[\x00-\x20\x7f\\]")  # what two readers of one URL may read in two ways
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_GIT_PORTS = {"https": 443, "ssh": 22}
_GIT_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_SHORT_GIT = re.compile(rf"{_GIT_USER.pattern}@(?P<host>[A-Za-z0-9.-]+):(?!-|//).+")
_AS_IT_IS = "/?:@!$&'()*+,;=-._~%[]"  # in paths and queries: not quoted once more

_SPECIAL_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(text), what)
    for text, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "private (shared by carriers)"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_SPECIAL_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(text), what)
    for text, what in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "private (local NAT64)"),
        ("2001::/23", "reserved"),  # Teredo, ORCHID, benchmarks
        ("2001:db8::/32", "for documentation"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private (site-local)"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")  # whatever is outside of it, nobody on the internet has
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


class AddressRefused(ValueError):
    """A URL, a host or an address to which no request is sent; its text says why, and what to do."""


class Target(NamedTuple):
    """A URL, taken apart: `host` is a name in ASCII or an address in its usual form, `path` has the query with it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As it stands in a URL, and in the header `Host`.

        >>> read_url("https://[2001:4860::8]:8443/x").authority, read_url("http://Example.com:80").authority
        ('[2001:4860::8]:8443', 'example.com')
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole, in one spelling.

        >>> read_url("HTTP://Example.com./a b".replace(" ", "%20")).url
        'http://example.com/a%20b'
        """
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port. A request meant for one origin is not sent to another."""
        return self.scheme, self.host, self.port


def read_url(text: str) -> Target:
    """Take a URL apart; `AddressRefused` for what is no http or https, has credentials, or can be read in two ways.

    >>> read_url("https://example.com/hook?a=1#top")
    Target(scheme='https', host='example.com', port=443, path='/hook?a=1')
    """
    if _UNFIT.search(text):
        raise AddressRefused(f"expected a URL without spaces, control characters and backslashes, got {_shown(text)!r}")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise AddressRefused(
            f"expected a URL such as 'https://example.com/hook', got {_shown(text)!r} ({error})"
        ) from None
    if parts.scheme not in _PORTS:
        raise AddressRefused(f"expected a URL with http or https, got {_shown(text)!r}")
    if "@" in parts.netloc:
        raise AddressRefused(
            "expected a URL without a user name and password; put them into a header: "
            "Authorization: ${{ secrets.NAME }}"
        )
    if not host:
        raise AddressRefused(f"expected a URL with a host, got {_shown(text)!r}")
    if port == 0:
        raise AddressRefused(f"expected a port from 1 to 65535, got {_shown(text)!r}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, read_host(host), port or _PORTS[parts.scheme], quote(path, safe=_AS_IT_IS))


class GitTarget(NamedTuple):
    """Where git connects to for a source; `scheme` is https or ssh."""

    scheme: str
    host: str
    port: int


def read_git(text: str) -> GitTarget | None:
    """Where a git repository is: https, ssh, or `user@host:path`, which is ssh; None for a path of this machine (file).

    `AddressRefused` for all else, for passwords, and for what git or ssh could take for an option or read in two ways.

    >>> read_git("git@example.org:shop.git"), read_git("ssh://git@example.org:2222/shop.git").port
    (GitTarget(scheme='ssh', host='example.org', port=22), 2222)
    """
    expected = "expected a URL by https, ssh or file, or user@host:path"
    if _UNFIT.search(text) or text.startswith("-"):
        raise AddressRefused(f"{expected}, got {_shown(text)!r}")
    if text.startswith("file://"):
        return None
    short = _SHORT_GIT.fullmatch(text)
    if short is not None:
        return GitTarget("ssh", _plain_host(short["host"]), _GIT_PORTS["ssh"])
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise AddressRefused(f"{expected}, got {_shown(text)!r} ({error})") from None
    if parts.scheme not in _GIT_PORTS or not host or "?" in text or "#" in text:
        raise AddressRefused(f"{expected}, got {_shown(text)!r}")
    if parts.password is not None:
        raise AddressRefused(
            "expected a URL without a password; put it into a secret, and name that: key: ${{ secrets.NAME }}"
        )
    if port == 0 or not _GIT_USER.fullmatch(parts.username or "git"):
        raise AddressRefused(f"expected a plain user name and a port from 1 to 65535, got {_shown(text)!r}")
    return GitTarget(parts.scheme, _plain_host(host), port or _GIT_PORTS[parts.scheme])


def _plain_host(text: str) -> str:
    """A host that is written in its one spelling: git is told the address of that, and would look up any other."""
    host = read_host(text)
    if host != text.lower():
        raise AddressRefused(f"expected a host in its plain form, {host!r}, got {text!r}")
    return host


def read_redirect(origin: Target, location: str) -> Target:
    """Where a redirect leads, from there: a whole URL, or a part of one. Read as strictly as the first.

    >>> read_redirect(read_url("https://example.com/a/b"), "../c").url
    'https://example.com/c'
    """
    if _UNFIT.search(location):
        raise AddressRefused(f"expected a redirect to a URL without spaces and the like, got {_shown(location)!r}")
    try:
        return read_url(urljoin(origin.url, location))
    except AddressRefused:
        raise
    except ValueError as error:
        raise AddressRefused(f"expected a redirect to a URL, got {_shown(location)!r} ({error})") from None


def _shown(url: str) -> str:
    """A URL for a message: without what may be a password."""
    return _CREDENTIALS.sub("//…@", url)


def read_host(text: str) -> str:
    """A host in its one spelling: an address in the usual form, or a name in lower case and ASCII, without a dot at its
    end. `AddressRefused` for addresses in forms that only some programs read, such as `0x7f.1`.

    >>> read_host("Bücher.Example."), read_host("::FFFF:7f00:1")
    ('xn--bcher-kva.example', '::ffff:127.0.0.1')
    """
    if ":" in text:
        return _read_v6(text)
    name = _in_ascii(text).lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # no top-level domain is a number: this is meant to be an address
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise AddressRefused(f"expected an address as in 192.0.2.1, or a name, got {text!r}") from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused(f"expected the name of a host, got {text!r}")
    return name


def _read_v6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise AddressRefused(f"expected an address as in 2001:db8::1, got {text!r}") from None
    if address.scope_id is not None:
        raise AddressRefused(f"expected an address without a zone, got {text!r}")
    mapped = address.ipv4_mapped
    return f"::ffff:{mapped}" if mapped else str(address)


def _in_ascii(text: str) -> str:
    if text.isascii():
        return text
    import idna

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise AddressRefused(f"expected the name of a host, got {text!r}, which has no form in ASCII") from None


def literal(host: str) -> Address | None:
    """The address that a host is, if it is one and no name.

    >>> literal("example.com"), literal("192.0.2.1")
    (None, IPv4Address('192.0.2.1'))
    """
    try:
        return ip_address(host)
    except ValueError:
        return None


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks; `AddressRefused` for anything else.

    >>> read_networks(["10.0.0.0/8", "::1"])
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    networks = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError as error:
            raise AddressRefused(
                f"expected an address such as '192.0.2.1' or a network such as '10.0.0.0/8', got {text!r} ({error})"
            ) from None
    return tuple(networks)


def is_loopback(host: str) -> bool:
    """Whether only this machine can be reached there. A name other than `localhost` may belong to any machine.

    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("localhost"), is_loopback("jobs.example.org")
    (True, True, True, False)
    """
    address = literal(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_issuer(text: str) -> bool:
    """Whether this can be an identity provider's issuer: a safe URL without a query.

    >>> is_issuer("https://example.eu.auth0.com/"), is_issuer("https://example.org/?a=b")
    (True, False)
    """
    return is_safe(text) and "?" not in text


def is_safe(text: str) -> bool:
    """Whether nobody between can read or change a request to this URL: https, or http on this machine alone.

    >>> is_safe("https://example.org/a?b=c"), is_safe("http://example.org"), is_safe("http://127.0.0.1:8080")
    (True, False, True)
    """
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return False
    plain = parts.hostname and not (parts.fragment or parts.username or parts.password is not None)
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    return bool(plain and safe and text.isascii() and text.isprintable() and " " not in text)


def why_special(address: Address) -> str:
    """The kind of an address that jobs do not reach by default; empty for a public address.

    >>> why_special(ip_address("169.254.169.254")), why_special(ip_address("2002:7f00:1::"))
    ('link-local', 'loopback, inside of an IPv6 address')
    >>> why_special(ip_address("1.1.1.1"))
    ''
    """
    if isinstance(address, IPv4Address):
        return next((what for network, what in _SPECIAL_V4 if address in network), "")
    for network, what in _SPECIAL_V6:
        if address in network:
            return what
    inner = enveloped(address)
    if inner is not None:
        what = why_special(inner)
        return f"{what}, inside of an IPv6 address" if what else ""
    return "" if address in _GLOBAL_V6 else "reserved"


def enveloped(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to, if it does.

    >>> enveloped(ip_address("64:ff9b::a00:1")), enveloped(ip_address("::ffff:10.0.0.1"))
    (IPv4Address('10.0.0.1'), IPv4Address('10.0.0.1'))
    """
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator allows beyond the public internet: hosts by name, and networks.

    >>> inside = Allowed.of(["localhost", "10.0.0.0/8"])
    >>> inside.has_host("localhost"), inside.has(ip_address("10.1.2.3")), inside.has(ip_address("127.0.0.1"))
    (True, True, False)
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Allowed:
        """Read them; `AddressRefused` for what is neither."""
        hosts, networks = set(), []
        for text in texts:
            try:
                networks.append(ip_network(text))
                continue
            except ValueError:
                if "/" in text:
                    raise AddressRefused(
                        f"expected a host such as 'localhost' or a network such as '10.0.0.0/8', got {text!r}"
                    ) from None
            hosts.add(read_host(text))
        return cls(frozenset(hosts), tuple(networks))

    def has_host(self, host: str) -> bool:
        """Whether a name is allowed, wherever it leads."""
        return host in self.hosts

    def has(self, address: Address) -> bool:
        """Whether an address is in an allowed network, by itself or by the address that it envelops."""
        forms = (address, enveloped(address))
        return any(form is not None and form in network for network in self.networks for form in forms)


def check(host: str, addresses: Iterable[Address], allowed: Allowed) -> None:
    """`AddressRefused` unless a request may go to this host at *every* one of its addresses."""
    if allowed.has_host(host):
        return
    for address in addresses:
        what = why_special(address)
        if what and not allowed.has(address):
            where = host if host == str(address) else f"{host} ({address})"
            raise AddressRefused(
                f"{where} is {what}: expected a public address; if jobs may reach it, an operator allows it with "
                f"Settings(http_allow=({_suggested(address)!r},))"
            )


def _suggested(address: Address) -> str:
    inner = enveloped(address)
    return str(inner if inner is not None else address)


def is_server(url: str) -> bool:
    """Whether this is the address of an HTTP server, and of no store.

    >>> is_server("http://127.0.0.1:7411"), is_server("sqlite:///onthedot.db")
    (True, False)
    """
    return url.lower().startswith(("http://", "https://"))
