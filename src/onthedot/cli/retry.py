"""`onthedot retry`: go on where a run of a command or of steps has failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import RUN, store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.model.run import RunRecord
    from onthedot.operations.verbs import Verbs


@click.command(cls=Command, short_help="Go on where a run of steps has failed.")
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("--from-step", metavar="NAME", help="The step to begin with.  [default: the one that failed]")
@with_server
@with_json("one JSON object: the new run")
@with_debug
def command(run_id: int, from_step: str | None, store: str | None, db: str | None, as_json: bool) -> None:
    """Ask for a new run that goes on where RUN has failed: at the step which did, with what earlier steps have handed
    on, and in RUN's workspace where that is still there. For commands and steps; RUN must have ended.

    \b
    Examples:
      onthedot retry 41
      onthedot retry 41 --from-step build
    """
    from onthedot.cli.asking import ask
    from onthedot.observe.formats import plain
    from onthedot.observe.json_lines import run_fields

    run = ask(store_url(store, db), lambda verbs: _retry(verbs, run_id, from_step))
    if as_json:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        click.echo(f"run {run.id} of {plain(run.job)} is stored; it goes on from run {run_id}")


async def _retry(verbs: Verbs, run_id: int, from_step: str | None) -> RunRecord:
    from onthedot.model.errors import StateError, UnknownRun

    try:
        made = await verbs.retry_run(run_id, from_step=from_step)
    except UnknownRun:
        raise BadInput(f"RUN: expected a stored run, got {run_id}; 'onthedot runs' lists them") from None
    except StateError as error:
        raise BadInput(f"RUN: {error}") from None
    run = await verbs.get_run(made)
    if run is None:
        raise BadInput(f"run {made} was forgotten meanwhile")
    return run
