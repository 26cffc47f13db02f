"""`onthedot doctor`: checks what this machine and this configuration offer, and what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import click

from onthedot.cli.errors import Command, on_this_store
from onthedot.cli.options import DEFAULT_STORE, store_url, with_debug, with_json, with_store
from onthedot.cli.program import load_program
from onthedot.cli.terminal import colours_wanted
from onthedot.doctor import Configuration, Finding, check_all
from onthedot.observe.formats import plain
from onthedot.settings import Settings

_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


@click.command(cls=Command)
@click.argument("program", required=False)
@click.option("--output", metavar="PLACE", default="", help="Where to keep output: a directory, or s3://bucket/prefix.")
@with_store
@with_json("one JSON object")
@with_debug
def doctor(program: str | None, output: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Check what this machine and this configuration offer: the store, its clock and its durability, space for output,
    and ways to isolate programs. For what is missing or broken it shows the consequence, and how to mend it.

    With a PROGRAM it checks that program's settings, jobs and store. Nothing is changed. Exit codes: 0; 1 if something
    that is configured does not work; 2 for bad input.

    \b
    Examples:
      onthedot doctor
      onthedot doctor app.py
      onthedot doctor --store postgresql://db/shop --output s3://bucket/logs
      onthedot doctor --json | jq '.findings[] | select(.state != "ok")'
    """
    found = check_all(_asked(program, output, store, db))
    findings = [replace(finding, remedy=on_this_store(finding.remedy)) for finding in found]
    faults = [finding.name for finding in findings if finding.is_fault]
    if as_json:
        click.echo(json.dumps({"ok": not faults, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _echo(findings, faults)
    if faults:
        click.get_current_context().exit(1)


def _asked(program: str | None, output: str, store: str | None, db: str | None) -> Configuration:
    named = store is not None or db is not None
    url = store_url(store, db)
    if program is None:
        return Configuration(Settings(), (), url, named, output)

    scheduler = load_program(program)
    if not named and isinstance(scheduler.store, str):
        url, named = scheduler.store, scheduler.store != DEFAULT_STORE
    return Configuration(scheduler.settings, tuple(scheduler.jobs.values()), url, named, output)


def _echo(findings: list[Finding], faults: list[str]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        state = f"{finding.state:<7}"
        shown = click.style(state, fg=_COLOURS[finding.state]) if colours_wanted() else state
        click.echo(f"{finding.name:<{width}}  {shown}  {plain(finding.found, most=500)}")
        if finding.state != "ok":
            indent = " " * (width + 11)
            click.echo(f"{indent}{plain(finding.costs, most=500)}\n{indent}do: {plain(finding.remedy, most=500)}")
    if faults:
        click.echo(f"\nconfigured, and not working: {', '.join(faults)}")
