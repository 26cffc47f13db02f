"""`onthedot login | logout | whoami | sessions`: signs in to a server and out, and lists and ends sessions."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from onthedot.access import users
from onthedot.access.permissions import parse_grant
from onthedot.access.sessions import issue_token, token_named
from onthedot.access.users import OpenSession, list_sessions
from onthedot.cli.audit import record_change
from onthedot.cli.connect import call_server, find_key, is_insecure, read_store, write_store
from onthedot.cli.errors import BROKEN, BadInput, Command, Failure, Group
from onthedot.cli.logins import Login, address_of, check_logins, forget_login, keep_login, logins_file, read_logins
from onthedot.cli.options import (
    read_secret,
    store_url,
    with_debug,
    with_insecure,
    with_json,
    with_server,
    with_store,
    with_utc,
)
from onthedot.cli.terminal import echo_table, in_zone, moment, read_iso
from onthedot.client.connection import ServerConnection, check_url, check_way
from onthedot.clock import SystemClock
from onthedot.model.addresses import is_server
from onthedot.model.errors import KeyRefused, OnTheDotError
from onthedot.observe.formats import plain
from onthedot.observe.json_fields import session_fields
from onthedot.stores.addresses import shown_url
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.client.client import Client


# ── login ────────────────────────────────────────────────────────────────────────────────────────────────────────


DEFAULT_SERVER = "http://127.0.0.1:7411"
MOST_BYTES = 64 * 1024
"""The longest key or ID token that is read, in bytes."""


@click.command(cls=Command)
@click.argument("url", metavar="[URL]", default="")
@click.option("--user", metavar="NAME", help="Your user name.  [default: prompt]")
@click.option(
    "--key", "by_key", is_flag=True, help="Store an API key instead; prompted for, or read from standard input."
)
@click.option("--id-token", "by_id_token", is_flag=True, help="Sign in with an ID token of the identity provider.")
@with_insecure
@with_json("one JSON object, without the key")
@with_debug
def login(url: str, user: str | None, by_key: bool, by_id_token: bool, as_json: bool) -> None:
    """Sign in to the server at URL (ONTHEDOT_STORE, or http://127.0.0.1:7411) for 12 hours. The password is prompted
    for, or read from standard input. It is never an argument, because every user of the machine can read arguments.

    The session is stored in a file that only you can read, and is sent to this server only. Commands with --store URL
    use it unless --key-file or ONTHEDOT_KEY gives another key. 'onthedot logout' ends it.

    \b
    Examples:
      onthedot login https://jobs.example.org
      pass show onthedot | onthedot login https://jobs.example.org --user ann
      onthedot login https://jobs.example.org --key < ci.key
    """
    if [user is not None, by_key, by_id_token].count(True) > 1:
        raise click.UsageError("expected one of --user, --key and --id-token, got several; leave the others out")
    server = address_of(url or default_server())
    if not is_insecure():
        check_way(server)
    check_logins()  # before the user types anything
    if by_key:
        login = asyncio.run(_with_key(server, read_secret("key", "Key", most=MOST_BYTES)))
    elif by_id_token:
        login = asyncio.run(_sign_in(server, {"id_token": read_secret("ID token", "ID token", most=MOST_BYTES)}))
    else:
        name = _read_user(user)
        password = read_secret("password", f"Password of {name}", most=MOST_BYTES)
        login = asyncio.run(_sign_in(server, {"username": name, "password": password}))
    before = keep_login(login)
    if before is not None and before.kind == "session" and before.key != login.key:
        asyncio.run(_end_quietly(before))
    if as_json:
        told = {"server": server, "name": login.name, "kind": login.kind, "expires_at": login.expires_at}
        click.echo(json.dumps(told, indent=2))
        return
    until = f", until {login.expires_at}" if login.expires_at else ""
    click.echo(f"signed in to {plain(server)} as {plain(login.name)}{until}")
    click.echo(f"the {login.kind} is kept in {plain(str(logins_file()), most=1_000)}")


def default_server() -> str:
    """Return the server to use if none is named."""
    named = os.environ.get("ONTHEDOT_STORE", "")
    return named if is_server(named) else DEFAULT_SERVER


def _read_user(user: str | None) -> str:
    if user is None and not sys.stdin.isatty():
        raise click.UsageError("--user: expected a name, because standard input is no terminal and has the password")
    name: str = click.prompt("User") if user is None else user
    if not name:
        raise BadInput("--user: expected a name, got ''")
    return name


async def _sign_in(server: str, body: dict[str, str]) -> Login:
    asked = ServerConnection(server)
    try:
        told = await asked.ask("POST", "/api/v1/login", body=body)
    finally:
        await asked.close()
    token, name, expires_at = _read_fields(server, told, "token", "name", "expires_at")
    return Login(server, token, "session", name, expires_at)


async def _with_key(server: str, key: str) -> Login:
    """Check a key with the server, which must know it."""
    asked = ServerConnection(server, key, insecure=True)  # the connection was checked, or allowed
    try:
        told = await asked.ask("GET", "/api/v1/whoami")
    finally:
        await asked.close()
    kind, name = _read_fields(server, told, "kind", "name")
    if kind not in ("key", "session"):
        raise BadInput(f"{server} asks for no key, so there is nothing to store")
    return Login(server, key, "session" if kind == "session" else "key", name, None)


def _read_fields(server: str, told: Any, *names: str) -> list[str]:
    """Return these texts of an answer. Raise `Failure` if the answer is not from an onthedot server."""
    if isinstance(told, dict) and all(isinstance(told.get(name), str) for name in names):
        return [told[name] for name in names]
    got = f"an answer with {', '.join(sorted(map(str, told))[:5])}" if isinstance(told, dict) and told else "other JSON"
    raise Failure(f"expected an onthedot server at {server}, got {got}; check the address")


async def _end_session(login: Login) -> None:
    """End the session on its server."""
    asked = ServerConnection(login.server, login.key, insecure=True)  # the key was sent there before
    try:
        await asked.send("POST", "/api/v1/logout", repeat=True)
    finally:
        await asked.close()


async def _end_quietly(login: Login) -> None:
    with suppress(OnTheDotError):  # the session expires by itself
        await _end_session(login)


# ── logout ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("url", metavar="[URL]", default="")
@click.option("--all", "every", is_flag=True, help="Sign out of every server.")
@with_json("a JSON array with one object per server: server, name, kind, ended")
@with_debug
def logout(url: str, every: bool, as_json: bool) -> None:
    """End the session at URL, and remove what 'onthedot login' stored for it. URL is needed only if you are signed in
    to several servers. If the server does not answer, the entry is still removed, the session expires by itself, and
    the exit code is 1. A stored API key stays valid; 'onthedot keys revoke KEY' ends it.

    \b
    Examples:
      onthedot logout
      onthedot logout https://jobs.example.org
      onthedot logout --all
    """
    done: list[tuple[Login, str]] = []
    for login in _logins_meant(url, every):
        trouble = _end_login(login)
        forget_login(login.server)
        done.append((login, trouble))
    if as_json:
        told = [
            {"server": one.server, "name": one.name, "kind": one.kind, "ended": one.kind == "session" and not trouble}
            for one, trouble in done
        ]
        click.echo(json.dumps(told, indent=2))
    for login, trouble in done:
        if not as_json:
            stays = "; the key itself stays good: 'onthedot keys revoke KEY' ends it" if login.kind == "key" else ""
            click.echo(f"signed out of {plain(login.server)} ({plain(login.name)}){stays}")
        if trouble:
            until = f"it ends by itself at {login.expires_at}" if login.expires_at else "it ends by itself"
            click.echo(plain(f"the session was not ended there, {until}: {trouble}", most=1_000), err=True)
    if not done and not as_json:
        click.echo("you are signed in to no server")
    click.get_current_context().exit(BROKEN if any(trouble for _, trouble in done) else 0)


def _logins_meant(url: str, every: bool) -> list[Login]:
    logins = read_logins()
    if url and every:
        raise click.UsageError("expected URL or --all, got both; leave one out")
    if every or not (url or logins):
        return list(logins.values())
    if url:
        login = logins.get(address_of(url))
        return [] if login is None else [login]
    if len(logins) > 1:
        raise BadInput(f"URL: expected one of {', '.join(logins)}, got none; name it, or sign out of --all")
    return list(logins.values())


def _end_login(login: Login) -> str:
    """End the session of a login. Return why that failed. Return empty text if it worked, if the session had ended
    before, or if the login has a key."""
    if login.kind == "key":
        return ""
    try:
        asyncio.run(_end_session(login))
    except KeyRefused:
        return ""  # the session had ended before
    except OnTheDotError as error:
        return str(error)
    return ""


# ── whoami ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("server", metavar="[URL]", required=False)
@with_server
@with_json("one JSON object")
@with_debug
def whoami(server: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """Show whose key this is, where it comes from, and what it may do. With direct access to a store you may do
    everything.

    \b
    Examples:
      onthedot whoami http://127.0.0.1:7411
      onthedot whoami --store http://127.0.0.1:7411 --key-file ~/.onthedot.key
    """
    if server is not None and (store or db):
        raise click.UsageError("expected URL, --store or --db, got two of them; leave one out")
    url = server or store_url(store, db)
    if not is_server(url):
        raise click.UsageError(f"store: expected a server, got {shown_url(url)!r}; there you may do everything")
    told = call_server(url, lambda client: client.server.ask("GET", "/api/v1/whoami"))
    told["key_from"] = find_key(url).source
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    facts = [
        ("name", f"{told['name']} ({told['kind']} {told['id']})"),
        ("role", told["role"]),
        ("may", ", ".join(told["permissions"])),
        ("sees", ", ".join(told["namespaces"]) or "all namespaces"),
        ("owner", f"{told['owner'] or '-'}{', and sees only its own' if told['only_own'] else ''}"),
        ("key", f"from {told['key_from']}"),
    ]
    for name, text in facts:
        click.echo(f"{name:<6} {plain(str(text), most=1_000)}")


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(cls=Group)
def sessions() -> None:
    """Manage sessions: people and programs that have signed in to a server, for 12 hours.

    On a server you see your own sessions, or all if you are an administrator. On a store you see all.

    \b
    Examples:
      onthedot sessions list
      onthedot sessions end 3f0c9a1b2d4e5f6
      onthedot sessions link
    """


@sessions.command("list", cls=Command, short_help="List open sessions, never their secrets.")
@with_server
@with_utc
@with_json("a JSON array with one object per session")
@with_debug
def list_(store: str | None, db: str | None, as_json: bool) -> None:
    """List the open sessions: user, start, address. It only reads.

    \b
    Examples:
      onthedot sessions list
      onthedot sessions list --store https://jobs.example.org --json
    """
    url = store_url(store, db)
    found = call_server(url, _sessions_of_server) if is_server(url) else read_store(url, _sessions_of_store)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        now = SystemClock().now()
        rows = [
            [one["id"] + (" (this one)" if one["current"] else ""), one["name"], one["role"],
             "page" if one["page"] else "program", one["source"],
             moment(read_iso(one["made_at"]), now), moment(read_iso(one["expires_at"]), now)]
            for one in found
        ]  # fmt: skip
        echo_table(["SESSION", "NAME", "ROLE", "OF", "FROM", in_zone("SINCE", now), "EXPIRES"], rows)
    else:
        click.echo("there are no sessions")


@sessions.command(cls=Command, short_help="End a session.")
@click.argument("session_id", metavar="SESSION")
@with_server
@with_json("one JSON object")
@with_debug
def end(session_id: str, store: str | None, db: str | None, as_json: bool) -> None:
    """End the session with the id SESSION. Every server refuses it within 5 seconds.

    \b
    Examples:
      onthedot sessions end 3f0c9a1b2d4e5f6
    """

    async def ask(client: Client) -> Any:
        return await client.server.ask("DELETE", f"/api/v1/sessions/{quote(session_id, safe='')}")

    async def work(opened: Store) -> dict[str, Any]:
        ended = session_fields(await users.end_session(opened, session_id))
        await record_change(opened, "sessions.end", f"session/{session_id}", before=ended)
        return ended

    url = store_url(store, db)
    ended = call_server(url, ask) if is_server(url) else write_store(url, work)
    if as_json:
        click.echo(json.dumps(ended, indent=2))
    else:
        click.echo(f"session {ended['id']} ({plain(ended['name'])}) has ended; servers refuse it within 5 seconds")


@sessions.command(cls=Command, short_help="Make a link that signs you in, once.")
@click.argument("url", metavar="[URL]", default=DEFAULT_SERVER)
@click.option("--role", metavar="ROLE", default="admin", show_default=True, help="The role of whoever opens the link.")
@with_store
@with_debug
def link(url: str, role: str, store: str | None, db: str | None) -> None:
    """Make a link to the page of the server at URL (http://127.0.0.1:7411). The first person who
    opens it within 15 minutes is signed in. Keep it secret.

    \b
    Examples:
      onthedot sessions link
      onthedot sessions link https://jobs.example.org --role viewer
    """
    grant, url = parse_grant(role), check_url(url)

    async def work(opened: Store) -> str:
        text = await issue_token(opened, "link", grant)
        await record_change(opened, "sessions.link", token_named(text), after={"role": role})
        return text

    click.echo(f"{url}/?token={write_store(store_url(store, db), work)}")


async def _sessions_of_store(store: Store) -> list[dict[str, Any]]:
    found: list[OpenSession] = []
    while page := await list_sessions(store, after=found[-1].id if found else "", limit=1_000):
        found += page
    return [session_fields(session) for session in found]


async def _sessions_of_server(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = await client.server.ask("GET", "/api/v1/sessions", query={"after": after, "limit": 1_000})
        found += page["items"]
        after = page["next"]
    return found
