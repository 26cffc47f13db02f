"""`onthedot check | import | export`: checks files of jobs, makes them from crontabs, and writes stored jobs."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onthedot.cli.connect import call, check_exists, query
from onthedot.cli.errors import BAD_INPUT, BadInput, Command
from onthedot.cli.jobs import jobs_shown
from onthedot.cli.options import refuse_program, store_url, with_debug, with_json, with_server, with_store
from onthedot.cli.terminal import task_in_words
from onthedot.clock import SystemClock
from onthedot.define.check import missing_parents, parents_first
from onthedot.define.importers.crontab import read_crontab
from onthedot.define.importers.file_kinds import PATTERNS, WORDS, by_name
from onthedot.define.importers.file_kinds import look as guess_kind
from onthedot.define.importers.import_result import ImportResult, name_apart
from onthedot.define.importers.kubernetes import read_cron_jobs
from onthedot.define.importers.systemd import entries, read_timers
from onthedot.define.importers.tables import read_table
from onthedot.define.job_reader import read_jobs, read_text
from onthedot.define.job_writer import Exported, exported, written, yaml_file
from onthedot.define.schema import file_schema
from onthedot.define.yaml_text import Problem, WrongText
from onthedot.model.errors import DefinitionError, ScheduleError, did_you_mean
from onthedot.model.job import Job, job_name
from onthedot.observe.formats import count, iso, plain
from onthedot.operations.next_slots import Shown
from onthedot.schedules import to_text
from onthedot.schedules.zones import zone

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


# ── check ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Checked(NamedTuple):
    """A file, its jobs, and its problems."""

    file: str
    jobs: list[Job]
    told: list[Problem]
    warnings: list[str]


@click.command(cls=Command)
@click.argument("files", nargs=-1, metavar="FILE…")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of job files, and check nothing.")
@with_json("one JSON object")
@with_debug
def check(files: tuple[str, ...], schema: bool, as_json: bool) -> None:
    """Check files of jobs (YAML or JSON): report every problem with its line and column. Nothing is stored.

    The exit code is 0 if all files are right, else 2. '-' is standard input. A job gets a warning if it runs after a
    job that is in none of the files: that one must be stored already.

    \b
    --json writes: files [{file, jobs [names], problems [{line, column, problem}], warnings [text]}]

    \b
    Examples:
      onthedot check jobs.yaml
      onthedot check team/*.yaml --json
      onthedot check --schema > jobs.schema.json
    """
    if schema:
        click.echo(json.dumps(file_schema(), indent=2))
        return
    if not files:
        raise click.UsageError("expected the name of a file, got none; 'onthedot check jobs.yaml'")
    refuse_program("FILE", files)
    checked = check_together([check_file(file) for file in files])
    if as_json:
        click.echo(json.dumps({"files": [_checked_as_json(one) for one in checked]}, indent=2))
    else:
        _echo_checked(checked)
    if any(one.told for one in checked):
        raise click.exceptions.Exit(BAD_INPUT)


def check_file(file: str) -> Checked:
    """Read a file; return its jobs or its problems."""
    name = "standard input" if file == "-" else file
    try:
        return Checked(name, read_jobs(read_input(file), name), [], [])
    except WrongText as error:
        return Checked(name, [], list(error.told), [])


def read_input(file: str) -> str:
    """The text of a file; `-` is standard input."""
    return read_text(Path("/dev/stdin") if file == "-" else Path(file))


def check_together(checked: list[Checked]) -> list[Checked]:
    """Add problems of the files together: a job that is in two files, and jobs that run after each other in a
    circle."""
    first: dict[str, str] = {}
    for one in checked:
        for job in one.jobs:
            before = first.setdefault(job_name(job), one.file)
            if before is not one.file:
                one.told.append(
                    Problem(one.file, None, f"job {job.name!r}: expected each job once, it is in {before} already")
                )
    try:
        parents_first(job for one in checked for job in one.jobs)
    except DefinitionError as error:
        checked[-1].told.append(Problem(checked[-1].file, None, str(error)))
    if not any(one.told for one in checked):
        for one in checked:
            warned = [(job.name, missing_parents(job, first, "is in these files")) for job in one.jobs]
            one.warnings.extend(f"job {name!r}: {text}" for name, text in warned if text)
    return checked


def _echo_checked(checked: list[Checked]) -> None:
    for one in checked:
        for told in one.told:
            click.echo("\n".join(plain(line, most=2_000) for line in str(told).split("\n")), err=True)
        for warning in one.warnings:
            click.echo(plain(f"{one.file}: warning: {warning}", most=2_000), err=True)
    good = [one for one in checked if not one.told]
    for one in good:
        click.echo(f"{plain(one.file)}: {count(len(one.jobs), 'job')}, nothing is wrong")
    problems = sum(len(one.told) for one in checked)
    if problems:
        click.echo(f"{count(problems, 'problem')} in {count(len(checked) - len(good), 'file')}", err=True)


def _checked_as_json(one: Checked) -> dict[str, Any]:
    return {
        "file": one.file,
        "jobs": [job.name for job in one.jobs],
        "problems": [
            {
                "line": None if told.at is None else told.at.line,
                "column": None if told.at is None else told.at.column,
                "problem": told.problem,
            }
            for told in one.told
        ],
        "warnings": one.warnings,
    }


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────────────


FORMATS = ("csv", "crontab", "systemd", "kubernetes")
LEFT_OUT = 3
"""The exit code if a job or a start was left out, or if a job needs a change before it can run."""
_UTC = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu", "GMT", "Etc/GMT"})


@click.command(cls=Command, name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--from", "form", type=click.Choice(FORMATS), help="The format of the files.  [default: detected]")
@click.option("--tz", metavar="ZONE",
              help="Zone of times without one.  [default: this machine's; UTC for csv and kubernetes]")  # fmt: skip
@click.option(
    "--system/--user", "system", default=None, help="Whether a crontab's lines name a user.  [default: detected]"
)
@click.option("--apply", is_flag=True, help="Store the jobs instead of writing a file.")
@with_store
@with_json("one JSON object, with the jobs and the remarks")
@with_debug
def import_(
    files: tuple[str, ...],
    form: str | None,
    tz: str | None,
    system: bool | None,
    apply: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Convert FILE to jobs, and write them as YAML. On standard error it writes a remark, with its line, for everything
    that works differently here. '-' is standard input. Of a folder it reads the timers, or with --from the files of
    that format.

    Check the result before you store it: 'onthedot check' reads it, 'onthedot lint' reports what looks wrong, 'onthedot
    plan' shows the starts. A systemd timer is read with the service beside it. A job is named after the program that it
    starts. A second import of the same files gives the same names.

    The exit code is 0 if everything was converted; 3 if a job or a start was left out (such as @reboot), or if a job
    needs a change before it can run (such as a variable that is not in the file); 2 if there is no job.

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
    texts = _texts(files, form)
    known = _form(texts, form)
    where = tz or (machine_zone() if known in ("crontab", "systemd") else "UTC")
    zone(where)
    found = _read_foreign(texts, known, where, system)
    if form is None and found:
        found[0].remark(None, f"read as {WORDS[known]}; --from reads it as something else")
    name_apart(found)
    jobs = [job for one in found for job in one.jobs]
    if tz is None:
        _remark_zone(found, known, where)
    stored = _store_jobs(jobs, store_url(store, db)) if apply else {}
    if as_json:
        _echo_json(found, jobs, stored)
    elif apply:
        for name, change in stored.items():
            click.echo(f"{name}: {change}")
    else:
        notes = {name: lines for one in found for name, lines in one.notes.items()}
        lines = [Exported(job.name, written(job), notes.get(job_name(job), [])) for job in jobs]
        lost = [f"not imported: {told}" for one in found for told in one.lost]  # as comments in the file
        lost += [f"to complete: {told}" for one in found for told in one.incomplete]
        click.echo(yaml_file([*lines, Exported("", None, lost)]), nl=False)
    if not as_json:
        _tell_remarks(found, len(jobs))
    if not jobs or any(one.lost or one.incomplete for one in found):
        raise click.exceptions.Exit(LEFT_OUT if jobs else BAD_INPUT)


def machine_zone() -> str:
    """The time zone of this machine; UTC if it has no standard name."""
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


def _read_foreign(texts: dict[str, str], form: str, tz: str, system: bool | None) -> list[ImportResult]:
    if form == "systemd":
        return read_timers(_with_services(texts), tz=tz)
    if form == "crontab":
        return [read_crontab(text, file, tz=tz, system=system) for file, text in texts.items()]
    reader = read_table if form == "csv" else read_cron_jobs
    return [reader(text, file, tz=tz) for file, text in texts.items()]


def _texts(files: tuple[str, ...], form: str | None) -> dict[str, str]:
    """Return the texts of the files by name. From a folder, read only the files of this kind."""
    return {
        "standard input" if file == "-" else file: read_input(file)
        for given in files
        for file in (_inside(Path(given), form) if Path(given).is_dir() else [given])
    }


def _inside(folder: Path, form: str | None) -> list[str]:
    forms = [one for one in PATTERNS if one == (form or by_name(str(folder)))] or [
        one for one in ("systemd", "kubernetes", "csv") if form is None and any(_files_in(folder, PATTERNS[one]))
    ]
    found = _files_in(folder, PATTERNS[forms[0]]) if forms else []
    if not found:
        wanted = " or ".join(PATTERNS[forms[0]]) if forms else "timers (*.timer), YAML or tables"
        raise BadInput(f"{folder}: expected a folder with {wanted}, found none; name the files")
    return found


def _files_in(folder: Path, patterns: tuple[str, ...]) -> list[str]:
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return [str(path) for path in found if path.is_file() and not path.name.startswith(".")]


def _form(texts: dict[str, str], form: str | None) -> str:
    """Return the kind of the files, from `--from` or from their content. Raise `BadInput` if the two differ."""
    forms: dict[str, str] = {}
    for file, text in texts.items():
        seen = guess_kind(text)
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
    """Return the files, and for each timer also the service that it names."""
    for file, text in list(units.items()):
        if file.endswith(".timer"):
            named = [entry.value for entry in entries(text) if entry.key == "Unit"]
            service = Path(file).parent / (Path(named[-1]).name if named else f"{Path(file).stem}.service")
            if service.is_file():
                units.setdefault(str(service), read_input(str(service)))
    return units


def _tell_remarks(found: list[ImportResult], jobs: int) -> None:
    remarks = sorted((told for one in found for told in one.remarks), key=_by_line)
    for told in remarks:
        click.echo("\n".join(plain(line, most=2_000) for line in str(told).split("\n")), err=True)
    lost = sum(len(one.lost) for one in found)
    said = [count(jobs, "job"), count(len(remarks), "remark"), f"{lost} left out"]
    incomplete = sum(len(one.incomplete) for one in found)
    click.echo(", ".join([*said, *([f"{incomplete} to complete"] if incomplete else [])]), err=True)


def _by_line(told: Problem) -> tuple[str, int]:
    return (told.file, told.at.line if told.at else 0)


def _store_jobs(jobs: list[Job], url: str) -> dict[str, str]:
    """Store the jobs; return the change of each by name."""
    check_exists(url)

    async def work(verbs: Verbs) -> dict[str, str]:
        return {job.name: (await verbs.put(job)).change for job in parents_first(jobs)}

    return call(url, work)


# ── export ───────────────────────────────────────────────────────────────────────────────────────────────────────


COLUMNS = ("name", "namespace", "owner", "schedule", "task", "state", "next")
"""The columns of CSV."""
_MOST_CELL = 32_000  # characters; spreadsheets take 32,767


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[JOB]…")
@click.option("--format", "form", type=click.Choice(["yaml", "json", "csv"]), default="yaml", show_default=True,
              help="The format.")  # fmt: skip
@click.option("--namespace", metavar="NAME", help="Only jobs of this namespace.  [default: all]")
@with_server
@with_debug
def export(names: tuple[str, ...], form: str, namespace: str | None, store: str | None, db: str | None) -> None:
    """Write all stored jobs, or the named ones, as a file that 'onthedot check' and 'onthedot up' read.

    A paused job has the key 'paused', with its reason and its end: applied elsewhere, it is paused there, too. What a
    file cannot express (a function that decides retries) is a comment beside the job; with JSON it is printed on
    standard error. CSV is a table for people: one row for each job, with its next start. A cell that a spreadsheet
    would read as a formula starts with a '.

    \b
    Examples:
      onthedot export > jobs.yaml
      onthedot export report clean --format json
      onthedot export --format csv --namespace team
    """

    url = store_url(store, db)
    if form == "csv":
        found = jobs_shown(url, SystemClock().now(), None).jobs
    else:
        found = [Shown(record, [], None) for record in query(url, lambda verbs: verbs.list_jobs())]
    shown = _chosen(found, names, namespace)
    if form == "csv":
        click.echo(_csv(shown), nl=False)
    else:
        _echo_exported(shown, form)


def _chosen(found: list[Shown], names: tuple[str, ...], namespace: str | None) -> list[Shown]:
    some = [one for one in found if namespace in (None, one.record.job.namespace)]
    known = {one.record.job.name for one in some}
    for name in names:
        if name not in known:
            raise BadInput(f"JOB: expected the name of a stored job, got {name!r}{did_you_mean(name, known)}")
    return [one for one in some if not names or one.record.job.name in names]


def _echo_exported(shown: list[Shown], form: str) -> None:
    jobs = [exported(one.record) for one in shown]
    if form == "yaml":
        click.echo(yaml_file(jobs), nl=False)
        return
    click.echo(_safe_json({"jobs": [job.data for job in jobs if job.data is not None]}))
    for job in jobs:
        for note in job.notes:
            click.echo(plain(f"{job.name}: {note}", most=2_000), err=True)


def _safe_json(data: object) -> str:
    """Return JSON that escapes control characters, but no letters of any language."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _csv(shown: list[Shown]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows({name: _cell(value) for name, value in _row(one).items()} for one in shown)
    return text.getvalue()


def _cell(text: str) -> str:
    """Return a cell without control characters, which no spreadsheet reads as a formula."""
    shown = plain(text, most=_MOST_CELL)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def _row(one: Shown) -> dict[str, str]:
    job = one.record.job
    coming = [entry.at for entry in one.next if entry.at is not None]
    return {
        "name": job.name,
        "namespace": job.namespace,
        "owner": job.owner,
        "schedule": "; ".join(to_text(schedule) for schedule in job.schedules) or str(job.after or ""),
        "task": task_in_words(job),
        "state": str(one.record.state),
        "next": iso(min(coming)) if coming else "",
    }
