"""`onthedot rm`: end jobs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


@click.command(cls=Command, short_help="End a job; its waiting runs are cancelled.")
@click.argument("job")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def command(job: str, yes: bool, namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """End JOB: its waiting runs are cancelled, running ones end and are not tried again. Its history stays for as long
    as it is kept.

    \b
    Examples:
      onthedot rm nightly_report
      onthedot rm nightly_report --yes --json
    """
    from onthedot.cli.asking import ask
    from onthedot.observe.formats import count, plain

    if not (yes or as_json) and sys.stdin.isatty():
        click.confirm(f"End job {plain(job)}?", abort=True)

    async def remove(verbs: Verbs) -> int:
        return await verbs.remove(job)

    cancelled = ask(store_url(store, db), remove, namespace=namespace)
    if as_json:
        click.echo(json.dumps({"job": job, "namespace": namespace, "cancelled": cancelled}, indent=2))
    else:
        click.echo(f"job {plain(job)} is gone, and {count(cancelled, 'waiting run')} with it")
