"""`onthedot trigger`: one run of a job now, by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.job import JobRecord
    from onthedot.run import RunRecord
    from onthedot.verbs import Verbs


@click.command(cls=Command, short_help="Ask for one run of a job, now.")
@click.argument("job")
@click.option(
    "--arg", "pairs", metavar="NAME=VALUE", multiple=True,
    help="An argument, as JSON or else as text; may be given several times.  [default: the job's own arguments]",
)  # fmt: skip
@with_namespace
@with_server
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
    from onthedot.cli.asking import ask
    from onthedot.job import JobState
    from onthedot.observe.json_lines import run_fields
    from onthedot.observe.text import plain

    args = _read(pairs) if pairs else None
    record, run = ask(store_url(store, db), lambda verbs: _trigger(verbs, job, args), namespace=namespace)
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


async def _trigger(verbs: Verbs, job: str, args: dict[str, Any] | None) -> tuple[JobRecord, RunRecord]:
    run = await verbs.get_run(await verbs.trigger(job, args))
    record = await verbs.get_job(job)
    if run is None or record is None:
        raise BadInput(f"job {job!r} was deleted meanwhile")
    return record, run
