"""Formats what commands show: schedules, tasks and instants in words; tables and heat maps on the terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

import click

from onthedot.cli.options import reader_zone
from onthedot.clock import MILLISECOND, Micros, to_datetime, to_micros
from onthedot.model.duration import format_duration
from onthedot.model.job import Job, Schedule
from onthedot.model.task import Call, Command, Container, Http, Noop, Sleep, Steps
from onthedot.observe import formats
from onthedot.observe.formats import count, length, plain
from onthedot.schedules import describe

# ── schedules, tasks and reasons in words ────────────────────────────────────────────────────────────────────────────


_DEFAULT_ANCHOR = ", counted from 1970-01-01 00:00 UTC"


def in_words(schedule: Schedule) -> str:
    """A schedule in words, for a table: without the default anchor of an interval."""
    return without_anchor(describe(schedule))


def without_anchor(reading: str) -> str:
    """A reading of a schedule without the default anchor."""
    return reading.replace(_DEFAULT_ANCHOR, "", 1)


def task_in_words(job: Job) -> str:
    """What a job runs."""
    match job.task:
        case Call(handler=handler):
            return f"call {handler}"
        case Sleep(duration=duration):
            return f"sleep {format_duration(duration)}"
        case Noop():
            return "nothing"
        case Command(argv=argv, script=script):
            return script.strip().partition("\n")[0] if script else shlex.join(argv)
        case Steps(steps=steps):
            return "steps " + ", ".join(step.name for step in steps)
        case Http(method=method, url=url):
            return f"{method} {url}"
        case Container(image=image):
            return f"container {image}"


_BY_HAND = {"cancelled": "skipped by hand", "moved": "moved by hand"}


def skip_in_words(reason: str) -> str:
    """Why a slot did not run: the stored reason, in words.

    >>> skip_in_words("cancelled"), skip_in_words("missed")
    ('skipped by hand', 'missed')
    """
    return _BY_HAND.get(reason, reason)


NOBODY_LIVES = "no node is living: nothing starts until one is"
"""A note below starts that were read from a store."""


# ── instants: in the reader's zone (`options.reader_zone`), everywhere ───────────────────────────────────────


def read_iso(text: str) -> Micros:
    """An instant as JSON has it.

    >>> read_iso("1970-01-01T00:00:00.000001Z")
    1
    """
    return to_micros(datetime.fromisoformat(text))


def moment(instant: Micros, now: Micros) -> str:
    """Return an instant for a table whose heading names the zone (`in_zone`). The text ends with the instant's own zone
    if its offset from UTC differs from that of `now`."""
    where = reader_zone()
    local, today = to_datetime(instant).astimezone(where), to_datetime(now).astimezone(where)
    own = "" if local.utcoffset() == today.utcoffset() else f" {local:%Z}"
    return f"{formats.moment(instant, now, where)}{own}"


def span(first: Micros, last: Micros, now: Micros) -> str:
    """A range of two instants, in a table."""
    return f"at {moment(first, now)}" if first == last else f"from {moment(first, now)} to {moment(last, now)}"


def in_zone(heading: str, now: Micros) -> str:
    """The heading of a table's first column of times, with the reader's zone."""
    return f"{heading} ({to_datetime(now).astimezone(reader_zone()):%Z})"


def reader_time(instant: Micros, *, exact: bool = True) -> str:
    """An instant with its date and its offset from UTC, in the reader's zone."""
    return local_time(instant, reader_zone(), exact=exact)


def reader_span(first: Micros, last: Micros) -> str:
    """A range of two instants, with dates and offsets."""
    return f"at {reader_time(first)}" if first == last else f"from {reader_time(first)} to {reader_time(last)}"


def local_time(instant: Micros, where: tzinfo | None, *, exact: bool = True) -> str:
    """A local time with its date and its offset from UTC; to the millisecond if not exact.

    >>> from datetime import UTC
    >>> local_time(0, UTC), local_time(1_500, UTC), local_time(1_500, UTC, exact=False)
    ('1970-01-01 00:00:00 +00:00', '1970-01-01 00:00:00.001500 +00:00', '1970-01-01 00:00:00.001 +00:00')
    """
    local = to_datetime(instant if exact else instant - instant % MILLISECOND).astimezone(where)
    return f"{local.replace(tzinfo=None).isoformat(' ', timespec=_timespec(local))} {offset_in_words(local)}"


def offset_in_words(local: datetime) -> str:
    """The offset from UTC of a local time.

    >>> from datetime import UTC
    >>> offset_in_words(datetime(2026, 1, 1, tzinfo=UTC))
    '+00:00'
    """
    return local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]


def _timespec(local: datetime) -> str:
    return "auto" if local.microsecond % 1_000 else "milliseconds" if local.microsecond else "seconds"


def relative(instant: Micros, now: Micros) -> str:
    """Return how long until an instant, or how long since.

    >>> relative(11_520_000_000, 0), relative(0, 3_200_000)
    ('in 3 h 12 m', '3.2 s ago')
    """
    return f"in {length(instant - now)}" if instant >= now else f"{length(now - instant)} ago"


def clock_change(before: datetime, after: datetime) -> str | None:
    """The clock change between two local times: `forward 1h`, `back 30m`, or None."""
    step = (after.utcoffset() or timedelta(0)) - (before.utcoffset() or timedelta(0))
    if not step:
        return None
    return f"{'forward' if step > timedelta(0) else 'back'} {format_duration(abs(step))}"


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


_BETWEEN = "  "
_LEAST = 6
"""A column is not cut below this, or its heading."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """The table as text. Control characters are removed from cells. `width` is the terminal's width; None: no limit.

    >>> print(table(["RUN", "STATE"], [["1", "dead"], ["22", "succeeded"]]))
    RUN  STATE
    1    dead
    22   succeeded
    """
    cells = [[plain(cell, most=1_000) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headings, *cells, strict=True)]
    if width is not None:
        widths = _fitted(widths, [len(heading) for heading in headings], width)
    lines = [[_cut(cell, size) for cell, size in zip(row, widths, strict=True)] for row in [headings, *cells]]
    return "\n".join(
        _BETWEEN.join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip() for row in lines
    )


def _fitted(widths: list[int], headings: Sequence[int], width: int) -> list[int]:
    """Make the widest columns narrower, one by one, until a line fits.

    >>> _fitted([4, 30, 20], [4, 4, 4], 40)
    [4, 16, 16]
    """
    sizes = list(widths)
    least = [max(heading, min(_LEAST, size)) for heading, size in zip(headings, widths, strict=True)]
    while sum(sizes) + len(_BETWEEN) * (len(sizes) - 1) > width:
        place = max(range(len(sizes)), key=lambda number: (sizes[number] > least[number], sizes[number], number))
        if sizes[place] <= least[place]:
            break
        sizes[place] -= 1
    return sizes


def _cut(cell: str, size: int) -> str:
    return cell if len(cell) <= size else cell[: size - 1] + "…"


def echo_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the table; on a terminal with bold headings."""
    head, *lines = table(headings, rows, width=terminal_width()).split("\n")
    click.echo("\n".join([click.style(head, bold=True) if colours_wanted() else head, *lines]))


def echo_more(shown: int, noun: str, option: str, *, as_json: bool = False) -> None:
    """Print that a list was cut, and which option shows more; with JSON on standard error."""
    click.echo(f"showing {count(shown, noun)}, and there are more; {option}", err=as_json)


# ── heat maps ────────────────────────────────────────────────────────────────────────────────────────────────────────


_BLOCKS, _PLAIN = " ░▒▓█", " .:+#"
_STYLES = ("default", "#5fafff", "#5fd75f", "#ffd75f", "#ff5f5f")
_CELL = 2


@dataclass(frozen=True)
class HeatMap:
    """A row for each day or weekday, with a number for each of 24 hours."""

    rows: Sequence[tuple[str, Sequence[float]]]
    unit: str

    @property
    def most(self) -> float:
        return max((value for _, hours in self.rows for value in hours), default=0.0)

    def level(self, value: float) -> int:
        """Return the level of a value: 0 is nothing, and 4 is the highest.

        >>> heat = HeatMap([("Mon", [0.0, 1.0, 30.0, 100.0])], "starts")
        >>> [heat.level(value) for value in heat.rows[0][1]]
        [0, 1, 2, 4]
        """
        return 0 if not value else max(1, -(-int(value * 4_000 / self.most) // 1_000))

    def lines(self, *, blocks: bool = True) -> list[str]:
        """The map as text, with hours above and a legend below."""
        signs = _BLOCKS if blocks else _PLAIN
        width = max((len(name) for name, _ in self.rows), default=0)
        head = " " * width + " " + "".join(f"{hour:<{3 * _CELL}}" for hour in range(0, 24, 3)).rstrip()
        body = [f"{name:<{width}} {''.join(signs[self.level(value)] * _CELL for value in hours)}".rstrip()
                for name, hours in self.rows]  # fmt: skip
        return [head, *body, "", f"{' ' * width} {self._legend(signs)}"]

    def _legend(self, signs: str) -> str:
        steps = [f"{signs[level] * _CELL} up to {_number(self.most * level / 4)}" for level in range(1, 5)]
        return f"{', '.join(steps)} {self.unit}"


def _number(value: float) -> str:
    """A number for the legend.

    >>> _number(1050.0), _number(2.25)
    ('1,050', '2.25')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def echo_heat(heat: HeatMap, *, colours: bool) -> None:
    """Print the map; with colours, each block has the colour of its level."""
    lines = heat.lines(blocks=can_show(_BLOCKS))
    if not colours:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(line)
        for level in range(1, 5):
            text.highlight_regex(f"[{_BLOCKS[level]}]+", _STYLES[level])
        console.print(text)


# ── the terminal ─────────────────────────────────────────────────────────────────────────────────────────────────────


def terminal_width() -> int | None:
    """The width of the terminal; None if standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def colours_wanted() -> bool:
    """Return whether to use colours: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def can_draw() -> bool:
    """Return whether standard output is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown", "")


def can_show(text: str) -> bool:
    """Return whether the encoding of standard output has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
