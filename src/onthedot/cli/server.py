"""`onthedot server`: plan, and look after the store, without executing anything."""

from __future__ import annotations

from typing import Any

import click

from onthedot.cli.api import api_given, with_api
from onthedot.cli.errors import Command
from onthedot.cli.node_options import Given, read_roles, run, with_node


@click.command(cls=Command, short_help="Plan the runs of all stored jobs, and serve the HTTP API.")
@click.argument("program", required=False)
@click.option(
    "--roles", metavar="ROLES", default="planner", show_default=True, callback=read_roles,
    help="'planner', or 'planner,worker' to execute as well.",
)  # fmt: skip
@with_api
@with_node
def command(program: str | None, **options: Any) -> None:
    """Plan the runs of every job in the store, recover what dead nodes ran, forget what is old, and serve the HTTP API.

    It executes nothing: that is what 'onthedot worker' is for. It needs no program; with one, its jobs are stored when
    it starts. Of several servers one leads, and another takes over when it is gone.

    \b
    Examples:
      onthedot server
      onthedot server app.py --store sqlite:///shop.db
      onthedot server --listen 0.0.0.0:7411 --store postgresql://localhost/jobs
      onthedot server --node-id planner-1 --for 1h
    """
    api = api_given(options, link=False)
    run(program, Given(**options), api=api)
