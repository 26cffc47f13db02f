"""`onthedot audit`: who changed what, and whether all of it is still as it was recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from onthedot.access.audit import Recorded
    from onthedot.access.seals import Checked, Head
    from onthedot.stores.base import Store

_PAGE = 1_000
NEWEST = 100


@click.command(cls=Command, short_help="Show who changed what, or check that nothing of it was changed.")
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), help="How many changes.  [default: 100]")
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Those after this one.  [default: the newest]")
@click.option("--all", "everything", is_flag=True, help="However many there are.")
@click.option("--check", "checking", is_flag=True, help="Compare everything with its seals.")
@click.option("--head", metavar="HEAD", help="With --check: a seal that was noted before, and must still be there.")
@with_store
@with_json("a JSON array with one object per change; with --check, one JSON object")
@with_debug
def command(
    limit: int | None,
    after: int | None,
    everything: bool,
    checking: bool,
    head: str | None,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show the newest changes that came through a front door, the last one last: when, who, what. It only reads.

    With --check: every change is compared with the hash that was sealed soon after it, and every seal with the one
    after it. The first that was changed, removed or inserted is named. Note the head, outside of the store, and give it
    next time: then the newest changes cannot be cut off unseen, nor everything be sealed anew. Nodes log each head.

    Exit codes: 0 when all is as it was; 1 when something is not; 2 for bad input.

    \b
    Examples:
      onthedot audit
      onthedot audit --all --json | jq '.[] | select(.verb == "keys.create")'
      onthedot audit --check
    """
    from onthedot.access.seals import check, read_head
    from onthedot.cli.reading import read_store

    if head is not None and not checking:
        raise BadInput("--head: expected --check with it; add that, or leave the head out")
    if everything and limit is not None:
        raise BadInput("--all: expected no --limit with it; leave one of them out")
    known: Head | None = None if head is None else read_head(head)
    url = store_url(store, db)
    if checking:
        _tell(read_store(url, lambda opened: check(opened, known=known)), as_json=as_json)
        return
    most = None if everything else limit or NEWEST
    _show(read_store(url, lambda opened: _entries(opened, after, most)), as_json=as_json)


async def _entries(store: Store, after: int | None, limit: int | None) -> list[Recorded]:
    """So many after a number, or the newest; without a limit all of them, page by page."""
    from onthedot.access.audit import read, read_newest

    if limit is not None:
        return await (read_newest(store, limit=limit) if after is None else read(store, after=after, limit=limit))
    found: list[Recorded] = []
    while page := await read(store, after=found[-1].number if found else after or 0, limit=_PAGE):
        found += page
    return found


def _show(entries: list[Recorded], *, as_json: bool) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.clock import SystemClock
    from onthedot.observe.text import iso, moment

    if as_json:
        rows = [{**entry._asdict(), "at": iso(entry.at)} for entry in entries]
        click.echo(json.dumps(rows, indent=2))
    elif entries:
        now = SystemClock().now()
        echo_table(
            ["NUMBER", "AT", "WHO", "VERB", "OBJECT", "FROM"],
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
    from onthedot.observe.text import count

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
