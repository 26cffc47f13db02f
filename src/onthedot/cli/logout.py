"""`onthedot logout`: end the session that `onthedot login` has kept."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BROKEN, BadInput, Command
from onthedot.cli.options import with_debug, with_json

if TYPE_CHECKING:
    from onthedot.cli.logins import Login


@click.command(cls=Command, short_help="Sign out of a server.")
@click.argument("url", metavar="[URL]", default="")
@click.option("--all", "every", is_flag=True, help="Of every server.")
@with_json("a JSON array with one object per server: server, name, kind, ended")
@with_debug
def command(url: str, every: bool, as_json: bool) -> None:
    """End the session at URL, and remove what 'onthedot login' has kept for it. Without URL it is the only server that
    you are signed in to. If the server does not answer, the entry is removed all the same, the session ends by itself,
    and the exit code is 1. A key that was kept stays good; 'onthedot keys revoke KEY' ends it.

    \b
    Examples:
      onthedot logout
      onthedot logout https://jobs.example.org
      onthedot logout --all
    """
    from onthedot.cli.logins import forget_login
    from onthedot.observe.formats import plain

    done: list[tuple[Login, str]] = []
    for login in _meant(url, every):
        trouble = _end(login)
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


def _meant(url: str, every: bool) -> list[Login]:
    from onthedot.cli.logins import address_of, read_logins

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


def _end(login: Login) -> str:
    """Why the session was not ended on its server; empty if it was, or is over, or is none."""
    from onthedot.cli.login import end_session
    from onthedot.model.errors import KeyRefused, OnTheDotError

    if login.kind == "key":
        return ""
    try:
        asyncio.run(end_session(login))
    except KeyRefused:
        return ""  # it had ended
    except OnTheDotError as error:
        return str(error)
    return ""
