"""`onthedot skip-next | move-next | backfill | skips`: changes single starts of a job, and lists skipped ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

import onthedot as otd
from onthedot.cli.connect import call, query
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import (
    ASK_ABOVE,
    check_range,
    is_date,
    read_ahead,
    read_time,
    store_url,
    with_debug,
    with_json,
    with_namespace,
    with_range,
    with_server,
    with_utc,
)
from onthedot.cli.terminal import (
    echo_more,
    echo_table,
    in_zone,
    local_time,
    moment,
    read_iso,
    reader_time,
    relative,
    skip_in_words,
)
from onthedot.clock import Micros, SystemClock, to_datetime, to_micros
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError
from onthedot.model.events import Event, RunsBackfilled
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import RunRecord, SkipRecord
from onthedot.observe.formats import iso, optional_iso, plain
from onthedot.observe.json_fields import coming_fields, skip_fields
from onthedot.operations.backfill import Asked, Backfill
from onthedot.operations.next_slots import look_ahead
from onthedot.rules.next_slots import coming
from onthedot.schedules.instants import read_instant
from onthedot.stores.values import MovedSlot

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


F = TypeVar("F", bound=Callable[..., Any])

# ── skip-next, and what it shares with move-next ─────────────────────────────────────────────────────────────────


SHOWN = 3
"""How many of the next starts are shown."""


def _with_slot(command: F) -> F:
    """Add `--slot` and `--schedule`, which choose the start."""
    command = click.option(
        "--schedule", metavar="ID", help="Only of the schedule with this id; 'jobs --json' has them.  [default: all]"
    )(command)
    return click.option("--slot", metavar="ISO", help="Which start, with its offset from UTC.  [default: the next]")(
        command
    )


@click.command(cls=Command, name="skip-next")
@click.argument("job")
@_with_slot
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def skip_next(
    job: str, slot: str | None, schedule: str | None, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Skip the next start of JOB, and show the starts after it. All other starts stay. Called twice, it skips two. It
    cannot be undone: 'onthedot trigger JOB' starts a run instead.

    \b
    Examples:
      onthedot skip-next nightly_report
      onthedot skip-next nightly_report --slot 2026-01-01T02:30+01:00
      onthedot skip-next nightly_report --schedule weekly --store https://jobs.example.org
    """
    at = _read_slot(slot)
    _change(
        store_url(store, db), job, namespace, as_json, lambda verbs: verbs.skip_next(job, slot=at, schedule=schedule)
    )


def _read_slot(text: str | None) -> datetime | None:
    """Read `--slot`."""
    return None if text is None else read_instant(text, what="--slot")


@dataclass(frozen=True)
class Changed:
    """A changed start, the run that replaces it, and the next starts."""

    job: JobRecord | None
    done: MovedSlot
    run: RunRecord | None
    coming: list[Mapping[str, Any]]


def _change(url: str, job: str, namespace: str, as_json: bool, deed: Callable[[Verbs], Awaitable[MovedSlot]]) -> None:
    """Change one start, and print what starts next."""

    async def work(verbs: Verbs) -> Changed:
        done = await deed(verbs)
        record = await verbs.get_job(job)
        run = None if done.run_id is None else await verbs.get_run(done.run_id)
        return Changed(record, done, run, await _coming(verbs, job, namespace, record))

    changed = call(url, work, namespace=namespace)
    if as_json:
        click.echo(json.dumps(_changed_as_json(changed, job, namespace), indent=2))
    else:
        click.echo("\n".join(_changed_lines(changed, job, SystemClock().now())))


async def _coming(verbs: Verbs, job: str, namespace: str, record: JobRecord | None) -> list[Mapping[str, Any]]:
    from onthedot.operations.open_verbs import OpenVerbs

    if isinstance(verbs, otd.Client):
        from onthedot.client import views

        _, found = await views.next_of(verbs.server, job, count=SHOWN, namespace=namespace)
        return found
    if isinstance(verbs, OpenVerbs) and record is not None:
        now = verbs.there.clock.now()
        ahead = await look_ahead(verbs.there.store, record.id, now, limit=SHOWN)
        return [coming_fields(one) for one in coming(ahead, now, SHOWN)]
    return []


def _changed_lines(changed: Changed, job: str, now: Micros) -> list[str]:
    def told(at: Micros) -> str:
        return f"{local_time(at, None, exact=False)}, {relative(at, now)}"

    done, run = changed.done, changed.run
    if run is None:
        first = f"job {plain(job)}: the start at {told(done.slot_at)}, is skipped"
    else:
        was = local_time(done.slot_at, None, exact=False)
        first = f"job {plain(job)}: the start at {was} is moved to {told(run.due_at)}: run {run.id}"
    paused = changed.job is not None and changed.job.state is JobState.PAUSED
    held = [f"the job is paused: nothing starts until 'onthedot resume {plain(job)}'"] if paused else []
    several = changed.job is not None and len(changed.job.job.schedules) > 1
    after = [f"  {told(read_iso(one['due_at']))}{_which(one, several=several)}" for one in changed.coming]
    return [first, *held, *(["next starts:", *after] if after else ["no start comes after it"])]


def _which(start: Mapping[str, Any], *, several: bool) -> str:
    words = [f"run {start['run_id']}"] if start["run_id"] is not None else []
    words += [f"schedule {plain(start['schedule'])}"] if several and start["schedule"] else []
    return f" ({', '.join(words)})" if words else ""


def _changed_as_json(changed: Changed, job: str, namespace: str) -> dict[str, Any]:
    done, run = changed.done, changed.run
    return {
        "job": job,
        "namespace": namespace,
        "schedule": done.schedule_id,
        "slot_at": iso(done.slot_at),
        "reason": done.reason,
        "run_id": done.run_id,
        "due_at": optional_iso(None if run is None else run.due_at),
        "next": changed.coming,
    }


# ── move-next ────────────────────────────────────────────────────────────────────────────────────────────────────


class Earlier(Command):
    """Accepts a distance such as -10m as an argument, not as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        distances = [one for one in args if re.match(r"-\d", one)]
        if distances and "--" not in args:
            args = [*(one for one in args if one not in distances), "--", *distances]
        return super().parse_args(ctx, args)


@click.command(cls=Earlier, name="move-next")
@click.argument("job")
@click.argument("when")
@_with_slot
@with_utc
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def move_next(
    job: str, when: str, slot: str | None, schedule: str | None, namespace: str,
    store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run the next start of JOB at WHEN instead, and show the starts after it. All other starts stay.

    WHEN is a distance from the start such as +2h or -10m, an instant (without an offset from UTC: in the schedule's own
    time zone), 'now', or plain words such as 'tomorrow 05:00' or 'monday 03:00' in your own time zone.
    'onthedot cancel' cancels the run that replaces it.

    \b
    Examples:
      onthedot move-next nightly_report +2h
      onthedot move-next nightly_report 2026-01-01T06:00
      onthedot move-next nightly_report 'tomorrow 05:00'
      onthedot move-next nightly_report now --schedule weekly
    """
    at = _read_slot(slot)
    to = when if when.strip() == "now" or when.strip()[:1] in ("+", "-") or is_date(when) else read_ahead(when, "WHEN")
    _change(
        store_url(store, db), job, namespace, as_json,
        lambda verbs: verbs.move_next(job, to=to, slot=at, schedule=schedule),
    )  # fmt: skip


# ── backfill ─────────────────────────────────────────────────────────────────────────────────────────────────────


_OPTIONS = {"start": "--from", "end": "--to", "limit": "--limit", "schedule": "--schedule"}


@click.command(cls=Command)
@click.argument("job")
@click.option("--from", "start", metavar="WHEN", required=True, help="The start of the range.")
@click.option("--to", "end", metavar="WHEN", help="The end of the range (exclusive).  [default: now]")
@click.option("--schedule", metavar="ID", help="Only slots of this schedule.  [default: of all schedules]")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Refuse a range with more slots.",
)
@click.option("--dry-run", is_flag=True, help="Show what it would do, and change nothing.")
@click.option("--yes", is_flag=True, help=f"Do not ask, even for more than {ASK_ABOVE} new runs.")
@with_utc
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def backfill(
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
    """Make one run for each slot of JOB from --from up to --to, even if the slot ran at its time. The runs are due at
    once, the oldest first. A second backfill of the same slots makes no new runs.

    WHEN is a time with an offset, a local time of the job's schedule, how long ago (-2h), or plain words such as
    yesterday or 'monday 03:00' in your own time zone. Try it with --dry-run first.

    \b
    Examples:
      onthedot backfill nightly_report --from 2026-01-01 --to 2026-02-01 --dry-run
      onthedot backfill nightly_report --from 2026-01-01T02:30+01:00 --to 2026-01-08T00:00Z
      onthedot backfill minute_report --from -2h --dry-run
      onthedot backfill nightly_report --from yesterday --to today
      onthedot backfill nightly_report --from 2026-01-01 --to 2026-02-01 --yes --json
    """
    asked = Asked(start, end or "", schedule, limit)
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        record, done = call(
            store_url(store, db),
            lambda verbs: _backfill(verbs, job, asked, dry_run=dry_run, asks=asks),
            namespace=namespace,
            tell=_tell_progress if sys.stderr.isatty() else None,
        )
    except DefinitionError as error:
        raise BadInput(_in_options(str(error))) from error
    if as_json:
        click.echo(json.dumps(_backfill_as_json(done, namespace), indent=2))
        return
    click.echo(_backfill_in_words(done))
    if done.created and not dry_run and record is not None and record.state is JobState.PAUSED:
        click.echo("the job is paused, and the runs wait until it is resumed")


async def _backfill(
    verbs: Verbs, job: str, asked: Asked, *, dry_run: bool, asks: bool
) -> tuple[JobRecord | None, Backfill]:
    now = SystemClock().now()
    start = when(asked.start, now, "start")
    end = when(asked.end, now, "end") if asked.end else to_datetime(now)
    rest: Any = {"schedule": asked.schedule, "limit": asked.limit}
    if asks:
        _confirm(await verbs.backfill(job, start, end, dry_run=True, **rest))
    done = await verbs.backfill(job, start, end, dry_run=dry_run, **rest)
    return await verbs.get_job(job), done


def when(given: Any, now: Micros, what: str) -> Any:
    """Read a point in time: a length of time ago such as -2h, a date in the schedule's own zone, or other words in
    the reader's zone."""
    if not isinstance(given, str) or is_date(given):
        return given
    if not given.startswith("-"):
        return read_time(given, _OPTIONS[what])
    return to_datetime(now - micros(parse_duration(given[1:], what=what)))


def _backfill_in_words(done: Backfill) -> str:
    return plain(done.in_words(lambda at: reader_time(to_micros(at), exact=False)), most=1_000)


def _confirm(preview: Backfill) -> None:
    """Ask for a confirmation of many runs; `click.Abort` if the answer is no."""
    if preview.created > ASK_ABOVE:
        click.confirm(f"{_backfill_in_words(preview)}. Go on?", abort=True)


def _tell_progress(event: Event) -> None:
    """Print the progress, on one line that is overwritten."""
    if isinstance(event, RunsBackfilled):
        done = event.runs == event.of
        click.echo(f"\r{event.runs} of {event.of} runs asked for", err=True, nl=done)


def _in_options(message: str) -> str:
    """Return the message of the verb's error, with the names of the options of the command line.

    >>> _in_options("end: expected an instant after start")
    '--to: expected an instant after start'
    """
    name, colon, rest = message.partition(":")
    return f"{_OPTIONS.get(name, name)}{colon}{rest}"


def _backfill_as_json(done: Backfill, namespace: str) -> dict[str, Any]:
    return {
        "job": done.job,
        "namespace": namespace,
        "dry_run": done.dry_run,
        "slots": done.slots,
        "first": None if done.first is None else iso(to_micros(done.first)),
        "last": None if done.last is None else iso(to_micros(done.last)),
        "created": done.created,
        "existing": done.existing,
        "succeeded": done.succeeded,
        "run_ids": list(done.run_ids),
    }


# ── skips ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.option("--job", metavar="NAME", help="Only the slots of this job.")
@with_namespace
@with_range("slots")
@click.option("-n", "--count", type=click.IntRange(1), default=50, show_default=True, help="How many ranges, at most.")
@with_server
@with_json("a JSON array with one object per range of slots")
@with_debug
def skips(
    job: str | None,
    namespace: str,
    since: datetime | None,
    until: datetime | None,
    count: int,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List slots that were skipped before they had a run, the newest first. Each line is a range of slots of one
    schedule, with the reason. Runs that were skipped (overlap, missed) are not here: 'onthedot runs --state skipped'
    lists them, and below them the newest of these ranges. A start that was skipped by hand is listed when its time is
    planned; until then 'onthedot upcoming JOB' leaves it out.

    \b
    Examples:
      onthedot skips --since yesterday
      onthedot skips --job nightly_report --since 'monday 02:55' --until 'monday 03:05'
      onthedot skips --since -24h --json | jq '.[] | select(.reason == "missed")'
    """
    check_range(since, until)
    found = query(
        store_url(store, db),
        lambda verbs: verbs.list_skips(job, since=since, until=until, limit=count + 1),
        namespace=namespace,
    )
    skips = found[:count]
    if as_json:
        click.echo(json.dumps([skip_fields(skip, namespace) for skip in skips], indent=2))
    elif skips:
        _echo_skips(skips, SystemClock().now())
    else:
        click.echo(
            "no skipped slots match; 'onthedot runs --state skipped' lists runs that were skipped (overlap, missed); "
            "a start that 'skip-next' leaves out is listed when its time is planned"
        )
    if len(skips) < len(found):
        echo_more(len(skips), "range", "-n sets how many", as_json=as_json)


def _echo_skips(skips: list[SkipRecord], now: Micros) -> None:
    rows = [
        [
            skip.job,
            str(skip.count),
            moment(skip.first, now),
            "" if skip.first == skip.last else moment(skip.last, now),
            skip_in_words(skip.reason),
            moment(skip.recorded_at, now),
        ]
        for skip in skips
    ]
    echo_table(["JOB", "SLOTS", in_zone("FIRST", now), "LAST", "REASON", "RECORDED"], rows)
