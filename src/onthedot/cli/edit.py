"""`onthedot edit`: change a stored job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.model.job import Job, JobRecord


@click.command(cls=Command, short_help="Change a stored job, in an editor or with --set.")
@click.argument("job")
@click.option("--set", "pairs", metavar="NAME=VALUE", multiple=True, help="An option as a file says it; without a "
              "value, it is taken out. May be given several times.")  # fmt: skip
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def command(job: str, pairs: tuple[str, ...], namespace: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Change JOB: in your $EDITOR, as YAML, or with --set. What somebody else has changed meanwhile is not lost: then
    nothing is written, and you are told.

    \b
    Examples:
      onthedot edit nightly_report
      onthedot edit nightly_report --set timeout=30m --set retry.attempts=5
      onthedot edit nightly_report --set priority=
    """
    from onthedot.cli.asking import ask, look
    from onthedot.cli.written_jobs import changed, data_of, job_of
    from onthedot.observe.formats import plain

    url = store_url(store, db)
    record = look(url, lambda verbs: verbs.get_job(job), namespace=namespace) or _refuse(job)
    data = data_of(record.job)
    new = job_of(changed(data, pairs)) if pairs else _edited(data)
    _check_same(record, new)
    put = ask(url, lambda verbs: verbs.put(new, revision=record.revision), namespace=namespace)
    if as_json:
        told = {"job": job, "namespace": namespace, "change": put.change, "revision": put.record.revision}
        click.echo(json.dumps(told, indent=2))
    elif put.change == "unchanged" and put.record.state == record.state:
        click.echo(f"job {plain(job)} is as it was")
    elif put.change == "unchanged":  # it says 'paused', and nothing else is another
        click.echo(f"job {plain(job)} is {put.record.state}")
    else:
        click.echo(f"job {plain(job)} is changed: revision {put.record.revision}")


def _refuse(job: str) -> JobRecord:
    raise BadInput(f"JOB: expected a stored job, got {job!r}; 'onthedot jobs' lists them")


def _check_same(record: JobRecord, new: Job) -> None:
    """A job keeps its name and its namespace: that is what others know it by."""
    old = record.job
    if (new.name, new.namespace) != (old.name, old.namespace):
        raise BadInput(
            f"JOB: expected the name and namespace that it has, got {new.namespace}/{new.name}; "
            "create another job instead"
        )


def _edited(data: dict[str, Any]) -> Job:
    """What somebody has made of it. A mistake is told, and can be mended."""
    from onthedot.define.job_reader import read_jobs
    from onthedot.define.yaml_text import yaml_text
    from onthedot.model.errors import DefinitionError

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
