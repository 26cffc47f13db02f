"""`onthedot jobs | create | edit | rm | pause | resume`: lists the stored jobs, and changes one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from onthedot.cli.connect import call, call_server, has_living_node, query, read_store
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import read_ahead, store_url, with_debug, with_json, with_namespace, with_server, with_utc
from onthedot.cli.terminal import (
    NOBODY_LIVES,
    echo_more,
    echo_table,
    in_words,
    in_zone,
    moment,
    reader_span,
    reader_time,
    relative,
    task_in_words,
)
from onthedot.clock import Micros, SystemClock, to_micros
from onthedot.model.addresses import is_server
from onthedot.model.errors import DefinitionError, RevisionConflict
from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.run import RunRecord
from onthedot.model.task import Call
from onthedot.observe.formats import count, iso, optional_iso, plain
from onthedot.observe.json_fields import run_fields
from onthedot.operations.next_slots import Next, Shown, shown
from onthedot.schedules import describe, to_json
from onthedot.stores.protocol import Store
from onthedot.stores.queries import JobFilter, all_jobs
from onthedot.stores.values import PutJob, Resumed

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

    It only reads. A running node is not disturbed.

    \b
    Examples:
      onthedot jobs
      onthedot jobs --limit 5000
      onthedot jobs --db /var/lib/shop/onthedot.db --json
    """
    now, most = SystemClock().now(), limit or (None if as_json else MOST)
    found, is_alive = jobs_shown(store_url(store, db), now, None if most is None else most + 1, namespace)
    jobs = found[:most]
    if as_json:
        click.echo(json.dumps([_job_as_json(job) for job in jobs], indent=2))
    elif jobs:
        _echo_jobs(jobs, now)
        if not is_alive and any(entry.at is not None for job in jobs for entry in job.next):
            click.echo(NOBODY_LIVES)
    else:
        click.echo("no jobs are stored")
    if len(jobs) < len(found):
        echo_more(len(jobs), "job", "--limit sets how many", as_json=as_json)


class ListedJobs(NamedTuple):
    """Jobs with their next starts and last runs, and whether a node lives."""

    jobs: list[Shown]
    is_alive: bool = True


def jobs_shown(url: str, now: Micros, most: int | None, namespace: str | None = None) -> ListedJobs:
    """The jobs of a store or a server, at most so many (None: all)."""
    wanted = JobFilter(namespaces=None if namespace is None else (namespace,))

    async def read(store: Store) -> ListedJobs:
        records = await all_jobs(store.queries, wanted, most)
        return ListedJobs([await shown(store, one, now) for one in records], await has_living_node(store, now))

    async def asked(client: Client) -> ListedJobs:
        from onthedot.client import views

        return ListedJobs(await views.jobs_shown(client.server, limit=most, namespace=namespace))

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
    "--until", metavar="WHEN", help="Resume it at this time: +2h, 'tomorrow 03:00', 'monday 03:00', 2026-12-24."
)
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def pause(
    job: str, reason: str, until: str | None, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Pause JOB: nothing more of it is planned or started until it is resumed. Running attempts continue. Submitted
    runs and retries are held. If JOB is paused already, this changes the reason and the end of the pause.

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
    help="Which slots of the pause still run.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what it would do, and change nothing.")
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def resume(
    job: str, missed: Missed, dry_run: bool, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Resume JOB. It lists what happens to the slots of the pause and to the next slots. Held runs are released. A job
    that is not paused does not change.

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


# ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("name", metavar="NAME|FILE")
@click.option("--run", metavar="TEXT", help="The shell command that it runs.")
@click.option("--call", metavar="NAME", help="The handler that it calls.")
@click.option("--schedule", metavar="TEXT", help="When it runs: '0 9 * * *', 'every 10m', '@daily', …")
@click.option("--tz", metavar="ZONE", help="The zone of a cron schedule.  [default: UTC]")
@click.option("--set", "pairs", metavar="NAME=VALUE", multiple=True, help="Any other option of a job file.")
@with_namespace
@with_server
@with_json("a JSON array with one object per job")
@with_debug
def create(
    name: str,
    pairs: tuple[str, ...],
    namespace: str,
    store: str | None,
    db: str | None,
    as_json: bool,
    **said: str | None,
) -> None:
    """Store the new job NAME, or the jobs of a YAML FILE. A job that is stored with another definition is refused:
    'onthedot edit' and 'onthedot apply' change jobs.

    \b
    Examples:
      onthedot create backup --run 'pg_dump shop > shop.sql' --schedule '30 2 * * *' --tz Europe/Berlin
      onthedot create report --call report --set args.region=eu --set retry.attempts=3
      onthedot create jobs.yaml --store http://127.0.0.1:7411
    """
    if name.endswith((".yaml", ".yml")):
        given = [f"--{option}" for option, value in {**said, "set": pairs}.items() if value]
        if given:
            raise click.UsageError(f"expected a file or options, got both; leave out {', '.join(given)}")
        jobs = _of_file(name)
    else:
        jobs = [_of_options(name, namespace, pairs, **said)]
    done = call(store_url(store, db), lambda verbs: _create(verbs, jobs), namespace=namespace, makes=True)
    _echo_created(done, as_json=as_json)


def _of_file(name: str) -> list[Job]:
    from onthedot.define.job_reader import read_file

    return read_file(Path(name))


def _of_options(
    name: str,
    namespace: str,
    pairs: tuple[str, ...],
    run: str | None,
    call: str | None,
    schedule: str | None,
    tz: str | None,
) -> Job:
    if tz is not None and schedule is None:
        raise click.UsageError("--tz: expected a --schedule that is in this zone, got none")
    data: dict[str, Any] = {"name": name, "namespace": namespace, "run": run, "call": call}
    data["schedule"] = schedule if tz is None else {"cron": schedule, "tz": tz}
    return job_of(changed({option: value for option, value in data.items() if value is not None}, pairs))


async def _create(verbs: Verbs, jobs: list[Job]) -> list[PutJob]:
    done = []
    for job in jobs:
        try:
            done.append(await verbs.put(job, revision=0))
        except RevisionConflict:
            stored = f"; stored before that: {', '.join(put.record.job.name for put in done)}" if done else ""
            told = f"NAME: expected a new one, got {job.name!r}, which is there already"
            raise BadInput(f"{told}; see 'onthedot edit {job.name}'{stored}") from None
    return done


def _echo_created(done: list[PutJob], *, as_json: bool) -> None:
    if as_json:
        told = [
            {"job": put.record.job.name, "namespace": put.record.job.namespace, "change": put.change,
             "revision": put.record.revision}
            for put in done
        ]  # fmt: skip
        click.echo(json.dumps(told, indent=2))
        return
    for put in done:
        words = "is stored" if put.change == "created" else "is there already, as it should be"
        click.echo(f"job {plain(put.record.job.name)} {words}")


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("job")
@click.option("--set", "pairs", metavar="NAME=VALUE", multiple=True, help="An option as a file says it; without a "
              "value, it is taken out. May be given several times.")  # fmt: skip
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def edit(job: str, pairs: tuple[str, ...], namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Change JOB in your $EDITOR as YAML, or with --set. If somebody else has changed it meanwhile, nothing is written.

    \b
    Examples:
      onthedot edit nightly_report
      onthedot edit nightly_report --set timeout=30m --set retry.attempts=5
      onthedot edit nightly_report --set priority=
    """
    url = store_url(store, db)
    record = query(url, lambda verbs: verbs.get_job(job), namespace=namespace) or _refuse(job)
    data = data_of(record.job)
    new = job_of(changed(data, pairs)) if pairs else _edited(data)
    _check_same(record, new)
    put = call(url, lambda verbs: verbs.put(new, revision=record.revision), namespace=namespace)
    if as_json:
        told = {"job": job, "namespace": namespace, "change": put.change, "revision": put.record.revision}
        click.echo(json.dumps(told, indent=2))
    elif put.change == "unchanged" and put.record.state == record.state:
        click.echo(f"job {plain(job)} is as it was")
    elif put.change == "unchanged":  # only 'paused' has changed
        click.echo(f"job {plain(job)} is {put.record.state}")
    else:
        click.echo(f"job {plain(job)} is changed: revision {put.record.revision}")
        if isinstance(record.job.task, Call):
            click.echo(_DEFINED_ELSEWHERE, err=True)


_DEFINED_ELSEWHERE = (
    "its handler is in a program: if the program defines the job, too, its next start undoes this; "
    "change it there as well"
)


def _refuse(job: str) -> JobRecord:
    raise BadInput(f"JOB: expected a stored job, got {job!r}; 'onthedot jobs' lists them")


def _check_same(record: JobRecord, new: Job) -> None:
    """Refuse a changed name or namespace: they identify the job."""
    old = record.job
    if (new.name, new.namespace) != (old.name, old.namespace):
        raise BadInput(
            f"JOB: expected the name and namespace that it has, got {new.namespace}/{new.name}; "
            "create another job instead"
        )


def _edited(data: dict[str, Any]) -> Job:
    """Let the user edit the job as YAML. After a mistake the editor opens again."""
    from onthedot.define.job_reader import read_jobs
    from onthedot.define.yaml_text import yaml_text

    text = yaml_text({"jobs": [data]})
    while True:
        edited = click.edit(text, extension=".yaml", require_save=False)
        if edited is None:
            raise BadInput("expected an editor that can be started; set EDITOR, or use --set")
        text = edited
        try:
            jobs = read_jobs(text, file="job.yaml")
            if len(jobs) == 1:
                return jobs[0]
            problem = f"expected one job, got {len(jobs)}"
        except DefinitionError as error:
            problem = str(error)
        click.echo(problem, err=True)
        if not click.confirm("Edit again?", default=True, err=True):
            raise BadInput("nothing is changed")


# ── rm ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("job")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def rm(job: str, yes: bool, namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Delete JOB. Its waiting runs are cancelled. Running attempts end, and are not retried. Its history stays until
    its retention ends.

    \b
    Examples:
      onthedot rm nightly_report
      onthedot rm nightly_report --yes --json
    """
    if not (yes or as_json) and sys.stdin.isatty():
        click.confirm(f"End job {plain(job)}?", abort=True)

    async def remove(verbs: Verbs) -> int:
        return await verbs.remove(job)

    cancelled = call(store_url(store, db), remove, namespace=namespace)
    if as_json:
        click.echo(json.dumps({"job": job, "namespace": namespace, "cancelled": cancelled}, indent=2))
    else:
        click.echo(f"job {plain(job)} is gone, and {count(cancelled, 'waiting run')} with it")


# ── the data of a job ────────────────────────────────────────────────────────────────────────────────────────────


def changed(data: dict[str, Any], pairs: tuple[str, ...]) -> dict[str, Any]:
    """Job data with these options, `NAME=VALUE`. Dots name nested options; an empty value removes the option.

    >>> changed({"name": "a", "timeout": "5m"}, ("retry.attempts=3", "timeout="))
    {'name': 'a', 'retry': {'attempts': 3}}
    """
    made: dict[str, Any] = json.loads(json.dumps(data))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.split(".")):
            raise BadInput(f"--set: expected NAME=VALUE like 'timeout=5m', got {pair!r}")
        *outer, last = name.split(".")
        place = made
        for step in outer:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                raise BadInput(f"--set: expected {step!r} to have options of its own, got {pair!r}; set it as a whole")
            place = inner
        if text:
            place[last] = _value(text)
        else:
            place.pop(last, None)
    return made


def _value(text: str) -> Any:
    """Read a value as JSON. A value that is not JSON is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def job_of(data: dict[str, Any]) -> Job:
    """Return the job of this data. Raise `BadInput`, which lists every problem."""
    from onthedot.define.job_reader import read_job

    try:
        return read_job(data)
    except DefinitionError as error:
        raise BadInput(str(error)) from error


def data_of(job: Job) -> dict[str, Any]:
    """Return a stored job as data that can be changed. Raise `BadInput` if a file cannot express the job."""
    from onthedot.define.job_reader import read_job
    from onthedot.define.job_writer import written

    data = dict(written(job))
    try:
        same = read_job(data, stored=True) == job
    except DefinitionError:
        same = False
    if not same:
        raise BadInput(f"JOB: expected one that a file can say, got {job.name!r}; change it in the program it is from")
    return data
