"""Prints the output of attempts as it comes, each line once."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput
from onthedot.cli.options import reader_zone
from onthedot.clock import SECOND, Clock, Micros, SystemClock, to_datetime
from onthedot.model.errors import did_you_mean
from onthedot.observe.formats import iso, plain, time_of_day
from onthedot.output.display import Display
from onthedot.output.log_positions import known

if TYPE_CHECKING:
    from onthedot.output.records import Record
    from onthedot.output.run_output import Said

LIVE_AFTER: Micros = 1 * SECOND
"""Output without a time of its own gets the current time, if it comes this long after the start."""
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
PASSED_OVER = "\n… some output was passed over …\n"


class LogPrinter:
    """Prints what is new. `attempt`, `step` and `between` filter.

    Each line has what is known of it in front: its time in the reader's zone, its stream and its step. Of an attempt
    that runs on a node of an older version only the text is known: it gets the time at which it came here, with `~`.
    `plain` leaves all of that out.
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

    def tell(self, said: Said) -> None:
        """Print what is new of an attempt."""
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
        """Whether the last of so many attempts was printed from the output store."""
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
        """Whether it is in the selected range; without a known time it is."""
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
        """When a line of a running attempt arrived here; None: before the command began."""
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
