"""`onthedot trigger`: one run of a job now, by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.advice import on_this_store
from onthedot.cli.errors import CUT_SHORT, BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.model.job import JobRecord
    from onthedot.model.run import RunRecord
    from onthedot.operations.verbs import Verbs


@click.command(cls=Command, short_help="Ask for one run of a job, now.")
@click.argument("job")
@click.option(
    "--arg", "pairs", metavar="NAME=VALUE", multiple=True,
    help="An argument; may be given several times.  [default: the job's own arguments]",
)  # fmt: skip
@click.option(
    "--arg-json", "json_pairs", metavar="NAME=JSON", multiple=True, help="The same, and its value is JSON in any case."
)
@click.option("-f", "--follow", is_flag=True, help="Show what the run says until it has ended, and how it ended.")
@with_namespace
@with_server
@with_json("one JSON object: the run; with --follow one per line: what it says, and at last the run")
@with_debug
def command(
    job: str, pairs: tuple[str, ...], json_pairs: tuple[str, ...], follow: bool, namespace: str,
    store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask for one run of JOB now, beside those of its schedules. Whichever node can do it takes it.

    With --arg the run has these arguments and no others. A value is read as the kind that the parameter declares: 137
    is text for a text parameter, and a number for a number. A handler declares none: for it 3, true and "3" are JSON
    (a number, a truth value and text), and everything else is text. Lists and mappings are given with --arg-json.

    --follow shows the lines of the run as 'onthedot logs -f' does, and waits until it has ended. Then the exit code is
    0 if it has succeeded, and 1 if it has not. Ctrl-C ends the waiting (130), and the run goes on.

    \b
    Examples:
      onthedot trigger nightly_report
      onthedot trigger nightly_report --follow
      onthedot trigger nightly_report --arg region=us --arg pages=100
      onthedot trigger nightly_report --arg-json 'regions=["us", "eu"]'
    """
    from onthedot.cli.asking import ask
    from onthedot.model.job import JobState
    from onthedot.observe.formats import plain
    from onthedot.observe.json_lines import run_fields

    texts = _pairs("--arg", pairs)
    values = {name: _json(name, text) for name, text in _pairs("--arg-json", json_pairs).items()}
    twice = texts.keys() & values.keys()
    if twice:
        raise BadInput(f"--arg: expected {min(twice)!r} once, got it twice; leave one out")
    url = store_url(store, db)
    record, run = ask(url, lambda verbs: _trigger(verbs, job, texts, values), namespace=namespace)
    if as_json and not follow:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        held = "; the job is paused, and the run waits until it is resumed" if record.state is JobState.PAUSED else ""
        click.echo(f"run {run.id} of {plain(run.job)} is stored{held}", err=follow)
    if follow:
        click.get_current_context().exit(_follow(url, run.id, as_json=as_json))


def _follow(url: str, run_id: int, *, as_json: bool) -> int:
    """Show what the run says until it has ended; the exit code."""
    from onthedot.cli.asking import ask
    from onthedot.cli.logs import tell_run
    from onthedot.cli.telling import Telling
    from onthedot.observe.json_lines import run_fields

    code = tell_run(url, run_id, Telling(attempt=None, step=None, as_json=as_json), follow=True)
    if code == CUT_SHORT:
        click.echo(on_this_store(f"run {run_id} goes on; 'onthedot logs {run_id} -f' follows it"), err=True)
    elif as_json:
        ended = ask(url, lambda verbs: verbs.get_run(run_id))
        if ended is not None:  # else it was forgotten
            click.echo(json.dumps(run_fields(ended)))
    return code


def _pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadInput(f"{option}: expected NAME=VALUE like 'region=us', got {pair!r}")
        if name in found:
            raise BadInput(f"{option}: expected {name!r} once, got it twice; leave one out")
        found[name] = text
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(
            f"--arg-json: expected JSON for {name!r}, got {text[:80]!r}; text needs quotes of its own"
        ) from None


async def _trigger(
    verbs: Verbs, job: str, texts: dict[str, str], values: dict[str, Any]
) -> tuple[JobRecord, RunRecord]:
    args = {**await _read(verbs, job, texts), **values} if texts or values else None
    run = await verbs.get_run(await verbs.trigger(job, args))
    record = await verbs.get_job(job)
    if run is None or record is None:
        raise BadInput(f"job {job!r} was deleted meanwhile")
    return record, run


async def _read(verbs: Verbs, job: str, texts: dict[str, str]) -> dict[str, Any]:
    """Each text as the job's parameter of that name declares it; without one, as JSON or else as text."""
    from onthedot.runners.params import value_of_text

    record = await verbs.get_job(job) if texts else None
    declared = {} if record is None else {param.name: param for param in record.job.params}
    return {
        name: value_of_text(declared[name], text) if name in declared else _json_or_text(text)
        for name, text in texts.items()
    }


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
