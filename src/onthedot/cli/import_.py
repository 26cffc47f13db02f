"""`onthedot import`: crontabs, systemd timers, Kubernetes CronJobs and tables become jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.check import read_input
from onthedot.cli.errors import BAD_INPUT, BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onthedot.define.importers.import_result import ImportResult
    from onthedot.define.wrong_text import Told
    from onthedot.model.job import Job
    from onthedot.operations.verbs import Verbs

FORMATS = ("csv", "crontab", "systemd", "kubernetes")
LEFT_OUT = 3
"""The exit code if there are jobs, and a job or a start was left out, or a job needs a change before it can run."""
_UTC = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu", "GMT", "Etc/GMT"})


@click.command(cls=Command, short_help="Make jobs of crontabs, timers, CronJobs or tables.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--from", "form", type=click.Choice(FORMATS), help="What the files are.  [default: as they look]")
@click.option("--tz", metavar="ZONE",
              help="Zone of times that name none.  [default: this machine's; UTC for csv and kubernetes]")  # fmt: skip
@click.option(
    "--system/--user", "system", default=None, help="Whether a crontab's lines name a user.  [default: as it looks]"
)
@click.option("--apply", is_flag=True, help="Store the jobs, in place of writing a file.")
@with_store
@with_json("one JSON object, with the jobs and the remarks")
@with_debug
def command(
    files: tuple[str, ...],
    form: str | None,
    tz: str | None,
    system: bool | None,
    apply: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Write the jobs of FILE as YAML, and on standard error a remark for everything that is not the same here, with its
    line. '-' is standard input; of a folder, its timers (or with --from, its files of that kind) are read.

    Look at what it writes before you store it: 'onthedot check' reads it, 'onthedot lint' reports what is odd,
    'onthedot plan' shows what starts when. A systemd timer is read with the service of its name beside it. A job is
    named after the program that it starts; import the same files again, and it has the same name.

    The exit code is 0 if all jobs and starts are there, 3 if some were left out (such as @reboot) or if a job needs a
    change before it can run (such as a variable that is not in the file), 2 if there is no job.

    \b
    Examples:
      onthedot import /etc/crontab --from crontab --tz Europe/Berlin > jobs.yaml
      crontab -l | onthedot import - --from crontab > jobs.yaml
      onthedot import my.crontab
      onthedot import /etc/systemd/system/backup.timer
      onthedot import --from systemd /etc/systemd/system
      onthedot import cronjobs.yaml --from kubernetes --apply --db onthedot.db
      onthedot import jobs.csv --from csv
    """
    from onthedot.define.importers.file_kinds import WORDS
    from onthedot.define.importers.import_result import name_apart
    from onthedot.define.job_writer import Exported, written, yaml_file
    from onthedot.model.job import job_name
    from onthedot.schedules.zones import zone

    texts = _texts(files, form)
    known = _form(texts, form)
    where = tz or (machine_zone() if known in ("crontab", "systemd") else "UTC")
    zone(where)
    found = _read(texts, known, where, system)
    if form is None and found:
        found[0].remark(None, f"read as {WORDS[known]}; --from reads it as something else")
    name_apart(found)
    jobs = [job for one in found for job in one.jobs]
    if tz is None:
        _remark_zone(found, known, where)
    stored = _store(jobs, store_url(store, db)) if apply else {}
    if as_json:
        _echo_json(found, jobs, stored)
    elif apply:
        for name, change in stored.items():
            click.echo(f"{name}: {change}")
    else:
        notes = {name: lines for one in found for name, lines in one.notes.items()}
        lines = [Exported(job.name, written(job), notes.get(job_name(job), [])) for job in jobs]
        lost = [f"not imported: {told}" for one in found for told in one.lost]  # who reads the file knows it, too
        lost += [f"to complete: {told}" for one in found for told in one.incomplete]
        click.echo(yaml_file([*lines, Exported("", None, lost)]), nl=False)
    if not as_json:
        _tell(found, len(jobs))
    if not jobs or any(one.lost or one.incomplete for one in found):
        raise click.exceptions.Exit(LEFT_OUT if jobs else BAD_INPUT)


def machine_zone() -> str:
    """The zone that this machine's clocks show; UTC if it has no name that other machines know."""
    from onthedot.model.errors import ScheduleError
    from onthedot.schedules.zones import zone

    for name in _zone_names():
        try:
            return "UTC" if name in _UTC else zone(name).key
        except ScheduleError:
            continue
    return "UTC"


def _zone_names() -> Iterator[str]:
    yield os.environ.get("TZ", "").removeprefix(":")
    link = os.path.realpath("/etc/localtime")
    yield link.partition("/zoneinfo/")[2].removeprefix("posix/")
    try:
        yield Path("/etc/timezone").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return


def _remark_zone(found: list[ImportResult], form: str, tz: str) -> None:
    whose = "of this machine" if form in ("crontab", "systemd") else "of most clusters"
    first = next((one for one in found if one.zone_assumed), None)
    if first is not None:
        first.remark(None, f"times without a zone are read in {tz}, the zone {whose}; --tz sets another")


def _echo_json(found: list[ImportResult], jobs: list[Job], stored: dict[str, str]) -> None:
    from onthedot.define.job_writer import written

    remarks: list[dict[str, Any]] = [
        {
            "file": told.file,
            "line": told.at.line if told.at else None,
            "text": told.problem,
            "left_out": told in one.lost,
            "incomplete": told in one.incomplete,
        }
        for one in found
        for told in one.remarks
    ]
    data = {"jobs": [written(job) for job in jobs], "remarks": remarks, **({"stored": stored} if stored else {})}
    click.echo(json.dumps(data, indent=2))


def _read(texts: dict[str, str], form: str, tz: str, system: bool | None) -> list[ImportResult]:
    from onthedot.define.importers.crontab import read_crontab
    from onthedot.define.importers.kubernetes import read_cron_jobs
    from onthedot.define.importers.systemd import read_timers
    from onthedot.define.importers.tables import read_table

    if form == "systemd":
        return read_timers(_with_services(texts), tz=tz)
    if form == "crontab":
        return [read_crontab(text, file, tz=tz, system=system) for file, text in texts.items()]
    reader = read_table if form == "csv" else read_cron_jobs
    return [reader(text, file, tz=tz) for file, text in texts.items()]


def _texts(files: tuple[str, ...], form: str | None) -> dict[str, str]:
    """The files by name; of a folder, those that are of this form."""
    return {
        "standard input" if file == "-" else file: read_input(file)
        for given in files
        for file in (_inside(Path(given), form) if Path(given).is_dir() else [given])
    }


def _inside(folder: Path, form: str | None) -> list[str]:
    from onthedot.define.importers.file_kinds import PATTERNS, by_name

    forms = [one for one in PATTERNS if one == (form or by_name(str(folder)))] or [
        one for one in ("systemd", "kubernetes", "csv") if form is None and any(_files(folder, PATTERNS[one]))
    ]
    found = _files(folder, PATTERNS[forms[0]]) if forms else []
    if not found:
        wanted = " or ".join(PATTERNS[forms[0]]) if forms else "timers (*.timer), YAML or tables"
        raise BadInput(f"{folder}: expected a folder with {wanted}, found none; name the files")
    return found


def _files(folder: Path, patterns: tuple[str, ...]) -> list[str]:
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return [str(path) for path in found if path.is_file() and not path.name.startswith(".")]


def _form(texts: dict[str, str], form: str | None) -> str:
    """What the files are: as it is said, or as they look. `BadInput` if they look otherwise."""
    from onthedot.define.importers.file_kinds import WORDS, by_name, look

    forms: dict[str, str] = {}
    for file, text in texts.items():
        seen = look(text)
        if seen == "jobs":
            raise BadInput(f"{file}: this is {WORDS[seen]}; 'onthedot check FILE' and 'onthedot apply FILE' read it")
        if seen == "yaml":
            seen = "kubernetes"
        if form is not None and seen and seen != form:
            raise BadInput(f"{file}: expected {WORDS[form]}, but this looks like {WORDS[seen]}: --from {seen}")
        guess = form or seen or by_name(file)
        if guess is None:
            raise BadInput(f"{file}: it does not look like {', '.join(FORMATS)}; say what it is with --from")
        forms[guess] = file
    if len(forms) > 1:
        mixed = ", ".join(f"{file} is {WORDS[one]}" for one, file in forms.items())
        raise BadInput(f"expected files of one kind, got several: {mixed}; import them one by one")
    return next(iter(forms))


def _with_services(units: dict[str, str]) -> dict[str, str]:
    """The files, and beside each timer the service that it names."""
    from onthedot.define.importers.systemd import entries

    for file, text in list(units.items()):
        if file.endswith(".timer"):
            named = [entry.value for entry in entries(text) if entry.key == "Unit"]
            service = Path(file).parent / (Path(named[-1]).name if named else f"{Path(file).stem}.service")
            if service.is_file():
                units.setdefault(str(service), read_input(str(service)))
    return units


def _tell(found: list[ImportResult], jobs: int) -> None:
    from onthedot.observe.formats import count, plain

    remarks = sorted((told for one in found for told in one.remarks), key=_by_line)
    for told in remarks:
        click.echo("\n".join(plain(line, most=2_000) for line in str(told).split("\n")), err=True)
    lost = sum(len(one.lost) for one in found)
    said = [count(jobs, "job"), count(len(remarks), "remark"), f"{lost} left out"]
    incomplete = sum(len(one.incomplete) for one in found)
    click.echo(", ".join([*said, *([f"{incomplete} to complete"] if incomplete else [])]), err=True)


def _by_line(told: Told) -> tuple[str, int]:
    return (told.file, told.at.line if told.at else 0)


def _store(jobs: list[Job], url: str) -> dict[str, str]:
    """Store them; what that changed, by name."""
    from onthedot.cli.asking import ask
    from onthedot.cli.reading import check_exists
    from onthedot.define.check import parents_first

    check_exists(url)

    async def work(verbs: Verbs) -> dict[str, str]:
        return {job.name: (await verbs.put(job)).change for job in parents_first(jobs)}

    return ask(url, work)
