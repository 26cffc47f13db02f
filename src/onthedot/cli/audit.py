"""`onthedot audit`: who changed what, and whether all of it is still as it was recorded."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import check_range, store_url, with_debug, with_json, with_range, with_store

if TYPE_CHECKING:
    from datetime import datetime

    from onthedot.access.audit import Recorded
    from onthedot.access.audit_seals import Checked, Head
    from onthedot.access.audit_sender import Send
    from onthedot.clock import Micros
    from onthedot.stores.protocol import Store

_PAGE = 1_000
NEWEST = 100
LOOK_EVERY = 500_000
"""Between two looks with --follow, in microseconds."""


@click.command(cls=Command, short_help="Show who changed what, or check that nothing of it was changed.")
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), help="How many changes.  [default: 100]")
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Those after this one.  [default: the newest]")
@with_range("changes")
@click.option("--all", "everything", is_flag=True, help="However many there are.")
@click.option("-f", "--follow", is_flag=True, help="Go on: each new change as one line of JSON, until Ctrl-C.")
@click.option(
    "--to", metavar="PLACE",
    help="With --follow: send them there: https://…, syslog:/dev/log, syslog://HOST:PORT or syslog+tcp://HOST:PORT.",
)  # fmt: skip
@click.option(
    "--allow", metavar="HOST|NETWORK", multiple=True,
    help="With --to https://…: also this, though it is not on the public internet; more than once.",
)  # fmt: skip
@click.option("--check", "checking", is_flag=True, help="Compare everything with its seals.")
@click.option("--head", metavar="HEAD", help="With --check: a seal that was noted before, and must still be there.")
@with_store
@with_json("a JSON array with one object per change; with --check, one JSON object")
@with_debug
def command(
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
    """Show the newest changes, the last one last: when, who, what. It only reads, but for the position of --to.

    With --follow: each change as it is made, one JSON object a line, from now on or from --after on. With --to they are
    sent instead. How far it has come is kept in the store, for each place: so it goes on where it was, and what the
    receiver missed is sent when it is back. The first time it begins with --after, or with the oldest change. Several
    may run: one at a time sends. A change may come twice; its number tells.

    A webhook (https://…) gets JSON lines, signed with the key in ONTHEDOT_AUDIT_KEY: see docs/api.md.

    With --check: every change is compared with the hash that was sealed soon after it, and every seal with the one
    after it. The first that was changed, removed or inserted is named. Note the head, outside of the store, and give it
    next time: then the newest changes cannot be cut off unseen, nor everything be sealed anew. Nodes log each head.

    Exit codes: 0 when all is as it was; 1 when something is not; 2 for bad input.

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
    from onthedot.access.audit_seals import check, read_head
    from onthedot.cli.reading import read_store

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
        from onthedot.cli.table import echo_more

        echo_more(len(entries), "change", "--all shows every one", as_json=as_json)


def _follow(url: str, after: int | None, to: str | None, allow: tuple[str, ...]) -> None:
    """Until somebody ends it: that is how it ends well."""
    import asyncio

    from onthedot.cli.audit_to import read_destination
    from onthedot.cli.reading import check_exists, read_store

    check_exists(url)
    with suppress(KeyboardInterrupt):
        if to is None:
            read_store(url, lambda opened: _print_new(opened, after))
        else:
            asyncio.run(_send(url, to, read_destination(to, allow), after or 0))


async def _print_new(store: Store, after: int | None) -> None:
    from onthedot.access.audit import last_number, read
    from onthedot.cli.audit_to import as_line

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
    from onthedot.access.audit_sender import Sender
    from onthedot.cli.asking import check_readable
    from onthedot.operations.open_verbs import opened

    await check_readable(url)
    async with opened(url) as there:
        sender = Sender(there.store, there.clock, to, send, _tell_trouble, first=first)
        await _again_and_again(sender.tick)


async def _again_and_again(look: Callable[[], Awaitable[Micros]]) -> None:
    """Until SIGTERM or SIGINT. A store that is down is asked again."""
    import asyncio
    import signal

    from onthedot.access.audit_sender import AGAIN_AFTER
    from onthedot.clock import SECOND
    from onthedot.model.errors import StoreUnavailable

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
    """So many after a number, or the newest, of a range of time; without a limit all of them, page by page."""
    from onthedot.access.audit import read, read_between, read_newest
    from onthedot.clock import to_micros

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
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone, moment
    from onthedot.clock import SystemClock
    from onthedot.observe.formats import iso

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
    from onthedot.observe.formats import count

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
