"""`onthedot login`: sign in to a server, and keep the session for the next commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command, Failure
from onthedot.cli.options import with_debug, with_insecure, with_json

if TYPE_CHECKING:
    from onthedot.cli.logins import Login

HERE = "http://127.0.0.1:7411"
MOST = 64 * 1024
"""The most bytes that are read of a key or an ID token."""


@click.command(cls=Command, short_help="Sign in to a server; other commands then need no key.")
@click.argument("url", metavar="[URL]", default="")
@click.option("--user", metavar="NAME", help="Who you are.  [default: asked for]")
@click.option("--key", "by_key", is_flag=True, help="Keep an API key instead; it is asked for, or read from stdin.")
@click.option("--id-token", "by_id_token", is_flag=True, help="Sign in with an ID token of the identity provider.")
@with_insecure
@with_json("one JSON object, without the key")
@with_debug
def command(url: str, user: str | None, by_key: bool, by_id_token: bool, as_json: bool) -> None:
    """Sign in to the server at URL (ONTHEDOT_STORE, or http://127.0.0.1:7411) for 12 hours. The password is asked for,
    or read from standard input; it is never an argument, which every user of the machine could read.

    The session is kept in a file that only you can read, and is sent to this server only. Commands with --store URL use
    it unless --key-file or ONTHEDOT_KEY gives another key. 'onthedot logout' ends it.

    \b
    Examples:
      onthedot login https://jobs.example.org
      pass show onthedot | onthedot login https://jobs.example.org --user ann
      onthedot login https://jobs.example.org --key < ci.key
    """
    from onthedot.cli.asking import is_insecure
    from onthedot.cli.granting import read_secret
    from onthedot.cli.logins import address_of, check_logins, keep_login, logins_file
    from onthedot.client.connection import check_way
    from onthedot.observe.formats import plain

    if [user is not None, by_key, by_id_token].count(True) > 1:
        raise click.UsageError("expected one of --user, --key and --id-token, got several; leave the others out")
    server = address_of(url or default_server())
    if not is_insecure():
        check_way(server)
    check_logins()  # before anything is asked for or sent
    if by_key:
        login = asyncio.run(_with_key(server, read_secret("key", "Key", most=MOST)))
    elif by_id_token:
        login = asyncio.run(_sign_in(server, {"id_token": read_secret("ID token", "ID token", most=MOST)}))
    else:
        name = _read_user(user)
        password = read_secret("password", f"Password of {name}", most=MOST)
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
    """The server that is meant if none is named."""
    from onthedot.model.addresses import is_server

    named = os.environ.get("ONTHEDOT_STORE", "")
    return named if is_server(named) else HERE


def _read_user(user: str | None) -> str:
    if user is None and not sys.stdin.isatty():
        raise click.UsageError("--user: expected a name, because standard input is no terminal and has the password")
    name: str = click.prompt("User") if user is None else user
    if not name:
        raise BadInput("--user: expected a name, got ''")
    return name


async def _sign_in(server: str, body: dict[str, str]) -> Login:
    from onthedot.cli.logins import Login
    from onthedot.client.connection import ServerConnection

    asked = ServerConnection(server)
    try:
        told = await asked.ask("POST", "/api/v1/login", body=body)
    finally:
        await asked.close()
    token, name, expires_at = _fields(server, told, "token", "name", "expires_at")
    return Login(server, token, "session", name, expires_at)


async def _with_key(server: str, key: str) -> Login:
    """A key that the server knows: one that it does not is not kept."""
    from onthedot.cli.logins import Login
    from onthedot.client.connection import ServerConnection

    asked = ServerConnection(server, key, insecure=True)  # the way was checked, or allowed
    try:
        told = await asked.ask("GET", "/api/v1/whoami")
    finally:
        await asked.close()
    kind, name = _fields(server, told, "kind", "name")
    if kind not in ("key", "session"):
        raise BadInput(f"{server} asks for no key, so there is nothing to store")
    return Login(server, key, "session" if kind == "session" else "key", name, None)


def _fields(server: str, told: Any, *names: str) -> list[str]:
    """These texts of an answer; `Failure` if it is no answer of ours."""
    if isinstance(told, dict) and all(isinstance(told.get(name), str) for name in names):
        return [told[name] for name in names]
    got = f"an answer with {', '.join(sorted(map(str, told))[:5])}" if isinstance(told, dict) and told else "other JSON"
    raise Failure(f"expected an onthedot server at {server}, got {got}; check the address")


async def end_session(login: Login) -> None:
    """End it on its server."""
    from onthedot.client.connection import ServerConnection

    asked = ServerConnection(login.server, login.key, insecure=True)  # it was sent there before, in the same way
    try:
        await asked.send("POST", "/api/v1/logout", repeat=True)
    finally:
        await asked.close()


async def _end_quietly(login: Login) -> None:
    from onthedot.model.errors import OnTheDotError

    with suppress(OnTheDotError):  # it ends by itself
        await end_session(login)
