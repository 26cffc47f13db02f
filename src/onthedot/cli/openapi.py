"""`onthedot openapi`: prints the OpenAPI document of the HTTP API."""

from __future__ import annotations

import json

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import with_debug


@click.command(cls=Command)
@with_debug
def openapi() -> None:
    """Print the OpenAPI 3.1 document of this version's HTTP API, in JSON: every route, with examples. It needs neither
    a store nor a server.

    \b
    Examples:
      onthedot openapi > openapi.json
      onthedot openapi | jq '.paths | keys[]'
    """
    click.echo(json.dumps(_document(), indent=2))


def _document() -> dict[str, object]:
    try:
        from onthedot.server.app import describe_api
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("onthedot"):
            raise
        raise BadInput(
            f"expected the HTTP server's libraries, but there is no {error.name!r}: pip install 'onthedot[server]'"
        ) from error
    return describe_api()
