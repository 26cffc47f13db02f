"""`onthedot create | edit | rm`: stores, changes and removes jobs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.connect import call, query
from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server
from onthedot.define.job_reader import read_file, read_job, read_jobs
from onthedot.define.job_writer import written
from onthedot.define.yaml_text import WrongText, yaml_text
from onthedot.model.errors import DefinitionError, RevisionConflict
from onthedot.model.job import Job, JobRecord
from onthedot.observe.formats import count, plain
from onthedot.stores.values import PutJob

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


# ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("name", metavar="NAME|FILE")
@click.option("--run", metavar="TEXT", help="The command that it runs, by the shell.")
@click.option("--call", metavar="NAME", help="The handler that it calls.")
@click.option("--schedule", metavar="TEXT", help="When: '0 9 * * *', 'every 10m', '@daily', …")
@click.option("--tz", metavar="ZONE", help="The zone of a cron schedule.  [default: UTC]")
@click.option("--set", "pairs", metavar="NAME=VALUE", multiple=True, help="Any other option, as a file says it.")
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
    """Store the new job NAME, or those of a YAML FILE. One that is there already, with another definition, is refused:
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
    _tell(done, as_json=as_json)


def _of_file(name: str) -> list[Job]:
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


def _tell(done: list[PutJob], *, as_json: bool) -> None:
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
    """Change JOB: in your $EDITOR, as YAML, or with --set. What somebody else has changed meanwhile is not lost: then
    nothing is written, and you are told.

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


def _refuse(job: str) -> JobRecord:
    raise BadInput(f"JOB: expected a stored job, got {job!r}; 'onthedot jobs' lists them")


def _check_same(record: JobRecord, new: Job) -> None:
    """Refuse another name or namespace: they identify the job."""
    old = record.job
    if (new.name, new.namespace) != (old.name, old.namespace):
        raise BadInput(
            f"JOB: expected the name and namespace that it has, got {new.namespace}/{new.name}; "
            "create another job instead"
        )


def _edited(data: dict[str, Any]) -> Job:
    """Let the user edit the job as YAML. After a mistake the editor opens again."""
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
    """End JOB: its waiting runs are cancelled, running ones end and are not tried again. Its history stays for as long
    as it is kept.

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
    """Job data with these options, `NAME=VALUE`. Dots lead to nested options; an empty value removes the option.

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
    """Read a value as JSON; if it is none, it is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def job_of(data: dict[str, Any]) -> Job:
    """The job of this data. `BadInput` lists every problem."""
    try:
        return read_job(data)
    except WrongText as error:
        raise BadInput(str(error)) from error


def data_of(job: Job) -> dict[str, Any]:
    """A stored job as data that can be changed. `BadInput` if a file cannot express the job."""
    data = dict(written(job))
    try:
        same = read_job(data, stored=True) == job
    except WrongText:
        same = False
    if not same:
        raise BadInput(f"JOB: expected one that a file can say, got {job.name!r}; change it in the program it is from")
    return data
