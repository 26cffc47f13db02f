"""`onthedot trigger`: one run of a job now, by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_store

if TYPE_CHECKING:
    from onthedot.job import JobRecord
    from onthedot.run import RunRecord
    from onthedot.stores.base import Store


@click.command(cls=Command, short_help="Ask for one run of a job, now.")
@click.argument("job")
@click.option(
    "--arg", "pairs", metavar="NAME=VALUE", multiple=True,
    help="An argument, as JSON or else as text; may be given several times.  [default: the job's own arguments]",
)  # fmt: skip
@with_namespace
@with_store
@with_json("one JSON object: the run")
@with_debug
def command(job: str, pairs: tuple[str, ...], namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Ask for one run of JOB now, beside those of its schedules. Whichever node can do it takes it.

    With --arg the run has these arguments and no others. 3, true and "3" are JSON: a number, a truth value and text.

    \b
    Examples:
      onthedot trigger nightly_report
      onthedot trigger nightly_report --arg region=us --arg pages=100
    """
    from onthedot.cli.writing import write_store
    from onthedot.define.arguments import encode_arguments
    from onthedot.job import JobState
    from onthedot.observe.json_lines import run_fields
    from onthedot.observe.text import plain

    args = encode_arguments(_read(pairs), subject=f"job {job!r}") if pairs else None
    record, run = write_store(store_url(store, db), lambda opened: _trigger(opened, job, namespace, args))
    if as_json:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        held = "; the job is paused, and the run waits until it is resumed" if record.state is JobState.PAUSED else ""
        click.echo(f"run {run.id} of {plain(run.job)} is stored{held}")


def _read(pairs: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadInput(f"--arg: expected NAME=VALUE like 'region=us', got {pair!r}")
        if name in found:
            raise BadInput(f"--arg: expected {name!r} once, got it twice; leave one out")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


async def _trigger(store: Store, job: str, namespace: str, args: str | None) -> tuple[JobRecord, RunRecord]:
    from onthedot.clock import SystemClock
    from onthedot.cluster.offset import clock_of
    from onthedot.ids import RandomIds
    from onthedot.plan.asking import find_job, submit_run
    from onthedot.run import manual_trigger

    record = await find_job(store, job, namespace=namespace)
    trigger = manual_trigger(RandomIds().token())
    clock = await clock_of(store, SystemClock())
    run = await store.get_run(await submit_run(store, record, trigger=trigger, clock=clock, args=args))
    if run is None:
        raise BadInput(f"job {job!r} was deleted meanwhile")
    return record, run
