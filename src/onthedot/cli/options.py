"""Options that several commands share, and the readers of their values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar

import click

from onthedot.cli.errors import BadInput, remember_debug
from onthedot.clock import SystemClock, to_datetime
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError, ScheduleError, shown
from onthedot.model.run import HIGHEST_RUN
from onthedot.stores.addresses import shown_url

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_STORE = "sqlite:///onthedot.db"
ASK_ABOVE = 100
"""On a terminal, a change of more runs than this needs a confirmation."""
KEY_FILE = "onthedot.key_file"
"""The key in click's context for the file of `--key-file`."""
INSECURE = "onthedot.insecure"
"""The key in click's context for `--insecure`."""
_UTC = "onthedot.utc"


def read_length(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The callback of options that take a length of time such as `90s` or `1h30m`: microseconds."""
    try:
        return None if value is None else micros(parse_duration(value, what="length of time"))
    except DefinitionError as error:
        raise click.BadParameter(str(error), ctx, param) from None


class RunNumber(click.ParamType[int]):
    """The number of a run."""

    name = "integer"

    def convert(self, value: Any, _: click.Parameter | None, __: click.Context | None) -> int:
        """Refuse text that is no number, and a number that no run can have."""
        text = str(value).strip()
        if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            is_name = re.fullmatch(r"[\w.:-]{1,100}", text, re.ASCII)
            hint = f"; 'onthedot runs --job {text}' lists the runs of job {text}" if is_name else ""
            raise BadInput(f"RUN: expected the number of a run, got {shown(text)}{hint or _LISTS_RUNS}")
        if len(text) > _MOST_DIGITS or not 0 < int(text) <= HIGHEST_RUN:
            raise unknown_run(text[:_SHOWN_DIGITS])
        return int(text)


_LISTS_RUNS = "; 'onthedot runs' lists them"
_MOST_DIGITS, _SHOWN_DIGITS = 20, 100

RUN = RunNumber()


def unknown_run(run_id: int | str) -> BadInput:
    """The error for a run that is not stored."""
    return BadInput(f"RUN: expected a stored run, got {run_id}{_LISTS_RUNS}")


def with_store(command: F) -> F:
    """`--store` and `--db`: which store to use."""
    command = click.option("--db", metavar="FILE", help="Short for --store sqlite:///FILE.")(command)
    where = f"Where jobs and runs are stored.  [default: ONTHEDOT_STORE, or {DEFAULT_STORE}]"
    return click.option("--store", metavar="URL", help=where)(command)


def with_server(command: F) -> F:
    """`--store`, `--db`, `--key-file` and `--insecure`: a store or a server."""
    command = with_insecure(command)
    command = click.option(
        "--key-file", metavar="FILE", expose_value=False, callback=_remember_key_file,
        help="A file with the key for a server.  [default: the key in ONTHEDOT_KEY, then that of 'onthedot login']",
    )(command)  # fmt: skip
    command = click.option("--db", metavar="FILE", help="Short for --store sqlite:///FILE.")(command)
    where = "The store, or a server: http://127.0.0.1:7411.  [default: ONTHEDOT_STORE, or " + DEFAULT_STORE + "]"
    return click.option("--store", metavar="URL", help=where)(command)


def with_insecure(command: F) -> F:
    """`--insecure`: plain HTTP to other machines."""
    return click.option(
        "--insecure", is_flag=True, expose_value=False, envvar="ONTHEDOT_INSECURE", callback=_remember_insecure,
        help="Allow sending the key to another machine over plain http://.",
    )(command)  # fmt: skip


def _remember_key_file(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[KEY_FILE] = value


def _remember_insecure(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[INSECURE] = value


def with_output(command: F) -> F:
    """`--output`: where the output of attempts is stored."""
    what = "Where to keep output: a directory, or s3://bucket/prefix?endpoint=…&region=…  [default: this user's]"
    return click.option("--output", metavar="PLACE", help=what)(command)


def with_namespace(command: F) -> F:
    """`--namespace`: the namespace of the job."""
    what = "The job's namespace."
    return click.option("--namespace", metavar="NAME", default="default", show_default=True, help=what)(command)


def with_json(what: str) -> Callable[[F], F]:
    """`--json`: output for machines."""
    return click.option("--json", "as_json", is_flag=True, help=f"Write {what}.")


def with_debug(command: F) -> F:
    """`--debug`: a traceback for errors."""
    what = "Show a traceback for errors."
    return click.option("--debug", is_flag=True, expose_value=False, callback=remember_debug, help=what)(command)


def store_url(store: str | None, db: str | None) -> str:
    """The URL of the store or server, from `--store`, `--db` or ONTHEDOT_STORE."""
    if store is not None and db is not None:
        raise click.UsageError(f"expected --store or --db, got both ({shown_url(store)!r} and {db!r}); leave one out")
    if db == "":
        raise click.UsageError("--db: expected the name of a file, got ''")
    if db is not None and "://" in db:
        raise click.UsageError(f"--db: expected the name of a file, got a URL, {shown_url(db)!r}; give it as --store")
    return f"sqlite:///{db}" if db is not None else store or os.environ.get("ONTHEDOT_STORE") or DEFAULT_STORE


def refuse_program(what: str, given: Iterable[str]) -> None:
    """Refuse a Python program where a file of jobs is expected."""
    for name in given:
        if name.partition(":")[0].endswith(".py"):
            raise BadInput(
                f"{what}: expected YAML or JSON, got {name!r}, which is a Python program; use 'onthedot plan {name}'"
            )


# ── points in time ───────────────────────────────────────────────────────────────────────────────────────────


def with_utc(command: F) -> F:
    """`--utc`: read and show times in UTC."""
    what = "Read and show times in UTC.  [default: this machine's zone, or TZ]"
    return click.option(
        "--utc", is_flag=True, is_eager=True, expose_value=False, callback=_remember_utc, help=what
    )(command)  # fmt: skip


def _remember_utc(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:  # may come before the command: onthedot --utc runs
        ctx.meta[_UTC] = True


def reader_zone() -> tzinfo | None:
    """The zone in which times are read and shown; None: that of this machine (TZ)."""
    context = click.get_current_context(silent=True)
    return UTC if context is not None and context.meta.get(_UTC) else None


def with_range(what: str) -> Callable[[F], F]:
    """`--since` and `--until`, in plain words; and `--utc`."""

    def add(command: F) -> F:
        command = click.option(
            "--until", metavar="WHEN", callback=_read_when, help=f"Only {what} before WHEN."
        )(command)  # fmt: skip
        since = f"Only {what} at WHEN or later: yesterday, -2h, '2h ago', 2026-11-17, 'monday 03:00'."
        return with_utc(click.option("--since", metavar="WHEN", callback=_read_when, help=since)(command))

    return add


def _read_when(_: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """The callback of options that take a point in time."""
    return None if value is None else read_time(value, f"--{param.name}")


def read_time(text: str, what: str, *, ahead: bool = False) -> datetime:
    """Read a point in time from plain words, in the reader's zone. With `ahead`, words without a date mean the
    future."""
    from onthedot.schedules.instants import read_when  # 20 ms, which `--version` and `--help` do not need

    try:
        return read_when(text, now=SystemClock().now(), tz=reader_zone(), what=what, ahead=ahead)
    except ScheduleError as error:
        raise BadInput(str(error)) from error


def read_ahead(text: str, what: str) -> datetime:
    """Read a point in time that must be in the future."""
    found = read_time(text, what, ahead=True)
    if found < to_datetime(SystemClock().now()):
        local = found.astimezone(reader_zone()).isoformat(" ", "seconds")
        raise BadInput(f"{what}: expected an instant that lies ahead, got {text!r}, which is {local}")
    return found


def is_date(text: str) -> bool:
    """Return whether the text is ISO 8601. A schedule may read such text in its own zone."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def check_range(since: datetime | None, until: datetime | None) -> None:
    """Refuse an empty range."""

    if since is not None and until is not None and since >= until:
        shown = [one.astimezone(reader_zone()).isoformat(" ", "seconds") for one in (since, until)]
        raise BadInput(f"--until: expected an instant after --since ({shown[0]}), got {shown[1]}")


def read_secret(what: str, prompt: str, *, most: int, is_new: bool = False) -> str:
    """Read a secret: typed on a terminal (a new one twice), else from standard input, as one line or the same line
    twice. It is never an argument, which every user of the machine could read. The caller checks its form."""
    if sys.stdin.isatty():
        typed: str = click.prompt(prompt, hide_input=True, confirmation_prompt=is_new)
        return typed
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise BadInput(f"{what}: expected at most {most} bytes on standard input, got more")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{what}: expected UTF-8 text on standard input, got other bytes") from None
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(lines) > 2 or lines[0] != lines[-1]:
        told = "different lines" if len(lines) == 2 else f"{len(lines)} lines"
        raise BadInput(f"{what}: expected one line on standard input, or the same line twice, got {told}")
    if not lines[0] and not is_new:
        raise BadInput(f"{what}: expected it on standard input, got nothing")
    return lines[0]
