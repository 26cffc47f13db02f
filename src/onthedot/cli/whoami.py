"""`onthedot whoami`: who you are to a server."""

from __future__ import annotations

import json

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server


@click.command(cls=Command, short_help="Tell who you are to a server, and what you may do.")
@click.argument("server", metavar="[URL]", required=False)
@with_server
@with_json("one JSON object")
@with_debug
def command(server: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """Tell whose key this is, where it is from, and what it may do. Whoever has the store itself in hand may do
    everything there.

    \b
    Examples:
      onthedot whoami http://127.0.0.1:7411
      onthedot whoami --store http://127.0.0.1:7411 --key-file ~/.onthedot.key
    """
    from onthedot.cli.asking import ask_server, find_key
    from onthedot.model.addresses import is_server
    from onthedot.observe.formats import plain
    from onthedot.stores.addresses import shown_url

    if server is not None and (store or db):
        raise click.UsageError("expected URL, --store or --db, got two of them; leave one out")
    url = server or store_url(store, db)
    if not is_server(url):
        raise click.UsageError(f"store: expected a server, got {shown_url(url)!r}; there you may do everything")
    told = ask_server(url, lambda client: client.server.ask("GET", "/api/v1/whoami"))
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
