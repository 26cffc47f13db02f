"""`onthedot audit`: shows, follows and checks the record of changes, and sends it to syslog or a webhook."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from onthedot.access.audit import Recorded, last_number, read, read_between, read_newest, record
from onthedot.access.audit_recorder import entry_of
from onthedot.access.audit_seals import Checked, Head, check, read_head
from onthedot.access.audit_sender import AGAIN_AFTER, Send, Sender, SendFailed, signature
from onthedot.cli.connect import check_exists, check_readable, read_store
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import check_range, store_url, with_debug, with_json, with_range, with_store
from onthedot.cli.terminal import echo_more, echo_table, in_zone, moment
from onthedot.clock import SECOND, Micros, SystemClock, to_micros
from onthedot.model.addresses import AddressRefused, Allowed, Target, literal, read_url
from onthedot.model.errors import StoreUnavailable
from onthedot.observe.formats import count, iso
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.runners.http import HttpExecutor


_PAGE = 1_000
NEWEST = 100
LOOK_EVERY = 500_000
"""How often --follow reads new changes, in microseconds."""


@click.command(cls=Command)
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), help="At most so many changes.  [default: 100]")
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Only changes after it.  [default: the newest]")
@with_range("changes")
@click.option("--all", "everything", is_flag=True, help="All changes.")
@click.option("-f", "--follow", is_flag=True, help="Print each new change as one line of JSON, until Ctrl-C.")
@click.option(
    "--to", metavar="PLACE",
    help="With --follow: send them to PLACE: https://…, syslog:/dev/log, syslog://HOST:PORT or syslog+tcp://HOST:PORT.",
)  # fmt: skip
@click.option(
    "--allow", metavar="HOST|NETWORK", multiple=True,
    help="With --to https://…: allow this host or network, which is not public; more than once.",
)  # fmt: skip
@click.option("--check", "checking", is_flag=True, help="Verify all changes against their seals.")
@click.option("--head", metavar="HEAD", help="With --check: a seal that you noted before; it must still exist.")
@with_store
@with_json("a JSON array with one object per change; with --check, one JSON object")
@with_debug
def audit(
    limit: int | None,
    after: int | None,
    since: datetime | None,
    until: datetime | None,
    everything: bool,
    follow: bool,
    to: str | None,
    allow: tuple[str, ...],
    checking: bool,
    head: str | None,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show the newest changes, oldest first: when, who, what. It only reads, except for the position of --to.

    --follow prints each change when it is made, one JSON object per line, from now on or after the number of --after.
    With --to it sends them instead. The store keeps the position for each place, so the next sender continues there,
    and a receiver that was down misses nothing. The first sender starts after --after, or with the oldest change.
    Several may run; one at a time sends. A change may be sent twice: compare its number.

    A webhook (https://…) gets JSON lines, signed with the key in ONTHEDOT_AUDIT_KEY: see docs/operate/access.md.

    --check compares every change with the hash that was sealed soon after it, and every seal with the next one. It
    names the first change that was edited, removed or inserted. Note the head outside of the store, and give it with
    --head next time: this finds removed newest changes, and a record that was sealed again. Nodes log each head.

    Exit codes: 0 if nothing was changed; 1 if something was; 2 for bad input.

    \b
    Examples:
      onthedot audit
      onthedot audit --since yesterday
      onthedot audit --all --json | jq '.[] | select(.verb == "keys.create")'
      onthedot audit --follow | jq -r '.who_name + " " + .verb + " " + .object'
      onthedot audit --follow --to syslog:/dev/log
      onthedot audit --follow --to https://siem.example.com/onthedot
      onthedot audit --check
    """
    if head is not None and not checking:
        raise BadInput("--head: expected --check with it; add that, or leave the head out")
    if everything and limit is not None:
        raise BadInput("--all: expected no --limit with it; leave one of them out")
    if follow and (checking or everything or limit is not None):
        raise BadInput("--follow: expected no --check, --all or --limit with it; leave one of them out")
    if (since or until) and (follow or checking or after is not None):
        raise BadInput("--since, --until: expected no --follow, --check or --after with them; leave one of them out")
    check_range(since, until)
    if to is not None and not follow:
        raise BadInput("--to: expected --follow with it; add that, or leave the place out")
    if follow:
        _follow(store_url(store, db), after, to, allow)
        return
    known: Head | None = None if head is None else read_head(head)
    url = store_url(store, db)
    if checking:
        _tell(read_store(url, lambda opened: check(opened, known=known)), as_json=as_json)
        return
    most = None if everything else limit or NEWEST
    found = read_store(url, lambda opened: _entries(opened, after, None if most is None else most + 1, since, until))
    entries = found if most is None else found[:most] if after is not None else found[-most:]
    _show(entries, as_json=as_json)
    if len(entries) < len(found):
        echo_more(len(entries), "change", "--all shows every one", as_json=as_json)


def _follow(url: str, after: int | None, to: str | None, allow: tuple[str, ...]) -> None:
    """Print or send new changes until Ctrl-C."""
    check_exists(url)
    with suppress(KeyboardInterrupt):
        if to is None:
            read_store(url, lambda opened: _print_new(opened, after))
        else:
            asyncio.run(_send(url, to, read_destination(to, allow), after or 0))


async def _print_new(store: Store, after: int | None) -> None:
    position = await last_number(store) if after is None else after

    async def look() -> Micros:
        nonlocal position
        page = await read(store, after=position, limit=_PAGE)
        for entry in page:
            click.echo(as_line(entry))
            position = entry.number
        return 0 if page else LOOK_EVERY

    await _again_and_again(look)


async def _send(url: str, to: str, send: Send, first: int) -> None:
    from onthedot.operations.open_verbs import opened

    await check_readable(url)
    async with opened(url) as there:
        sender = Sender(there.store, there.clock, to, send, _tell_trouble, first=first)
        await _again_and_again(sender.tick)


async def _again_and_again(look: Callable[[], Awaitable[Micros]]) -> None:
    """Call `look` until SIGTERM or SIGINT. If the store is down, try again later."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    while not ended.is_set():
        try:
            wait = await look()
        except StoreUnavailable as error:
            _tell_trouble(str(error))
            wait = AGAIN_AFTER
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), wait / SECOND)


def _tell_trouble(text: str) -> None:
    click.echo(text, err=True)


async def _entries(
    store: Store, after: int | None, limit: int | None, since: datetime | None, until: datetime | None
) -> list[Recorded]:
    """Return the changes after a number, the newest ones, or those of a range of time. Without a limit, read all of
    them, page by page."""
    if since is not None or until is not None:
        first, end = (None if one is None else to_micros(one) for one in (since, until))
        return await read_between(store, first, end, limit=limit)
    if limit is not None:
        return await (read_newest(store, limit=limit) if after is None else read(store, after=after, limit=limit))
    found: list[Recorded] = []
    while page := await read(store, after=found[-1].number if found else after or 0, limit=_PAGE):
        found += page
    return found


def _show(entries: list[Recorded], *, as_json: bool) -> None:
    if as_json:
        rows = [{**entry._asdict(), "at": iso(entry.at)} for entry in entries]
        click.echo(json.dumps(rows, indent=2))
    elif entries:
        now = SystemClock().now()
        echo_table(
            ["NUMBER", in_zone("AT", now), "WHO", "VERB", "OBJECT", "FROM"],
            [
                [str(entry.number), moment(entry.at, now), _who(entry), entry.verb, entry.object, entry.source or "-"]
                for entry in entries
            ],
        )
    else:
        click.echo("the audit has no such changes")


def _who(entry: Recorded) -> str:
    return f"{entry.who_name} ({entry.who_kind})" if entry.who_name else "-"


def _tell(checked: Checked, *, as_json: bool) -> None:
    fault = checked.fault
    if as_json:
        found = {
            "sealed": checked.sealed,
            "unsealed": checked.unsealed,
            "head": str(checked.head),
            "fault": None if fault is None else {"of": fault.of, "number": fault.number, "what": fault.what},
        }
        click.echo(json.dumps(found, indent=2))
    elif fault is None:
        click.echo(f"{count(checked.sealed, 'change')} as sealed; {checked.unsealed} not sealed yet")
        click.echo(f"head {checked.head}")
    else:
        click.echo(f"{fault}; {count(checked.sealed, 'change')} before it as sealed")
    if fault is not None:
        click.get_current_context().exit(1)


# ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────


KEY = "ONTHEDOT_AUDIT_KEY"
"""The environment variable with the key that signs webhooks."""
LEAST_KEY = 16

_PRIORITY = 13 * 8 + 5  # facility "log audit", severity "notice"
_SECONDS = 5.0  # for opening and closing a connection
_PORTS = {"syslog": 514, "syslog+tcp": 601}


def as_line(entry: Recorded) -> str:
    """A change as one line of JSON."""
    return json.dumps({**entry._asdict(), "at": iso(entry.at)})


def read_destination(text: str, allow: Sequence[str]) -> Send:
    """Return the function that sends changes there. Raise `BadInput` for a wrong destination, or a webhook without a
    key."""
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
    from onthedot.runners.http import HttpExecutor

    return Webhook(HttpExecutor(allowed, SystemClock()), target, key).send


# ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────


class Webhook:
    """Posts changes as signed JSON lines. A status of 200 to 299 confirms them; after any other they are sent again."""

    def __init__(self, door: HttpExecutor, target: Target, key: str) -> None:
        self._door = door
        self._target = target
        self._key = key

    async def send(self, entries: Sequence[Recorded]) -> None:
        from onthedot.runners.http import HttpTrouble, Request

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
        """Send each message with its length before it (RFC 6587), then wait until the receiver closes."""
        with socket.create_connection(self.where, timeout=_SECONDS) as link:  # type: ignore[arg-type]  # host and port
            link.sendall(b"".join(b"%d %s" % (len(message), message) for message in messages))
            link.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):  # some receivers keep the connection open after reading
                link.recv(1)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    return family, where


def _message(entry: Recorded) -> bytes:
    """A change as an RFC 5424 message. Its JSON is ASCII, without line ends and control characters."""
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


# ── recording ────────────────────────────────────────────────────────────────────────────────────────────────────


async def record_change(
    store: Store, verb: str, object: str, *, before: Any = None, after: Any = None, namespace: str = ""
) -> None:
    """Record a change that this command line has made. The user is `local`, with the names of machine and account."""
    await record(store, entry_of("command line", verb, object, before=before, after=after, namespace=namespace))
