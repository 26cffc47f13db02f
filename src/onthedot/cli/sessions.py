"""`onthedot sessions list | end | link`: who is signed in, and a link to sign in with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.granting import audit
from onthedot.cli.groups import Group
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_store, with_utc

if TYPE_CHECKING:
    from onthedot.access.users import OpenSession
    from onthedot.client.client import Client
    from onthedot.clock import Micros
    from onthedot.stores.protocol import Store

HERE = "http://127.0.0.1:7411"


@click.group(cls=Group, short_help="List or end sessions, or make a link that signs you in.")
def command() -> None:
    """Look after sessions: people and programs that have signed in to a server, for 12 hours.

    On a server you see your own sessions, and as an administrator all of them; on a store, all.

    \b
    Examples:
      onthedot sessions list
      onthedot sessions end 3f0c9a1b2d4e5f6
      onthedot sessions link
    """


@command.command("list", cls=Command, short_help="List open sessions, never their secrets.")
@with_server
@with_utc
@with_json("a JSON array with one object per session")
@with_debug
def list_(store: str | None, db: str | None, as_json: bool) -> None:
    """List the sessions that are open: whose, since when, from where. It only reads.

    \b
    Examples:
      onthedot sessions list
      onthedot sessions list --store https://jobs.example.org --json
    """
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone
    from onthedot.clock import SystemClock
    from onthedot.model.addresses import is_server

    url = store_url(store, db)
    found = ask_server(url, _all_of_server) if is_server(url) else read_store(url, _all)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        now = SystemClock().now()
        rows = [
            [one["id"] + (" (this one)" if one["current"] else ""), one["name"], one["role"],
             "page" if one["page"] else "program", one["source"],
             _moment(one["made_at"], now), _moment(one["expires_at"], now)]
            for one in found
        ]  # fmt: skip
        echo_table(["SESSION", "NAME", "ROLE", "OF", "FROM", in_zone("SINCE", now), "EXPIRES"], rows)
    else:
        click.echo("there are no sessions")


def _moment(iso: str, now: Micros) -> str:
    """An instant of the JSON, for people."""
    from datetime import datetime

    from onthedot.cli.words import moment
    from onthedot.clock import to_micros

    return moment(to_micros(datetime.fromisoformat(iso)), now)


@command.command(cls=Command, short_help="End a session.")
@click.argument("session_id", metavar="SESSION")
@with_server
@with_json("one JSON object")
@with_debug
def end(session_id: str, store: str | None, db: str | None, as_json: bool) -> None:
    """End the session whose id is SESSION. Every server refuses it 5 seconds later.

    \b
    Examples:
      onthedot sessions end 3f0c9a1b2d4e5f6
    """
    from urllib.parse import quote

    from onthedot.access import users
    from onthedot.cli.asking import ask_server
    from onthedot.cli.writing import write_store
    from onthedot.model.addresses import is_server
    from onthedot.observe.formats import plain
    from onthedot.observe.json_lines import session_fields

    async def ask(client: Client) -> Any:
        return await client.server.ask("DELETE", f"/api/v1/sessions/{quote(session_id, safe='')}")

    async def work(opened: Store) -> dict[str, Any]:
        ended = session_fields(await users.end_session(opened, session_id))
        await audit(opened, "sessions.end", f"session/{session_id}", before=ended)
        return ended

    url = store_url(store, db)
    ended = ask_server(url, ask) if is_server(url) else write_store(url, work)
    if as_json:
        click.echo(json.dumps(ended, indent=2))
    else:
        click.echo(f"session {ended['id']} ({plain(ended['name'])}) has ended; servers refuse it within 5 seconds")


@command.command(cls=Command, short_help="Make a link that signs you in, once.")
@click.argument("url", metavar="[URL]", default=HERE)
@click.option("--role", metavar="ROLE", default="admin", show_default=True, help="What it may who opens it.")
@with_store
@with_debug
def link(url: str, role: str, store: str | None, db: str | None) -> None:
    """Make a link to the page of the server at URL (http://127.0.0.1:7411). It signs in whoever opens it first, within
    15 minutes: show it to nobody.

    \b
    Examples:
      onthedot sessions link
      onthedot sessions link https://jobs.example.org --role viewer
    """
    from onthedot.access.grants import grant_in_words
    from onthedot.access.sessions import issue_token, token_named
    from onthedot.cli.writing import write_store
    from onthedot.client.connection import check_url

    grant, url = grant_in_words(role), check_url(url)

    async def work(opened: Store) -> str:
        text = await issue_token(opened, "link", grant)
        await audit(opened, "sessions.link", token_named(text), after={"role": role})
        return text

    click.echo(f"{url}/?token={write_store(store_url(store, db), work)}")


async def _all(store: Store) -> list[dict[str, Any]]:
    from onthedot.access.users import list_sessions
    from onthedot.observe.json_lines import session_fields

    found: list[OpenSession] = []
    while page := await list_sessions(store, after=found[-1].id if found else "", limit=1_000):
        found += page
    return [session_fields(session) for session in found]


async def _all_of_server(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = await client.server.ask("GET", "/api/v1/sessions", query={"after": after, "limit": 1_000})
        found += page["items"]
        after = page["next"]
    return found
