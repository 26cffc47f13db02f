"""`onthedot cancel`: end a run that waits, or ask one that runs to stop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.advice import on_this_store
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import RUN, store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs
    from onthedot.stores.values import CancelAnswer


@click.command(cls=Command, short_help="Cancel a run, or ask it to stop.")
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("--reason", metavar="TEXT", default="cancelled", show_default=True, help="Why; it is kept with the run.")
@with_server
@with_json("one JSON object")
@with_debug
def command(run_id: int, reason: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Cancel the run with the number RUN: at once if it waits. If it runs, it is asked to stop, and not tried again.
    One that has ended already is refused.

    \b
    Examples:
      onthedot cancel 41
      onthedot cancel 41 --reason "the customer has left"
    """
    from onthedot.cli.asking import ask

    answer = ask(store_url(store, db), lambda verbs: _cancel(verbs, run_id, reason))
    if as_json:
        state = None if answer.state is None else str(answer.state)
        click.echo(json.dumps({"run_id": run_id, "answer": answer.kind, "state": state}, indent=2))
    elif answer.kind == "asked":
        click.echo(
            on_this_store(f"run {run_id} is running; it is asked to stop, 'onthedot show {run_id}' tells when it has")
        )
    else:
        click.echo(f"run {run_id} is cancelled")


async def _cancel(verbs: Verbs, run_id: int, reason: str) -> CancelAnswer:
    answer = await verbs.cancel(run_id, why=reason)
    if answer.kind == "unknown":
        raise BadInput(f"RUN: expected a stored run, got {run_id}; 'onthedot runs' lists them")
    if answer.kind == "ended":
        raise BadInput(f"RUN: expected a run that waits or runs, got {run_id}, which has ended already: {answer.state}")
    return answer
