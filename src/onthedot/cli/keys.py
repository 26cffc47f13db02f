"""`onthedot keys create | list | show | revoke`: manages API keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from onthedot.access.keys import Issued, Key, get_key, issue, list_keys, parse_lifetime
from onthedot.access.keys import revoke as end
from onthedot.access.permissions import Grant, check_name, parse_grant
from onthedot.cli.audit import record_change
from onthedot.cli.connect import read_store, write_store
from onthedot.cli.errors import Command, Group, on_this_store
from onthedot.cli.options import store_url, with_debug, with_json, with_store, with_utc
from onthedot.cli.terminal import echo_table, in_zone, moment, reader_time
from onthedot.clock import Micros, SystemClock
from onthedot.model.errors import DefinitionError
from onthedot.observe.formats import optional_iso, plain
from onthedot.stores.protocol import Store

F = TypeVar("F", bound=Callable[..., Any])

# ── what a key or a user may do ──────────────────────────────────────────────────────────────────────────────────


_OPTIONS = (
    click.option("--role", metavar="ROLE", default="viewer", show_default=True,
                 help="The role: viewer, operator, editor, admin or worker."),
    click.option("--scope", "scopes", metavar="PERMISSION", multiple=True,
                 help="Only this permission of the role, such as runs:read; more than once.  [default: all]"),
    click.option("--code", "may_code", is_flag=True,
                 help="Let an editor also write jobs that run programs (jobs:code)."),
    click.option("--namespace", "namespaces", metavar="NAME", multiple=True,
                 help="Only this namespace; more than once.  [default: all]"),
    click.option("--owner", metavar="NAME", default="", help="The owner of the jobs that it creates."),
    click.option("--only-own", is_flag=True, help="Only jobs of that owner, and their runs."),
)  # fmt: skip


def with_grant(command: F) -> F:
    """`--role`, `--scope`, `--code`, `--namespace`, `--owner` and `--only-own`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def grant_of(
    role: str, scopes: Sequence[str], may_code: bool, namespaces: Sequence[str], owner: str, only_own: bool
) -> Grant:
    """Return the grant of these options. Raise `DefinitionError`, which lists everything that is wrong."""
    return parse_grant(
        role, scopes=scopes or None, may_code=may_code, namespaces=namespaces, owner=owner, only_own=only_own
    )


def grant_text(grant: Grant) -> str:
    """A grant as one line: `editor with jobs:code, only runs:read, in ci and qa, only its own (ann)`."""
    parts = [f"{grant.role}{' with jobs:code' if grant.may_code else ''}"]
    if grant.scopes is not None:
        parts.append(f"only {' and '.join(sorted(grant.scopes))}")
    parts.append(f"in {' and '.join(grant.namespaces) or 'all namespaces'}")
    if grant.owner:
        parts.append(f"{'only its own' if grant.only_own else 'owner'} ({grant.owner})")
    return ", ".join(parts)


# ── keys ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_expires(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    try:
        return parse_lifetime(value, what="length of time")
    except DefinitionError as error:
        raise click.BadParameter(f"{error}; or 'never'", ctx, param) from None


@click.group(cls=Group)
def keys() -> None:
    """Manage the API keys of a server: 'Authorization: Bearer otd_…'.

    A key has a role. It can be limited to some permissions, some namespaces or one owner's jobs. The store keeps only a
    hash of it: nobody can read it again.

    \b
    Examples:
      onthedot keys create ci --role operator --expires 30d
      onthedot keys list
      onthedot keys revoke 3f0c9a1b2d4e5f6
    """


@keys.command(cls=Command, short_help="Create a key, and show it once.")
@click.argument("name")
@with_grant
@click.option(
    "--expires", metavar="LENGTH", default="90d", show_default=True, callback=_read_expires,
    help="When it expires, such as 30d; or 'never'.",
)  # fmt: skip
@with_store
@with_utc
@with_json("one JSON object; the key is its 'key'")
@with_debug
def create(
    name: str,
    role: str,
    scopes: tuple[str, ...],
    may_code: bool,
    namespaces: tuple[str, ...],
    owner: str,
    only_own: bool,
    expires: int | None,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Create a key called NAME, and show it once. Two weeks before it expires, the leader reports an event.

    \b
    Examples:
      onthedot keys create ci
      onthedot keys create deploy --role editor --code --namespace shop --expires never
      onthedot keys create probe --scope runs:read --json | jq -r .key
    """
    check_name("NAME", name)
    grant = grant_of(role, scopes, may_code, namespaces, owner, only_own)

    async def work(opened: Store) -> Issued:
        now = await opened.tell_time()
        issued = await issue(opened, name, grant, expires_at=None if expires is None else now + expires, now=now)
        await record_change(opened, "keys.create", f"key/{issued.key.id}", after=_as_json(issued.key, now))
        return issued

    issued = write_store(store_url(store, db), work)
    key = issued.key
    if as_json:
        click.echo(json.dumps(_as_json(key, key.made_at) | {"key": issued.text}, indent=2))
        return
    ends = "it never expires" if key.expires_at is None else f"it expires {_time(key.expires_at)}"
    click.echo(f"key {key.id} ({name}) is made: {grant_text(grant)}; {ends}", err=True)
    click.echo("keep it now, it is not shown again:", err=True)
    click.echo(issued.text)  # alone on standard output: KEY=$(onthedot keys create …)


@keys.command("list", cls=Command, short_help="List the keys, never their secrets.")
@with_store
@with_utc
@with_json("a JSON array with one object per key")
@with_debug
def list_(store: str | None, db: str | None, as_json: bool) -> None:
    """List the keys: their permissions, when they expire, when they were last used (to the minute). It only reads.
    Revoked and expired keys are listed for a month.

    \b
    Examples:
      onthedot keys list
      onthedot keys list --json | jq -r '.[] | select(.used_at == null).name'
    """
    found, now = read_store(store_url(store, db), _all), SystemClock().now()
    if as_json:
        click.echo(json.dumps([_as_json(key, now) for key in found], indent=2))
    elif found:
        rows = [
            [key.id, key.name, key.state(now), grant_text(key.grant), _moment(key.expires_at, now, "never"),
             _moment(key.used_at, now, "never")]
            for key in found
        ]  # fmt: skip
        echo_table(["KEY", "NAME", "STATE", "MAY", in_zone("EXPIRES", now), "LAST USED"], rows)
    else:
        click.echo(on_this_store("there are no keys; make one with 'onthedot keys create NAME'"))


@keys.command(cls=Command, short_help="Show one key, never its secret.")
@click.argument("key_id", metavar="KEY")
@with_store
@with_utc
@with_json("one JSON object")
@with_debug
def show(key_id: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Show the key with the id KEY: the text between 'otd_' and the dot.

    \b
    Examples:
      onthedot keys show 3f0c9a1b2d4e5f6
    """
    key = read_store(store_url(store, db), lambda opened: get_key(opened, key_id))
    now = SystemClock().now()
    if as_json:
        click.echo(json.dumps(_as_json(key, now), indent=2))
        return
    facts = [
        ("key", key.id),
        ("name", key.name),
        ("state", key.state(now)),
        ("may", grant_text(key.grant)),
        ("", ", ".join(sorted(key.grant.permissions))),
        ("made", f"{_time(key.made_at)} by {key.made_by}"),
        ("expires", _time(key.expires_at)),
        ("last used", _time(key.used_at)),
    ]
    if key.revoked_at is not None:
        facts.append(("revoked", _time(key.revoked_at)))
    for name, value in facts:
        click.echo(f"{name:<9} {plain(value, most=1_000)}")


@keys.command(cls=Command, short_help="Revoke a key for good.")
@click.argument("key_id", metavar="KEY")
@with_store
@with_json("one JSON object")
@with_debug
def revoke(key_id: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Revoke the key with the id KEY for good. Every server refuses it within 5 seconds. It may be revoked twice.

    \b
    Examples:
      onthedot keys revoke 3f0c9a1b2d4e5f6
    """

    async def work(opened: Store) -> tuple[Key, Micros]:
        before, now = await get_key(opened, key_id), await opened.tell_time()
        after = await end(opened, key_id, now=now)
        if before.revoked_at is None:
            await record_change(
                opened, "keys.revoke", f"key/{key_id}", before=_as_json(before, now), after=_as_json(after, now)
            )
        return after, now

    key, now = write_store(store_url(store, db), work)
    if as_json:
        click.echo(json.dumps(_as_json(key, now), indent=2))
    else:
        click.echo(f"key {key.id} ({plain(key.name)}) is revoked; servers refuse it within 5 seconds")


async def _all(store: Store) -> list[Key]:
    found: list[Key] = []
    while page := await list_keys(store, after=found[-1].id if found else "", limit=1_000):
        found += page
    return found


def _moment(instant: Micros | None, now: Micros, never: str = "") -> str:
    """An instant in a table whose heading names the zone."""
    return never if instant is None else moment(instant, now)


def _time(instant: Micros | None) -> str:
    return "never" if instant is None else reader_time(instant, exact=False)


def _as_json(key: Key, now: Micros) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "state": key.state(now),
        **key.grant.as_json(),
        "made_at": optional_iso(key.made_at),
        "made_by": key.made_by,
        "expires_at": optional_iso(key.expires_at),
        "revoked_at": optional_iso(key.revoked_at),
        "used_at": optional_iso(key.used_at),
    }
