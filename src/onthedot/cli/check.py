"""`onthedot check`: whether files of jobs can be read, and everything that is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onthedot.cli.errors import BAD_INPUT, Command
from onthedot.cli.options import with_debug, with_json

if TYPE_CHECKING:
    from onthedot.define.wrong_text import Told
    from onthedot.model.job import Job


class Checked(NamedTuple):
    """A file, its jobs, and what is wrong with it."""

    file: str
    jobs: list[Job]
    told: list[Told]
    warnings: list[str]


@click.command(cls=Command, short_help="Check files of jobs: every mistake at once, with its place.")
@click.argument("files", nargs=-1, metavar="FILE…")
@click.option("--schema", is_flag=True, help="Write the JSON Schema of such files, and check nothing.")
@with_json("one JSON object")
@with_debug
def command(files: tuple[str, ...], schema: bool, as_json: bool) -> None:
    """Read files of jobs (YAML or JSON) and tell everything that is wrong with them, with line and column. Nothing is
    stored.

    The exit code is 0 if all of them can be read, and 2 if not. '-' is standard input. A job that runs after one that
    is in none of the files gets a warning: that one has to be stored already.

    \b
    --json writes: files [{file, jobs [names], problems [{line, column, problem}], warnings [text]}]

    \b
    Examples:
      onthedot check jobs.yaml
      onthedot check team/*.yaml --json
      onthedot check --schema > jobs.schema.json
    """
    if schema:
        from onthedot.define.schema import file_schema

        click.echo(json.dumps(file_schema(), indent=2))
        return
    if not files:
        raise click.UsageError("expected the name of a file, got none; 'onthedot check jobs.yaml'")
    checked = check_together([check_file(file) for file in files])
    if as_json:
        click.echo(json.dumps({"files": [_as_json(one) for one in checked]}, indent=2))
    else:
        _echo(checked)
    if any(one.told for one in checked):
        raise click.exceptions.Exit(BAD_INPUT)


def check_file(file: str) -> Checked:
    """The jobs of a file, or its problems."""
    from onthedot.define.job_reader import read_jobs
    from onthedot.define.wrong_text import WrongText

    name = "standard input" if file == "-" else file
    try:
        return Checked(name, read_jobs(read_input(file), name), [], [])
    except WrongText as error:
        return Checked(name, [], list(error.told), [])


def read_input(file: str) -> str:
    """The text of a file, or of standard input."""
    from onthedot.define.job_reader import read_text

    return read_text(Path("/dev/stdin") if file == "-" else Path(file))


def check_together(checked: list[Checked]) -> list[Checked]:
    """The same, with what is wrong between the files: a job that is there twice, jobs that run after each other."""
    from onthedot.define.check import missing_parents, parents_first
    from onthedot.define.wrong_text import Told
    from onthedot.model.errors import DefinitionError
    from onthedot.model.job import job_name

    first: dict[str, str] = {}
    for one in checked:
        for job in one.jobs:
            before = first.setdefault(job_name(job), one.file)
            if before is not one.file:
                one.told.append(
                    Told(one.file, None, f"job {job.name!r}: expected each job once, it is in {before} already")
                )
    try:
        parents_first(job for one in checked for job in one.jobs)
    except DefinitionError as error:
        checked[-1].told.append(Told(checked[-1].file, None, str(error)))
    if not any(one.told for one in checked):
        for one in checked:
            warned = [(job.name, missing_parents(job, first, "is in these files")) for job in one.jobs]
            one.warnings.extend(f"job {name!r}: {text}" for name, text in warned if text)
    return checked


def _echo(checked: list[Checked]) -> None:
    from onthedot.observe.formats import count, plain

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


def _as_json(one: Checked) -> dict[str, Any]:
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
