"""`onthedot backfill`: runs for slots of a job that have passed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import (
    is_date,
    read_time,
    store_url,
    with_debug,
    with_json,
    with_namespace,
    with_server,
    with_utc,
)

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.model.events import Event
    from onthedot.model.job import JobRecord
    from onthedot.operations.backfill import Asked, Backfill
    from onthedot.operations.verbs import Verbs

ASK_ABOVE = 100
"""On a terminal, more new runs than this are made only when somebody says yes."""

_OPTIONS = {"start": "--from", "end": "--to", "limit": "--limit", "schedule": "--schedule"}


@click.command(cls=Command, short_help="Run slots of a job that have passed.")
@click.argument("job")
@click.option("--from", "start", metavar="WHEN", required=True, help="The first instant of the range.")
@click.option("--to", "end", metavar="WHEN", help="The end of the range, which is not part of it.  [default: now]")
@click.option("--schedule", metavar="ID", help="Only of this schedule.  [default: of all that the job has]")
@click.option(
    "--limit", type=click.IntRange(1), default=10_000, show_default=True, help="Refuse a range with more slots."
)
@click.option("--dry-run", is_flag=True, help="Only tell what it would do.")
@click.option("--yes", is_flag=True, help=f"Do not ask, also when there are more than {ASK_ABOVE} new runs.")
@with_utc
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def command(
    job: str,
    start: str,
    end: str | None,
    schedule: str | None,
    limit: int,
    dry_run: bool,
    yes: bool,
    namespace: str,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Make one run for each slot of JOB from --from on and up to --to, whether it ran in its own time or not. The runs
    are due at once, the oldest first; asked for again, they are the same runs.

    WHEN is an instant with an offset, a local time of the job's schedule, how long ago, or plain words such as
    yesterday or 'monday 03:00' in your own time zone. See first with --dry-run.

    \b
    Examples:
      onthedot backfill nightly_report --from 2026-01-01 --to 2026-02-01 --dry-run
      onthedot backfill nightly_report --from 2026-01-01T02:30+01:00 --to 2026-01-08T00:00Z
      onthedot backfill minute_report --from -2h --dry-run
      onthedot backfill nightly_report --from yesterday --to today
      onthedot backfill nightly_report --from 2026-01-01 --to 2026-02-01 --yes --json
    """
    from onthedot.cli.asking import ask
    from onthedot.model.errors import DefinitionError
    from onthedot.model.job import JobState
    from onthedot.operations.backfill import Asked

    asked = Asked(start, end or "", schedule, limit)
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        record, done = ask(
            store_url(store, db),
            lambda verbs: _backfill(verbs, job, asked, dry_run=dry_run, asks=asks),
            namespace=namespace,
            tell=_tell if sys.stderr.isatty() else None,
        )
    except DefinitionError as error:
        raise BadInput(_in_options(str(error))) from error
    if as_json:
        click.echo(json.dumps(_as_json(done, namespace), indent=2))
        return
    click.echo(_in_words(done))
    if done.created and not dry_run and record is not None and record.state is JobState.PAUSED:
        click.echo("the job is paused, and the runs wait until it is resumed")


async def _backfill(
    verbs: Verbs, job: str, asked: Asked, *, dry_run: bool, asks: bool
) -> tuple[JobRecord | None, Backfill]:
    from onthedot.clock import SystemClock, to_datetime

    now = SystemClock().now()
    start = when(asked.start, now, "start")
    end = when(asked.end, now, "end") if asked.end else to_datetime(now)
    rest: Any = {"schedule": asked.schedule, "limit": asked.limit}
    if asks:
        _confirm(await verbs.backfill(job, start, end, dry_run=True, **rest))
    done = await verbs.backfill(job, start, end, dry_run=dry_run, **rest)
    return await verbs.get_job(job), done


def when(given: Any, now: Micros, what: str) -> Any:
    """A length of time ago, such as -2h, is an instant; a date is one of the schedule's own zone; other words are those
    of the reader."""
    from onthedot.clock import to_datetime
    from onthedot.model.duration import micros, parse_duration

    if not isinstance(given, str) or is_date(given):
        return given
    if not given.startswith("-"):
        return read_time(given, _OPTIONS[what])
    return to_datetime(now - micros(parse_duration(given[1:], what=what)))


def _in_words(done: Backfill) -> str:
    from onthedot.cli.words import reader_time
    from onthedot.clock import to_micros
    from onthedot.observe.formats import plain

    return plain(done.in_words(lambda at: reader_time(to_micros(at), exact=False)), most=1_000)


def _confirm(preview: Backfill) -> None:
    """Let somebody look first; `click.Abort` if the answer is no."""
    if preview.created > ASK_ABOVE:
        click.confirm(f"{_in_words(preview)}. Go on?", abort=True)


def _tell(event: Event) -> None:
    """How far it is, in one line that is written over."""
    from onthedot.model.events import RunsBackfilled

    if isinstance(event, RunsBackfilled):
        done = event.runs == event.of
        click.echo(f"\r{event.runs} of {event.of} runs asked for", err=True, nl=done)


def _in_options(message: str) -> str:
    """An error of the verb in the words of the command line.

    >>> _in_options("end: expected an instant after start")
    '--to: expected an instant after start'
    """
    name, colon, rest = message.partition(":")
    return f"{_OPTIONS.get(name, name)}{colon}{rest}"


def _as_json(done: Backfill, namespace: str) -> dict[str, Any]:
    return {
        "job": done.job,
        "namespace": namespace,
        "dry_run": done.dry_run,
        "slots": done.slots,
        "first": None if done.first is None else done.first.isoformat(),
        "last": None if done.last is None else done.last.isoformat(),
        "created": done.created,
        "existing": done.existing,
        "succeeded": done.succeeded,
        "run_ids": list(done.run_ids),
    }
