"""Records the output of one program: adds times, removes secrets, and limits the size.

The first half of the limit goes to the file at once. Later output is kept unchanged in memory, up to the other half. At
the end it is redacted and written after a remark that says how many bytes were cut. So a program that prints a gigabyte
costs memory for a few copies of its last megabytes. It delays no other program.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.output.records import WINDOW, Record, Stream, encode
from onthedot.output.redact import Redactor, forms_of

LARGEST = 64 << 10
"""The most bytes of one record's text, and of one piece of a stream."""
LEAST = 64 << 10
"""Bytes that each program may print even if others of its attempt have used up the limit."""
SMALL = 4 << 10
"""After the first half, small pieces are joined up to this size."""
ENTRY = 128
"""Memory that a piece takes besides its bytes."""
EACH_SECOND = 256 << 10
"""Once the log is full, this many bytes per second are still shown while the program runs."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class _Chunk(NamedTuple):
    """Bytes that arrived after the first half; or the rest of the first half, which is redacted already."""

    at: Micros
    stream: Stream
    data: bytes
    redacted: bool = False


class Capture:
    """Appends one program's output to a log file. Used in the guard's process, from one thread.

    The first write creates the file, and only its owner may read it. A link in its place raises `OSError`. `limit` is
    the largest size of the attempt's file, in bytes. Earlier programs of the attempt may have written to it; each
    program may add a little (`LEAST`) in any case. If the file can no longer be written, the rest is lost, and the
    program continues.
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
        self._shown: LiveText | None = None  # set once the head is full
        self._tail: deque[_Chunk] = deque()
        self._tail_bytes = 0
        self._cut = 0

    def feed(self, stream: Stream, data: bytes) -> str:
        """Record some bytes. Return the text that may be shown now."""
        if self._shown is not None:
            now = self._clock()
            self._keep_tail(now, stream, data)
            return self._shown.feed(stream, data, now)
        text = self._characters[stream].feed(self._redactors[stream].feed(data))
        self._gather(stream, text)
        return text

    def tick(self) -> None:
        """Write the current record if it has waited long enough for more text. Call it a few times each second."""
        if self._gathered and not 0 <= self._clock() - self._since < WINDOW:
            self._write_gathered()

    def close(self) -> list[tuple[Stream, str]]:
        """Write the rest. Return the text that was held back. A second call is allowed."""
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
            else:  # the last bytes filled the first half exactly
                self._keep(_Chunk(self._clock(), stream, rest.encode(errors="replace"), redacted=True))
            shown.append((stream, rest))
        if self._gathered:
            self._write_gathered()
        return shown

    # ── the second half ──────────────────────────────────────────────────────────────────────────────────────

    def _begin_tail(self, rest: str) -> None:
        """Begin the tail with `rest`, which did not fit into the full head."""
        self._head = 0
        self._shown = LiveText(self._redactors, self._characters)
        self._keep(_Chunk(self._since, self._gathered_of, rest.encode(errors="replace"), redacted=True))

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
            self._keep(_Chunk(now, stream, data))

    def _keep(self, said: _Chunk) -> None:
        for start in range(0, len(said.data), LARGEST):
            piece = said._replace(data=said.data[start : start + LARGEST])
            self._tail.append(piece)
            self._tail_bytes += len(piece.data) + ENTRY
        self._let_go()

    def _let_go(self) -> None:
        """Drop the oldest bytes above the limit. It waits until there are many, because it copies the rest of a
        piece."""
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
        """Return the file's size. If the file ends within a line, its writer was killed. Then this ends that line."""
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
        except OSError:  # the disk is full or gone; the program continues
            return


def _open_found(path: Path) -> int:
    """Return a descriptor of the file; -1 if the file does not exist."""
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        return -1


def _beginning(record: Record, room: int) -> tuple[bytes, int]:
    """Encode as much of a record's beginning as fits. Return the bytes, and how many characters of the text they
    hold."""
    line, fits = encode(record), len(record.text)
    while len(line) > room and fits:
        fits = min(fits - 1, fits * max(room, 0) // len(line))
        line = encode(record._replace(text=record.text[:fits]))
    return (line, fits) if fits else (b"", 0)


def _end(record: Record, room: int) -> tuple[bytes, int]:
    """Encode as much of a record's end as fits. Return the same as `_beginning`."""
    line, fits = encode(record), len(record.text)
    while len(line) > room and fits:
        fits = min(fits - 1, fits * max(room, 0) // len(line))
        line = encode(record._replace(text=record.text[len(record.text) - fits :]))
    return (line, fits) if fits else (b"", 0)


# ── what is shown while a program runs ─────────────────────────────────────────────────────────────────────────────


class LiveText:
    """Makes the live text of streams whose log is full: redacted, and no more per second than people can read."""

    def __init__(self, redactors: Mapping[Stream, Redactor], characters: Mapping[Stream, Characters]) -> None:
        self._redactors = {stream: redactor.copy() for stream, redactor in redactors.items()}
        self._characters = {stream: begun.copy() for stream, begun in characters.items()}
        self._since: Micros = 0
        self._bytes = 0

    def feed(self, stream: Stream, data: bytes, now: Micros) -> str:
        """Take some bytes. Return the text that may be shown now."""
        if not 0 <= now - self._since < SECOND:
            self._since, self._bytes = now, 0
        self._bytes += len(data)
        if self._bytes > EACH_SECOND:
            self._redactors[stream].skip(data)
            return ""
        return self._characters[stream].feed(self._redactors[stream].feed(data))

    def close(self) -> list[tuple[Stream, str]]:
        """Return the text that was held back."""
        return [(stream, self._characters[stream].close(one.close())) for stream, one in self._redactors.items()]


class Characters:
    """Decodes UTF-8 in pieces. Other bytes become U+FFFD.

    >>> characters = Characters()
    >>> characters.feed(b"caf\\xc3"), characters.feed(b"\\xa9\\xff"), characters.close()
    ('caf', 'é\ufffd', '')
    """

    def __init__(self, begun: bytes = b"") -> None:
        self._begun = begun  # the first bytes of an incomplete character

    def feed(self, data: bytes) -> str:
        """Return the text of all complete characters."""
        if not data:
            return ""
        if self._begun:
            data = self._begun + data
        end = _whole_until(data)
        self._begun = data[end:]
        return (data if end == len(data) else data[:end]).decode(errors="replace")

    def close(self, data: bytes = b"") -> str:
        """Return the text of the last piece. An incomplete character at the end becomes U+FFFD."""
        rest, self._begun = self._begun + data, b""
        return rest.decode(errors="replace")

    def copy(self) -> Characters:
        """A copy with the same state."""
        return Characters(self._begun)


def _whole_until(data: bytes) -> int:
    """Return where the last character starts if it is incomplete; else the end.

    >>> _whole_until("é".encode()), _whole_until("aé".encode()[:-1]), _whole_until(b"a\\xff")
    (2, 1, 2)
    """
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF8 else 1
            return len(data) - back if needed > back else len(data)
    return len(data)
