"""`onthedot retry`: go on where a run of a command or of steps has failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from onthedot.run import RunRecord
    from onthedot.stores.base import Store


@click.command(cls=Command, short_help="Go on where a run of steps has failed.")
@click.argument("run_id", type=click.IntRange(min=1), metavar="RUN")
@click.option("--from-step", metavar="NAME", help="The step to begin with.  [default: the one that failed]")
@with_store
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
    from onthedot.cli.writing import write_store
    from onthedot.observe.json_lines import run_fields
    from onthedot.observe.text import plain

    run = write_store(store_url(store, db), lambda opened: _retry(opened, run_id, from_step))
    if as_json:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        click.echo(f"run {run.id} of {plain(run.job)} is stored; it goes on from run {run_id}")


async def _retry(store: Store, run_id: int, from_step: str | None) -> RunRecord:
    from onthedot.clock import SystemClock
    from onthedot.cluster.offset import clock_of
    from onthedot.errors import StateError, UnknownRun
    from onthedot.ids import RandomIds
    from onthedot.plan.rerunning import rerun

    clock = await clock_of(store, SystemClock())
    try:
        made, _ = await rerun(store, run_id, from_step, token=RandomIds().token(), now=clock.now())
    except UnknownRun:
        raise BadInput(f"RUN: expected a stored run, got {run_id}; 'onthedot runs' lists them") from None
    except StateError as error:
        raise BadInput(f"RUN: {error}") from None
    run = await store.get_run(made)
    if run is None:
        raise BadInput(f"run {made} was forgotten meanwhile")
    return run
