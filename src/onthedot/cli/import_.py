"""`onthedot import`: crontabs, systemd timers, Kubernetes CronJobs and tables become jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onthedot.cli.check import read_input
from onthedot.cli.errors import BAD_INPUT, Command
from onthedot.cli.options import store_url, with_debug, with_store

if TYPE_CHECKING:
    from onthedot.define.importing.imported import Imported
    from onthedot.job import Job
    from onthedot.verbs import Verbs

FORMATS = ("csv", "crontab", "systemd", "kubernetes")


@click.command(cls=Command, short_help="Make jobs of crontabs, timers, CronJobs or tables.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--from", "form", type=click.Choice(FORMATS), required=True, help="What the files are.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="The zone of times that name none.")
@click.option(
    "--system/--user", "system", default=None, help="Whether a crontab's lines name a user.  [default: as it looks]"
)
@click.option("--apply", is_flag=True, help="Store the jobs, in place of writing a file.")
@with_store
@with_debug
def command(
    files: tuple[str, ...], form: str, tz: str, system: bool | None, apply: bool, store: str | None, db: str | None
) -> None:
    """Write the jobs of FILE as YAML, and tell on standard error, line by line, what could not be mapped.

    Look at what it writes before you store it: 'onthedot check' reads it, 'onthedot lint' tells what is odd. A systemd
    timer is read with the service of its name beside it. The exit code is 2 if no job was found. '-' is standard input.

    \b
    Examples:
      onthedot import /etc/crontab --from crontab --tz Europe/Berlin > jobs.yaml
      crontab -l | onthedot import - --from crontab
      onthedot import /etc/systemd/system/backup.timer --from systemd
      onthedot import cronjobs.yaml --from kubernetes --apply --db onthedot.db
      onthedot import jobs.csv --from csv
    """
    from onthedot.define.exporting import Exported, yaml_file
    from onthedot.define.written import written
    from onthedot.schedules.zones import zone

    zone(tz)
    found = _read(files, form, tz, system)
    jobs = _once_each(found)
    if apply:
        _store(jobs, store_url(store, db))
    else:
        click.echo(yaml_file(Exported(job.name, written(job), []) for job in jobs), nl=False)
    _tell(found, len(jobs))
    if not jobs:
        raise click.exceptions.Exit(BAD_INPUT)


def _read(files: tuple[str, ...], form: str, tz: str, system: bool | None) -> list[Imported]:
    from onthedot.define.importing.crontab import read_crontab
    from onthedot.define.importing.kubernetes import read_cron_jobs
    from onthedot.define.importing.systemd import read_timers
    from onthedot.define.importing.tables import read_table

    if form == "systemd":
        return read_timers(_units(files), tz=tz)
    texts = {"standard input" if file == "-" else file: read_input(file) for file in files}
    if form == "crontab":
        return [read_crontab(text, file, tz=tz, system=system) for file, text in texts.items()]
    reader = read_table if form == "csv" else read_cron_jobs
    return [reader(text, file, tz=tz) for file, text in texts.items()]


def _units(files: tuple[str, ...]) -> dict[str, str]:
    """The files, and beside each timer the service that it names."""
    from onthedot.define.importing.systemd import entries

    units = {file: read_input(file) for file in files}
    for file, text in list(units.items()):
        if file.endswith(".timer"):
            named = [entry.value for entry in entries(text) if entry.key == "Unit"]
            service = Path(file).parent / (Path(named[-1]).name if named else f"{Path(file).stem}.service")
            if service.is_file():
                units.setdefault(str(service), read_input(str(service)))
    return units


def _once_each(found: list[Imported]) -> list[Job]:
    """All jobs; one whose name is taken by another file is told, and left out."""
    from onthedot.job import job_name

    jobs: dict[str, Job] = {}
    for one in found:
        for job in one.jobs:
            if job_name(job) in jobs:
                one.remark(None, f"job {job.name!r}: another file has one of this name; left out")
            jobs.setdefault(job_name(job), job)
    return list(jobs.values())


def _tell(found: list[Imported], jobs: int) -> None:
    from onthedot.observe.text import count, plain

    remarks = [told for one in found for told in one.remarks]
    for told in remarks:
        click.echo("\n".join(plain(line, most=2_000) for line in str(told).split("\n")), err=True)
    click.echo(f"{count(jobs, 'job')}, {count(len(remarks), 'remark')}", err=True)


def _store(jobs: list[Job], url: str) -> None:
    from onthedot.cli.asking import ask
    from onthedot.cli.reading import check_exists
    from onthedot.define.check import parents_first

    check_exists(url)

    async def work(verbs: Verbs) -> list[str]:
        return [f"{job.name}: {(await verbs.put(job)).change}" for job in parents_first(jobs)]

    for line in ask(url, work):
        click.echo(line)
