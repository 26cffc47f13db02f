"""`onthedot logs`: prints the output of a run, and follows it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click

from onthedot.cli.advice import on_this_store
from onthedot.cli.connect import call_server
from onthedot.cli.errors import BROKEN, CUT_SHORT, BadInput, Command
from onthedot.cli.log_printer import PASSED_OVER, LogPrinter
from onthedot.cli.open_store import read_store
from onthedot.cli.options import (
    RUN,
    check_range,
    store_url,
    unknown_run,
    with_debug,
    with_json,
    with_range,
    with_server,
)
from onthedot.clock import to_micros
from onthedot.model.addresses import is_server
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.observe.formats import plain
from onthedot.output.locations import output_location
from onthedot.output.output_owner import find_owner
from onthedot.output.output_store import OutputStore
from onthedot.output.run_output import read_said
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.client.client import Client

LOOK_EVERY = 0.5
"""How often --follow reads, in seconds. Running attempts write to the store about every second."""
LAST_LOOKS = 6
"""How often output is read again after the run has ended: the last of it may come late."""


@click.command(cls=Command)
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended, and tell how.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt only.  [default: all]")
@click.option("--step", metavar="NAME", help="Of this step only.  [default: all]")
@with_range("lines")
@click.option("--plain", is_flag=True, help="Only the text: no times, streams and steps.")
@click.option("--output", metavar="PLACE", help="Where output is kept.  [default: where the store's nodes keep it]")
@with_server
@with_json("one JSON object per line: attempt, at, stream, step, text")
@with_debug
def logs(
    run_id: int, follow: bool, attempt: int | None, step: str | None, since: datetime | None, until: datetime | None,
    plain: bool, output: str | None, store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Show what the run with the number RUN has said, attempt by attempt: in full from where output is kept, and before
    that what its node has told the store, wherever it runs. It only reads. Where output is kept, nodes have told the
    store; --output is for who comes to the same place by another way.

    Each line has its time, its stream (out, err, log for what a handler logs, otd for remarks of ours) and its step in
    front. Of an attempt that runs on a node of an older version only the text is known: such a line has the time at
    which it came here (~12:00:05). --plain shows the text alone.

    Escape sequences are left out, but for colours. The exit code is 0, or 1 if something could not be read; with -f it
    is 0 if the run has succeeded, and 1 if it has not.

    \b
    Examples:
      onthedot logs 41
      onthedot logs 41 -f
      onthedot logs 41 --plain > run-41.log
      onthedot logs 41 --since -10m
      onthedot logs 41 --attempt 2 --step build
      onthedot logs 41 --json | jq -r 'select(.stream == "err").text'
      onthedot logs 41 --output 's3://bucket/prefix?region=eu-central-1'
    """
    url = store_url(store, db)
    if is_server(url) and output is not None:
        raise click.UsageError("--output: expected none with a server, which reads where it is kept; leave it out")
    output_location(output or "", url)  # refuse a wrong place before the store is opened
    check_range(since, until)
    first, end = (None if one is None else to_micros(one) for one in (since, until))
    telling = LogPrinter(attempt=attempt, step=step, as_json=as_json, plain=plain, between=(first, end))

    click.get_current_context().exit(tell_run(url, run_id, telling, follow=follow, output=output or ""))


def tell_run(url: str, run_id: int, telling: LogPrinter, *, follow: bool, output: str = "") -> int:
    """Print the output of a run of this store or server; with `follow`, until it ends. Return the exit code."""

    async def tell(opened: Store) -> int:
        outputs = OutputStore((await find_owner(opened)).location(output, url))
        return await _tell(opened, outputs, run_id, telling, follow)

    try:
        if is_server(url):
            code = call_server(url, lambda client: _tell_asked(client, run_id, telling, follow))
        else:
            code = read_store(url, tell)
    except KeyboardInterrupt:
        code = CUT_SHORT
    telling.close()
    return code


async def _tell_asked(client: Client, run_id: int, telling: LogPrinter, follow: bool) -> int:
    """The same from a server."""
    from onthedot.client import views

    run = await client.get_run(run_id)
    if run is None:
        raise unknown_run(run_id)
    _check_attempt(run, telling, follow)
    if not follow:
        for said in await views.read_said(client.server, run_id):
            telling.tell(said._replace(kept=said.kept and (_has_ended(run) or said.attempt < run.attempts)))
        return _told(run, telling)
    async for event in views.follow_logs(client.server, run_id):
        if event.kind == "log":
            telling.tell_record(event.data["attempt"], views.record_of(event.data), event.data["text"])
        elif event.kind == "left_out":
            telling.tell_record(event.data["attempt"], None, PASSED_OVER)
        elif event.kind == "trouble":
            click.echo(plain(f"attempt {event.data['attempt']}: {event.data['detail']}", most=2_000), err=True)
    return _end(await client.get_run(run_id) or run, telling)


async def _tell(store: Store, outputs: OutputStore, run_id: int, telling: LogPrinter, follow: bool) -> int:
    run = await store.queries.get_run(run_id)
    if run is None:
        raise unknown_run(run_id)
    _check_attempt(run, telling, follow)
    await _look(store, outputs, run_id, telling)
    return await _follow(store, outputs, run, telling) if follow else _told(run, telling)


def _check_attempt(run: RunRecord, telling: LogPrinter, follow: bool) -> None:
    if telling.attempt is not None and telling.attempt > max(run.attempts, 0 if not follow else telling.attempt):
        tries = f"1 to {run.attempts}" if run.attempts else "none: it has not been tried yet"
        raise BadInput(f"--attempt: expected {tries}, got {telling.attempt}")


def _told(run: RunRecord, telling: LogPrinter) -> int:
    telling.check_step()
    if not telling.told:
        click.echo(_silent(run, telling), err=True)
    return BROKEN if telling.trouble else 0


async def _follow(store: Store, outputs: OutputStore, run: RunRecord, telling: LogPrinter) -> int:
    looks = 0
    while not _has_ended(run) or (looks := looks + 1) <= (0 if telling.is_complete(run.attempts) else LAST_LOOKS):
        await asyncio.sleep(LOOK_EVERY)
        found = await store.queries.get_run(run.id)
        if found is None:
            break  # deleted meanwhile, after its retention
        run = found
        await _look(store, outputs, run.id, telling)
    return _end(run, telling)


def _end(run: RunRecord, telling: LogPrinter) -> int:
    """Print how the run ended. Return the exit code."""
    telling.close()
    why = ": ".join(part for part in (run.reason, run.error) if part)
    tries = f" after {run.attempts} attempts" if run.attempts > 1 else ""
    click.echo(f"run {run.id} of {plain(run.job)}: {run.state}{tries}{'; ' if why else ''}{plain(why)}", err=True)
    return 0 if run.state is RunState.SUCCEEDED else BROKEN


async def _look(store: Store, outputs: OutputStore, run_id: int, telling: LogPrinter) -> None:
    for said in await read_said(store, outputs, run_id):
        telling.tell(said)


def _silent(run: RunRecord, telling: LogPrinter) -> str:
    """The message for a run without output: why it failed, if it did."""
    silent = f"run {run.id} has said nothing{'' if _has_ended(run) else ' yet'}"
    if not run.error or telling.attempt is not None:  # that attempt may have ended in another way
        return silent
    first = plain(run.error.strip().partition("\n")[0], most=300)
    return on_this_store(f"{silent}; it is {run.state}: {first}; 'onthedot show {run.id}' tells more")


def _has_ended(run: RunRecord) -> bool:
    return run.state in TERMINAL
