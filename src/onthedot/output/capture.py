"""Record what a program says, as it says it: with instants, redacted, and bounded.

The first half of the bound goes to the file at once. What comes after that is kept as it came, in memory, as much as
the other half; at the end it is redacted and written behind a remark that says how much was cut between the two. So a
program that says a gigabyte costs a few copies of its last megabytes, and nobody else waits for it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.output.forms import forms_of
from onthedot.output.line_marks import WINDOW
from onthedot.output.records import Record, Stream, encode
from onthedot.output.redact import Redactor
from onthedot.output.shown import Characters, Shown

LARGEST = 64 << 10
"""In bytes, of a record's text; and of what is looked at in one piece."""
LEAST = 64 << 10
"""What a program may say even if others of its attempt have said all that there is room for."""
SMALL = 4 << 10
"""Pieces behind the first half are put together until they are so large."""
ENTRY = 128
"""What a piece takes beside its bytes."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class _Said(NamedTuple):
    """Some bytes behind the head, as they came; or the end of the head, which is redacted."""

    at: Micros
    stream: Stream
    data: bytes
    redacted: bool = False


class Capture:
    """Appends one program's output to a record. Used in the guard's process, from one thread.

    The file is made for its owner alone, when there is something to write: who says nothing leaves none. A link in its
    place is not followed (`OSError`). `limit` is how large the
    attempt's file may become; other programs may have written to it before, and each has room for a little. If the file
    cannot be written any more, the rest is lost, and nobody else is hurt.
    """

    def __init__(
        self, path: Path, *, step: str, limit: int, secrets: Sequence[str], clock: Callable[[], Micros]
    ) -> None:
        self._path = path
        self._file = _open_found(path)
        self._closed = False
        self._step, self._clock = step, clock
        room = max(limit - self._end_last_line(), min(limit, LEAST))
        self._head = self._most_tail = room // 2
        forms = forms_of(secrets)
        self._redactors: dict[Stream, Redactor] = {"out": Redactor(forms), "err": Redactor(forms)}
        self._characters: dict[Stream, Characters] = {"out": Characters(), "err": Characters()}
        self._gathered: list[str] = []  # the record that is not written yet
        self._gathered_bytes = 0
        self._gathered_of: Stream = "out"
        self._since: Micros = 0
        self._shown: Shown | None = None  # there is one behind the head
        self._tail: deque[_Said] = deque()
        self._tail_bytes = 0
        self._cut = 0

    def feed(self, stream: Stream, data: bytes) -> str:
        """Some bytes came; the text that may be shown now."""
        if self._shown is not None:
            now = self._clock()
            self._keep_tail(now, stream, data)
            return self._shown.feed(stream, data, now)
        text = self._characters[stream].feed(self._redactors[stream].feed(data))
        self._gather(stream, text)
        return text

    def tick(self) -> None:
        """What has waited long enough for more to come is written. Call it a few times each second."""
        if self._gathered and not 0 <= self._clock() - self._since < WINDOW:
            self._write_gathered()

    def close(self) -> list[tuple[Stream, str]]:
        """Nothing more will come; what may be shown now, and was held back so far. Twice is fine."""
        if self._closed:
            return []
        self._closed = True
        shown = self._close_head() if self._shown is None else self._shown.close()
        if self._shown is not None:
            self._write_tail()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        return [(stream, text) for stream, text in shown if text]

    # ── the first half ───────────────────────────────────────────────────────────────────────────────────────

    def _gather(self, stream: Stream, text: str) -> None:
        if not text:
            return
        now = self._clock()
        if self._gathered and (stream != self._gathered_of or not 0 <= now - self._since < WINDOW):
            self._write_gathered()
        if not self._gathered:
            self._gathered_of, self._since = stream, now
        self._gathered.append(text)
        self._gathered_bytes += len(text)
        if self._gathered_bytes >= min(LARGEST, self._head):
            self._write_gathered()

    def _write_gathered(self) -> None:
        text = "".join(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        for start in range(0, len(text), LARGEST):
            record = Record(self._since, self._gathered_of, self._step, text[start : start + LARGEST])
            line, written = _beginning(record, self._head)
            self._head -= len(line)
            self._write(line)
            if written < len(record.text):
                self._begin_tail(text[start + written :])
                return

    def _close_head(self) -> list[tuple[Stream, str]]:
        shown = []
        for stream, redactor in self._redactors.items():
            rest = self._characters[stream].close(redactor.close())
            if self._shown is None:
                self._gather(stream, rest)
            else:  # the head was full with what came last
                self._keep(_Said(self._clock(), stream, rest.encode(errors="replace"), redacted=True))
            shown.append((stream, rest))
        if self._gathered:
            self._write_gathered()
        return shown

    # ── the second half ──────────────────────────────────────────────────────────────────────────────────────

    def _begin_tail(self, rest: str) -> None:
        """The head is full; `rest` is what did not fit. It is written in any case, so the head is ended."""
        self._head = 0
        self._shown = Shown(self._redactors, self._characters)
        self._keep(_Said(self._since, self._gathered_of, rest.encode(errors="replace"), redacted=True))

    def _keep_tail(self, now: Micros, stream: Stream, data: bytes) -> None:
        last = self._tail[-1] if self._tail else None
        if (
            last is not None and last.stream == stream and not last.redacted
            and len(last.data) < SMALL and 0 <= now - last.at < WINDOW
        ):  # fmt: skip
            self._tail[-1] = last._replace(data=last.data + data)
            self._tail_bytes += len(data)
            self._let_go()
        else:
            self._keep(_Said(now, stream, data))

    def _keep(self, said: _Said) -> None:
        for start in range(0, len(said.data), LARGEST):
            piece = said._replace(data=said.data[start : start + LARGEST])
            self._tail.append(piece)
            self._tail_bytes += len(piece.data) + ENTRY
        self._let_go()

    def _let_go(self) -> None:
        """Of the oldest, so much as is too much; not for every byte, because the rest of a piece is copied."""
        if self._tail_bytes < self._most_tail + min(LARGEST, self._most_tail):
            return
        while (surplus := self._tail_bytes - self._most_tail) > 0 and self._tail:
            oldest = self._tail.popleft()
            if surplus < len(oldest.data):
                self._tail.appendleft(oldest._replace(data=oldest.data[surplus:]))
                oldest = oldest._replace(data=oldest.data[:surplus])
            else:
                self._tail_bytes -= ENTRY
            self._tail_bytes -= len(oldest.data)
            self._cut += len(oldest.data)
            if not oldest.redacted:
                self._redactors[oldest.stream].skip(oldest.data)
                self._characters[oldest.stream] = Characters()

    def _write_tail(self) -> None:
        lines: deque[bytes] = deque()
        room = self._most_tail
        for record in reversed(self._tail_records()):
            line, written = _end(record, room)
            room -= len(line)
            if written < len(record.text):
                room = 0
                self._cut += len(record.text[: len(record.text) - written].encode(errors="replace"))
            if written:
                lines.appendleft(line)
        if self._cut:
            remark = f"… {self._cut:,} bytes are left out here: the output is larger than its bound …\n"
            self._write(encode(Record(self._clock(), "otd", self._step, remark)))
        for line in lines:
            self._write(line)

    def _tail_records(self) -> list[Record]:
        found: list[Record] = []
        for at, stream, data, redacted in self._tail:
            text = (
                data.decode(errors="replace")
                if redacted
                else self._characters[stream].feed(self._redactors[stream].feed(data))
            )
            pieces = (text[start : start + LARGEST] for start in range(0, len(text), LARGEST))
            found += [Record(at, stream, self._step, piece) for piece in pieces]
        self._tail.clear()
        for stream, redactor in self._redactors.items():
            found.append(Record(self._clock(), stream, self._step, self._characters[stream].close(redactor.close())))
        return [record for record in found if record.text]

    # ── the file ─────────────────────────────────────────────────────────────────────────────────────────────

    def _end_last_line(self) -> int:
        """How large the file is. If it ends within a line, whoever wrote it was killed: ours begins on the next one."""
        if self._file < 0:
            return 0
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            self._write(b"\n")
        return size

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            if self._file < 0:
                self._file = os.open(self._path, _FLAGS | os.O_CREAT, 0o600)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:  # the disk is full, or has gone: the program has nothing to do with that
            return


def _open_found(path: Path) -> int:
    """The file, if it is there; else -1."""
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        return -1


def _beginning(record: Record, room: int) -> tuple[bytes, int]:
    """As much of a record's beginning as has room, encoded; and how much of its text that is."""
    line, fits = encode(record), len(record.text)
    while len(line) > room and fits:
        fits = min(fits - 1, fits * max(room, 0) // len(line))
        line = encode(record._replace(text=record.text[:fits]))
    return (line, fits) if fits else (b"", 0)


def _end(record: Record, room: int) -> tuple[bytes, int]:
    """The same of its end."""
    line, fits = encode(record), len(record.text)
    while len(line) > room and fits:
        fits = min(fits - 1, fits * max(room, 0) // len(line))
        line = encode(record._replace(text=record.text[len(record.text) - fits :]))
    return (line, fits) if fits else (b"", 0)
