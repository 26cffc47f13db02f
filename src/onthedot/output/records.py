"""Records of output, and the marks that live log lines carry.

A *record* is some text of one stream that arrived at one time. In files it is a line of JSON, `[instant, stream, step,
text]`, in order of arrival. The instant is in microseconds of this machine's clock. The stream is `out`, `err`, or
`otd` for our own remarks. A handler's log lines have the stream `log`; only the store holds them, and no file.

The store keeps the output of a running attempt as a *note*, which is text. Some of its lines begin with a *mark*, which
applies until the next one. A mark is a terminal control string (APC): terminals show nothing for it, and neither does
an older `onthedot logs`. A note of an older version has no marks, so the time and stream of its lines are unknown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from onthedot.clock import MILLISECOND, Micros

Stream = Literal["out", "err", "otd", "log"]
"""Standard output and error of a program, our remarks, and what a handler logs."""

WINDOW: Micros = 100 * MILLISECOND
"""Text that a stream sends within this time shares one instant."""


# ── marks of live lines ─────────────────────────────────────────────────────────────────────────────────────────────


_START = "\x1b_otd;"
_SAFE = "␛_otd;"
_MARK = re.compile(r"^\x1b_otd;(\d{1,17});(out|err|otd|log);([^\x1b\n]{0,1000})\x1b\\", re.MULTILINE)


class Mark(NamedTuple):
    """The instant, the stream and the step of some text (step empty: none)."""

    at: Micros
    stream: Stream
    step: str = ""

    def covers(self, later: Mark) -> bool:
        """Return whether this mark also fits text that has the later mark."""
        return 0 <= later.at - self.at < WINDOW and self.stream == later.stream and self.step == later.step


def encode_mark(mark: Mark) -> str:
    """Return the mark as it is written in a note.

    >>> encode_mark(Mark(1, "out", "build"))
    '\\x1b_otd;1;out;build\\x1b\\\\'
    """
    return f"{_START}{mark.at};{mark.stream};{json.dumps(mark.step)[1:-1]}\x1b\\"


def without_marks(text: str) -> str:
    """Return the text with all its marks made harmless. Its length stays the same.

    >>> without_marks("\\x1b_otd;1;out;\\x1b\\\\ forged").startswith("␛_otd;1;out;")
    True
    """
    return text.replace(_START, _SAFE)


def split_marked(text: str) -> Iterator[tuple[Mark | None, str]]:
    """Split text at its marks. Yield each piece with its mark; None before the first mark.

    >>> list(split_marked("a\\n" + encode_mark(Mark(1, "err")) + "b\\nc\\n"))
    [(None, 'a\\n'), (Mark(at=1, stream='err', step=''), 'b\\nc\\n')]
    """
    mark, start = None, 0
    for found in _MARK.finditer(text):
        read = _read(found)
        if read is None:
            continue
        if found.start() > start:
            yield mark, text[start : found.start()]
        mark, start = read, found.end()
    if start < len(text):
        yield mark, text[start:]


def _read(found: re.Match[str]) -> Mark | None:
    try:
        step = json.loads(f'"{found[3]}"')
    except ValueError:
        return None
    stream: Stream = found[2]  # type: ignore[assignment] # the regular expression matches only streams
    return Mark(int(found[1]), stream, step)


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────


STREAMS = get_args(Stream)


class Record(NamedTuple):
    """Some text of one stream that arrived at one time."""

    at: Micros
    stream: Stream
    step: str
    text: str


def encode(record: Record) -> bytes:
    """Return the record as a line of JSON.

    >>> encode(Record(1, "out", "build", "done\\n"))
    b'[1,"out","build","done\\\\n"]\\n'
    """
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace") + b"\n"


def append(path: Path, record: Record) -> None:
    """Append a record to a file. A new file is private to its owner. Raise `OSError` for a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "ab") as file:
        file.write(encode(record))


def decode(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records of complete lines. Skip incomplete lines: the last line while the file is written, or a line
    whose writer was killed.

    >>> list(decode([b'[1,"out","","a"]\\n', b'[2,"ou', b"[]\\n"]))
    [Record(at=1, stream='out', step='', text='a')]
    """
    for line in lines:
        record = _record(line) if line.endswith(b"\n") else None
        if record is not None:
            yield record


def _record(line: bytes) -> Record | None:
    try:
        at, stream, step, text = json.loads(line)
    except (ValueError, TypeError):
        return None
    if not (type(at) is int and stream in STREAMS and type(step) is str and type(text) is str):
        return None
    return Record(at, stream, step, text)
