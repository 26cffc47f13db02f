"""`onthedot jobs | pause | resume | trigger`: lists jobs, pauses and resumes one, and asks for a run of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import click

from onthedot.cli.advice import on_this_store
from onthedot.cli.connect import call, call_server
from onthedot.cli.errors import CUT_SHORT, BadInput, Command
from onthedot.cli.open_store import read_store
from onthedot.cli.options import read_ahead, store_url, with_debug, with_json, with_namespace, with_server, with_utc
from onthedot.cli.terminal import echo_more, echo_table
from onthedot.cli.words import in_words, in_zone, moment, reader_span, reader_time, relative, task_in_words
from onthedot.clock import Micros, SystemClock, to_micros
from onthedot.model.addresses import is_server
from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import RunRecord
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.observe.json_fields import run_fields
from onthedot.operations.next_slots import Next, Shown, shown
from onthedot.runners.params import value_of_text
from onthedot.schedules import describe, to_json
from onthedot.stores.protocol import Store
from onthedot.stores.queries import JobFilter, all_jobs
from onthedot.stores.values import Resumed

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.model.after import After
    from onthedot.operations.verbs import Verbs


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


MOST = 1_000
"""How many jobs the table shows without --limit."""


@click.command(cls=Command)
@with_server
@click.option("--limit", type=click.IntRange(1), help=f"At most so many.  [default: {MOST}; with --json all]")
@click.option("--namespace", metavar="NAME", help="Only of this namespace.  [default: all]")
@with_utc
@with_json("a JSON array with one object per job")
@with_debug
def jobs(store: str | None, db: str | None, limit: int | None, namespace: str | None, as_json: bool) -> None:
    """List the stored jobs: state, revision, last run, next instant, schedule in words.

    It only reads, also while 'onthedot up' is running.

    \b
    Examples:
      onthedot jobs
      onthedot jobs --limit 5000
      onthedot jobs --db /var/lib/shop/onthedot.db --json
    """
    now, most = SystemClock().now(), limit or (None if as_json else MOST)
    found = jobs_shown(store_url(store, db), now, None if most is None else most + 1, namespace)
    jobs = found[:most]
    if as_json:
        click.echo(json.dumps([_job_as_json(job) for job in jobs], indent=2))
    elif jobs:
        _echo_jobs(jobs, now)
    else:
        click.echo("no jobs are stored")
    if len(jobs) < len(found):
        echo_more(len(jobs), "job", "--limit sets how many", as_json=as_json)


def jobs_shown(url: str, now: Micros, most: int | None, namespace: str | None = None) -> list[Shown]:
    """The jobs of a store or a server, at most so many (None: all), with their next starts and last runs."""
    wanted = JobFilter(namespaces=None if namespace is None else (namespace,))

    async def read(store: Store) -> list[Shown]:
        return [await shown(store, record, now) for record in await all_jobs(store.queries, wanted, most)]

    async def asked(client: Client) -> list[Shown]:
        from onthedot.client import views

        return await views.jobs_shown(client.server, limit=most, namespace=namespace)

    return call_server(url, asked) if is_server(url) else read_store(url, read)


def _echo_jobs(jobs: list[Shown], now: Micros) -> None:
    rows = [row for job in jobs for row in _rows(job, now)]
    echo_table(["JOB", "STATE", "REV", "LAST RUN", in_zone("NEXT", now), "SCHEDULE"], rows)


def _rows(job: Shown, now: Micros) -> list[list[str]]:
    """One row for each schedule. Only the first row names the job."""
    record = job.record
    name = record.job.name if record.job.namespace == "default" else f"{record.job.namespace}/{record.job.name}"
    head = [name, str(record.state), str(record.revision), _last(job.last, now)]
    tails = [[_when(entry, now), in_words(entry.schedule)] for entry in job.next]
    if record.job.after is not None:
        tails.append(["-", str(record.job.after)])
    tails = tails or [["-", "none: runs when it is submitted"]]
    return [[*(head if not index else [""] * len(head)), *tail] for index, tail in enumerate(tails)]


def _when(entry: Next, now: Micros) -> str:
    if entry.at is None:
        return entry.note
    return f"{moment(entry.at, now)}, {relative(entry.at, now)}"


def _last(run: RunRecord | None, now: Micros) -> str:
    if run is None:
        return "-"
    return f"{run.state} {relative(run.ended_at, now)}" if run.ended_at is not None else str(run.state)


def _job_as_json(job: Shown) -> dict[str, Any]:
    record = job.record
    return {
        "job": record.job.name,
        "namespace": record.job.namespace,
        "owner": record.job.owner,
        "state": str(record.state),
        "revision": record.revision,
        "task": task_in_words(record.job),
        "schedules": [
            {
                "id": entry.id,
                "reading": describe(entry.schedule),
                "definition": to_json(entry.schedule),
                "next_at": optional_iso(entry.at),
            }
            for entry in job.next
        ],
        "after": _after_as_json(record.job.after),
        "last_run": None if job.last is None else run_fields(job.last),
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
    }


def _after_as_json(after: After | None) -> dict[str, Any] | None:
    return None if after is None else {"jobs": list(after.parents), "any": after.any, "on": after.on}


# ── pause ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Why; it is kept with the job.")
@click.option(
    "--until", metavar="WHEN", help="Resume it then by itself: +2h, 'tomorrow 03:00', 'monday 03:00', 2026-12-24."
)
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def pause(
    job: str, reason: str, until: str | None, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Plan and start nothing more of JOB until it is resumed. What runs goes on; what was submitted, or is to be tried
    again, is held. Paused again, it only changes the reason and the end.

    \b
    Examples:
      onthedot pause nightly_report --reason "the database moves"
      onthedot pause nightly_report --until +2h
      onthedot pause nightly_report --until 'monday 03:00'
      onthedot pause nightly_report --until 2026-01-01T09:00+01:00
    """
    until_then = None if until is None else read_ahead(until, "--until")
    end = None if until_then is None else to_micros(until_then)
    paused = call(
        store_url(store, db), lambda verbs: verbs.pause(job, reason=reason, until=until_then), namespace=namespace
    )
    if as_json:
        told = {
            "job": job, "namespace": namespace, "state": str(paused.record.state), "reason": reason,
            "until": optional_iso(end), "withdrawn": paused.withdrawn, "skipped": paused.skipped, "held": paused.held,
        }  # fmt: skip
        click.echo(json.dumps(told, indent=2))
        return
    ends = "" if end is None else f" until {reader_time(end, exact=False)}"
    what = f"{count(paused.held, 'run')} held, {count(paused.skipped, 'slot')} skipped"
    if paused.withdrawn:
        what = f"{count(paused.withdrawn, 'planned run')} withdrawn, {what}"
    click.echo(f"job {plain(job)} is paused{ends}: {what}")


# ── resume ───────────────────────────────────────────────────────────────────────────────────────────────────────


Missed = Literal["none", "last", "all"]


@click.command(cls=Command)
@click.argument("job")
@click.option(
    "--missed", type=click.Choice(["none", "last", "all"]), default="none", show_default=True,
    help="Which of the slots that came during the pause still run.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only tell what it would do.")
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def resume(
    job: str, missed: Missed, dry_run: bool, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Let JOB go on. It lists what becomes of the slots of the pause and of the next moments; runs that were held are
    free. A job that is not paused is left alone.

    \b
    Examples:
      onthedot resume nightly_report
      onthedot resume nightly_report --missed last --dry-run
    """
    url = store_url(store, db)
    was_paused, resumed = call(url, lambda verbs: _resume(verbs, job, missed, dry_run), namespace=namespace)
    if as_json:
        told = {"job": job, "namespace": namespace, "dry_run": dry_run, "was_paused": was_paused}
        click.echo(json.dumps(told | _resumed_as_json(resumed), indent=2))
    else:
        click.echo("\n".join(_resumed_lines(job, was_paused, dry_run, resumed)))


async def _resume(verbs: Verbs, job: str, missed: Missed, dry_run: bool) -> tuple[bool, Resumed]:
    record = await verbs.get_job(job)
    resumed = await verbs.resume(job, missed=missed, dry_run=dry_run)
    return record is not None and record.state is JobState.PAUSED, resumed


def _resumed_lines(job: str, was_paused: bool, dry_run: bool, resumed: Resumed) -> list[str]:
    if not was_paused:
        return [f"job {plain(job)} is not paused"]
    free = f"{count(resumed.released, 'held run')} free"
    return [
        f"job {plain(job)} {'would go on' if dry_run else 'goes on'}: {free}",
        *(
            f"  skipped: {count(skip.count, 'slot')} {reader_span(skip.first, skip.last)}: {plain(skip.reason)}"
            for skip in resumed.skips
        ),
        *(f"  runs: the slot at {reader_time(slot)}" for slot in resumed.slots),
    ]


def _resumed_as_json(resumed: Resumed) -> dict[str, Any]:
    return {
        "slots": [iso(slot) for slot in resumed.slots],
        "skips": [
            {"first": iso(skip.first), "last": iso(skip.last), "count": skip.count, "reason": skip.reason}
            for skip in resumed.skips
        ],
        "released": resumed.released,
    }


# ── trigger ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
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
def trigger(
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
    texts = _pairs("--arg", pairs)
    values = {name: _read_json(name, text) for name, text in _pairs("--arg-json", json_pairs).items()}
    twice = texts.keys() & values.keys()
    if twice:
        raise BadInput(f"--arg: expected {min(twice)!r} once, got it twice; leave one out")
    url = store_url(store, db)
    record, run = call(url, lambda verbs: _trigger(verbs, job, texts, values), namespace=namespace)
    if as_json and not follow:
        click.echo(json.dumps(run_fields(run), indent=2))
    else:
        held = "; the job is paused, and the run waits until it is resumed" if record.state is JobState.PAUSED else ""
        click.echo(f"run {run.id} of {plain(run.job)} is stored{held}", err=follow)
    if follow:
        click.get_current_context().exit(_follow(url, run.id, as_json=as_json))


def _follow(url: str, run_id: int, *, as_json: bool) -> int:
    """Print what the run says until it ends. Return the exit code."""
    from onthedot.cli.log_printer import LogPrinter
    from onthedot.cli.logs import tell_run

    code = tell_run(url, run_id, LogPrinter(attempt=None, step=None, as_json=as_json), follow=True)
    if code == CUT_SHORT:
        click.echo(on_this_store(f"run {run_id} goes on; 'onthedot logs {run_id} -f' follows it"), err=True)
    elif as_json:
        ended = call(url, lambda verbs: verbs.get_run(run_id))
        if ended is not None:  # None: deleted meanwhile, after its retention
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


def _read_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(
            f"--arg-json: expected JSON for {name!r}, got {text[:80]!r}; text needs quotes of its own"
        ) from None


async def _trigger(
    verbs: Verbs, job: str, texts: dict[str, str], values: dict[str, Any]
) -> tuple[JobRecord, RunRecord]:
    args = {**await _read_args(verbs, job, texts), **values} if texts or values else None
    run = await verbs.get_run(await verbs.trigger(job, args))
    record = await verbs.get_job(job)
    if run is None or record is None:
        raise BadInput(f"job {job!r} was deleted meanwhile")
    return record, run


async def _read_args(verbs: Verbs, job: str, texts: dict[str, str]) -> dict[str, Any]:
    """Read each text as the job's parameter of that name declares it; without one, as JSON or else as text."""
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
