"""`onthedot create`: store a new job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.model.job import Job
    from onthedot.operations.verbs import Verbs
    from onthedot.stores.values import PutJob


@click.command(cls=Command, short_help="Store a new job.")
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
def command(
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
    from onthedot.cli.asking import ask

    if name.endswith((".yaml", ".yml")):
        given = [f"--{option}" for option, value in {**said, "set": pairs}.items() if value]
        if given:
            raise click.UsageError(f"expected a file or options, got both; leave out {', '.join(given)}")
        jobs = _of_file(name)
    else:
        jobs = [_of_options(name, namespace, pairs, **said)]
    done = ask(store_url(store, db), lambda verbs: _create(verbs, jobs), namespace=namespace, makes=True)
    _tell(done, as_json=as_json)


def _of_file(name: str) -> list[Job]:
    from pathlib import Path

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
    from onthedot.cli.written_jobs import changed, job_of

    if tz is not None and schedule is None:
        raise click.UsageError("--tz: expected a --schedule that is in this zone, got none")
    data: dict[str, Any] = {"name": name, "namespace": namespace, "run": run, "call": call}
    data["schedule"] = schedule if tz is None else {"cron": schedule, "tz": tz}
    return job_of(changed({option: value for option, value in data.items() if value is not None}, pairs))


async def _create(verbs: Verbs, jobs: list[Job]) -> list[PutJob]:
    from onthedot.model.errors import RevisionConflict

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
    from onthedot.observe.formats import plain

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
