"""What attempts have said, written as it comes: what was written before is not written again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput
from onthedot.output.following import known

if TYPE_CHECKING:
    from onthedot.output.reading import Said
    from onthedot.output.records import Record

PASSED_OVER = "\n… some output was passed over …\n"


class Telling:
    """Writes what was not written yet. `attempt` and `step` leave out all others."""

    def __init__(self, *, attempt: int | None, step: str | None, as_json: bool) -> None:
        from onthedot.output.display import Display

        self.attempt = attempt
        self.told = False
        self.trouble = ""
        self._step = step
        self._steps: set[str] = set()
        self._as_json = as_json
        self._display = Display()
        self._seen: dict[int, str] = {}  # by attempt: its text as it was when we last looked
        self._complete: set[int] = set()
        self._heading: tuple[int, str] | None = None
        self._at_line_start = True

    def tell(self, said: Said) -> None:
        """An attempt as it is now."""
        if said.trouble and not self.trouble:
            from onthedot.observe.text import plain

            of = f"attempt {said.attempt}: " if said.attempt else ""  # a server has said so
            click.echo(plain(f"{of}{said.trouble}", most=2_000), err=True)
            self.trouble = said.trouble
        if self.attempt not in (None, said.attempt) or said.attempt in self._complete:
            return
        seen, self._seen[said.attempt] = self._seen.get(said.attempt, ""), said.text
        if said.records is not None:
            self._complete.add(said.attempt)
            self._steps |= {record.step for record in said.records}
            self._tell_records(said.attempt, said.records, skip=0 if self._step else known(seen, said.text))
        elif self._step is None:  # what is told while it runs does not say of which step it is
            skip = known(seen, said.text)
            lost = seen and not skip and not said.text.startswith(seen)
            self._write(said.attempt, None, (PASSED_OVER if lost else "") + said.text[skip:])

    def tell_record(self, attempt: int, record: Record | None, text: str) -> None:
        """What comes next of an attempt, told once and in order by whoever follows it."""
        step = "" if record is None else record.step
        if self.attempt in (None, attempt) and self._step in (None, step):
            self._write(attempt, record, text)

    def is_complete(self, attempts: int) -> bool:
        """Whether the last of so many attempts was written from where output is kept."""
        return attempts in self._complete or not attempts

    def check_step(self) -> None:
        """Refuse a step that no record has."""
        from onthedot.errors import did_you_mean

        if self._step is not None and self._steps and self._step not in self._steps:
            raise BadInput(
                f"--step: expected one of its steps, got {self._step!r}{did_you_mean(self._step, self._steps)}"
            )

    def close(self) -> None:
        """Colours end, and the last line does. Twice is fine."""
        if not self._as_json:
            click.echo(self._display.close() + ("" if self._at_line_start else "\n"), nl=False)
            self._at_line_start = True

    def _tell_records(self, attempt: int, records: list[Record], *, skip: int) -> None:
        for record in records:
            rest = record.text[skip:]
            skip = max(0, skip - len(record.text))
            if rest and self._step in (None, record.step):
                self._write(attempt, record, rest)

    def _write(self, attempt: int, record: Record | None, text: str) -> None:
        from onthedot.observe.text import iso, plain

        if not text:
            return
        self.told = True
        if self._as_json:
            of: dict[str, str | None] = {"at": None, "stream": None, "step": None}
            if record is not None:
                of = {"at": iso(record.at), "stream": record.stream, "step": record.step}
            click.echo(json.dumps({"attempt": attempt, **of, "text": text}))
            return
        step = record.step if record is not None else ""
        if (attempt, step) != (self._heading or (attempt, step if record is None else "")) and self._step is None:
            of_step = f", step {plain(step)}" if step else ""
            self.close()
            click.echo(f"── attempt {attempt}{of_step} ──")
        self._heading = (attempt, step)
        shown = self._display.feed(text)
        if shown:
            self._at_line_start = shown.endswith("\n")
            click.echo(shown, nl=False)
