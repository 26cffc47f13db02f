"""`onthedot logs`: prints the output of a run, each line once, and follows it."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING

import click

from onthedot.cli.connect import call_server, read_store
from onthedot.cli.errors import BROKEN, CUT_SHORT, BadInput, Command, on_this_store
from onthedot.cli.options import (
    RUN,
    check_range,
    reader_zone,
    store_url,
    unknown_run,
    with_debug,
    with_json,
    with_range,
    with_server,
)
from onthedot.clock import SECOND, Clock, Micros, SystemClock, to_datetime, to_micros
from onthedot.model.addresses import is_server
from onthedot.model.errors import did_you_mean
from onthedot.model.run import TERMINAL, RunRecord, RunState
from onthedot.observe.formats import iso, plain, time_of_day
from onthedot.output.display import Display
from onthedot.output.locations import output_location
from onthedot.output.log_positions import known
from onthedot.output.output_owner import find_owner
from onthedot.output.output_store import OutputStore
from onthedot.output.run_output import read_output
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.output.records import Record
    from onthedot.output.run_output import AttemptOutput


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


LOOK_EVERY = 0.5
"""How often --follow reads, in seconds. Running attempts write to the store about every second."""
LAST_LOOKS = 6
"""How often output is read again after the run has ended: the last of it may come late."""


@click.command(cls=Command)
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Follow until the run ends, and print how it ended.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt.  [default: all]")
@click.option("--step", metavar="NAME", help="Only this step.  [default: all]")
@with_range("lines")
@click.option("--plain", is_flag=True, help="Only the text, without times, streams and steps.")
@click.option("--output", metavar="PLACE", help="Where output is kept.  [default: where the store's nodes keep it]")
@with_server
@with_json("one JSON object per line: attempt, at, stream, step, text")
@with_debug
def logs(
    run_id: int, follow: bool, attempt: int | None, step: str | None, since: datetime | None, until: datetime | None,
    plain: bool, output: str | None, store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Show the output of the run with the number RUN, attempt by attempt. The output of a finished attempt comes from
    the output store, that of a running one from what its node has sent to the store. It only reads. The store knows
    where output is kept; use --output if you reach that place by another path.

    Each line starts with its time, its stream (out, err, log for log records of a handler, otd for remarks of onthedot)
    and its step. If the node has an older version, only the text of a running attempt is known: such a line has the
    time at which it arrived here (~12:00:05). --plain shows only the text.

    Escape sequences are removed, except colours. The exit code is 0, or 1 if something could not be read; with -f it is
    0 if the run succeeded, else 1.

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
    """Print the output of a run of this server. Return the exit code."""
    from onthedot.client import views

    run = await client.get_run(run_id)
    if run is None:
        raise unknown_run(run_id)
    _check_attempt(run, telling, follow)
    if not follow:
        for said in await views.read_output(client.server, run_id):
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
    why = ": ".join(part for part in (run.reason, run.error) if part and part != run.state)
    tries = f" after {run.attempts} attempts" if run.attempts > 1 else ""
    click.echo(f"run {run.id} of {plain(run.job)}: {run.state}{tries}{'; ' if why else ''}{plain(why)}", err=True)
    return 0 if run.state is RunState.SUCCEEDED else BROKEN


async def _look(store: Store, outputs: OutputStore, run_id: int, telling: LogPrinter) -> None:
    for said in await read_output(store, outputs, run_id):
        telling.tell(said)


def _silent(run: RunRecord, telling: LogPrinter) -> str:
    """Return the message for a run without output. If the run failed, the message shows why."""
    silent = f"run {run.id} has said nothing{'' if _has_ended(run) else ' yet'}"
    if not run.error or telling.attempt is not None:  # the selected attempt may have ended in another way
        return silent
    first = plain(run.error.strip().partition("\n")[0], most=300)
    return on_this_store(f"{silent}; it is {run.state}: {first}; 'onthedot show {run.id}' tells more")


def _has_ended(run: RunRecord) -> bool:
    return run.state in TERMINAL


# ── printing the output ──────────────────────────────────────────────────────────────────────────────────────────────


LIVE_AFTER: Micros = 1 * SECOND
"""Output without a time of its own gets the current time, if it comes this long after the start."""
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
PASSED_OVER = "\n… some output was passed over …\n"


class LogPrinter:
    """Prints new output, each line once. `attempt`, `step` and `between` filter.

    Each line starts with its time in the reader's zone, its stream and its step. If the node has an older version,
    only the text of a running attempt is known: it gets the time at which it arrived here, with `~`. With `plain`,
    lines are only text.
    """

    def __init__(
        self,
        *,
        attempt: int | None,
        step: str | None,
        as_json: bool,
        plain: bool = False,
        between: tuple[Micros | None, Micros | None] = (None, None),
        clock: Clock | None = None,
    ) -> None:
        self.attempt = attempt
        self.told = False
        self.trouble = ""
        self._step = step
        self._steps: set[str] = set()
        self._as_json = as_json
        self._display = Display()
        self._seen: dict[int, str] = {}  # the text of each attempt that was printed
        self._complete: set[int] = set()
        self._heading: tuple[int, str] | None = None
        self._at_line_start = True
        self._plain = plain
        self._since, self._until = between
        self._clock = clock or SystemClock()
        self._began = self._clock.steady()
        self._zone = reader_zone()
        self._line_of: tuple[str, str] | None = None  # stream and step of the unfinished line

    def tell(self, said: AttemptOutput) -> None:
        """Print the new output of an attempt."""
        if said.trouble and not self.trouble:
            of = f"attempt {said.attempt}: " if said.attempt else ""  # 0: from a server, which names the attempt
            click.echo(plain(f"{of}{said.trouble}", most=2_000), err=True)
            self.trouble = said.trouble
        if self.attempt not in (None, said.attempt) or said.attempt in self._complete:
            return
        if said.kept:
            self._complete.add(said.attempt)
            self._steps |= {record.step for record in said.records or ()}
        elif said.records is None and self._step is not None:
            return  # an older node does not send the step of a line
        seen, self._seen[said.attempt] = self._seen.get(said.attempt, ""), said.text
        skip = known(seen, said.text)
        lost = seen and not skip and not said.kept
        if said.records is not None:
            if lost:
                self._write(said.attempt, None, PASSED_OVER)
            self._tell_records(said.attempt, said.records, skip=skip)
        else:
            self._write(said.attempt, None, (PASSED_OVER if lost else "") + said.text[skip:])

    def tell_record(self, attempt: int, record: Record | None, text: str) -> None:
        """Print the next output of an attempt, when the server sends each piece once and in order."""
        step = "" if record is None else record.step
        if self.attempt in (None, attempt) and self._step in (None, step):
            self._write(attempt, record, text)

    def is_complete(self, attempts: int) -> bool:
        """Return whether the last of so many attempts was printed from the output store."""
        return attempts in self._complete or not attempts

    def check_step(self) -> None:
        """Refuse a step that no output has."""
        if self._step is not None and self._steps and self._step not in self._steps:
            raise BadInput(
                f"--step: expected one of its steps, got {self._step!r}{did_you_mean(self._step, self._steps)}"
            )

    def close(self) -> None:
        """End the last line, and reset colours. May be called twice."""
        if not self._as_json:
            click.echo(self._display.close() + ("" if self._at_line_start else "\n"), nl=False)
            self._at_line_start, self._line_of = True, None

    def _tell_records(self, attempt: int, records: list[Record], *, skip: int) -> None:
        for record in records:
            rest = record.text[skip:]
            skip = max(0, skip - len(record.text))
            if rest and self._step in (None, record.step):
                self._write(attempt, record, rest)

    def _write(self, attempt: int, record: Record | None, text: str) -> None:
        if not text or not self._is_between(record):
            return
        self.told = True
        if self._as_json:
            of: dict[str, str | None] = {"at": None, "stream": None, "step": None}
            if record is not None:
                of = {"at": iso(record.at), "stream": record.stream, "step": record.step}
            click.echo(json.dumps({"attempt": attempt, **of, "text": text}))
            return
        if self._plain:
            self._head_plain(attempt, record)
        else:
            self._head(attempt, record)
        shown = self._display.feed(text)
        if shown:
            lines = shown if self._plain else self._with_fronts(shown, self._front(record))
            self._at_line_start = shown.endswith("\n")
            click.echo(lines, nl=False)

    def _is_between(self, record: Record | None) -> bool:
        """Return whether a line is in the selected range. A line without a known time is."""
        if record is None:
            return True
        return (self._since is None or record.at >= self._since) and (self._until is None or record.at < self._until)

    def _head_plain(self, attempt: int, record: Record | None) -> None:
        """Print a heading where another attempt or step begins."""
        step = record.step if record is not None else ""
        if (attempt, step) != (self._heading or (attempt, step if record is None else "")) and self._step is None:
            of_step = f", step {plain(step)}" if step else ""
            self.close()
            click.echo(f"── attempt {attempt}{of_step} ──")
        self._heading = (attempt, step)

    def _head(self, attempt: int, record: Record | None) -> None:
        """Print a heading with date and zone where another attempt or day begins."""
        at = self._came_at() if record is None else record.at
        local = None if at is None else to_datetime(at).astimezone(self._zone)
        day = "" if local is None else f"{local:%Y-%m-%d} ({local:%Z})"
        if self._heading is None and not day:
            self._heading = (attempt, "")
        elif (attempt, day) != self._heading and (day or self._heading is None or attempt != self._heading[0]):
            self.close()
            click.echo(f"── attempt {attempt}{', ' if day else ''}{day} ──")
            self._heading = (attempt, day)
        line_of = None if record is None else (record.stream, record.step)
        if not self._at_line_start and line_of != self._line_of:
            self.close()  # two streams do not share a line
        self._line_of = line_of

    def _came_at(self) -> Micros | None:
        """Return when a line of a running attempt arrived here. None means before the command began."""
        return self._clock.now() if self._clock.steady() - self._began > LIVE_AFTER else None

    def _front(self, record: Record | None) -> str:
        """The prefix of a line: time, stream and step."""
        if record is None:
            at = self._came_at()
            return "" if at is None else f"~{time_of_day(at, self._zone)[:-4]} | "
        step = f" {plain(record.step, most=40)}" if record.step else ""
        return f"{time_of_day(record.at, self._zone)} {record.stream}{step} | "

    def _with_fronts(self, shown: str, front: str) -> str:
        lines = _LINES.findall(shown)
        return "".join(
            line if not number and not self._at_line_start else front + line for number, line in enumerate(lines)
        )
