"""Encodes and decodes records of output: lines of JSON, each `[instant, stream, step, text]`, in order of arrival.

The instant is in microseconds of this machine's clock. The stream is `out`, `err`, or `otd` for our own remarks. A
handler's log lines have the stream `log`. They are in no file: the store keeps them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from onthedot.clock import Micros
from onthedot.output.line_marks import Stream as Stream

STREAMS = get_args(Stream)


class Record(NamedTuple):
    """Some text of one stream that arrived at one time."""

    at: Micros
    stream: Stream
    step: str
    text: str


def encode(record: Record) -> bytes:
    """
    >>> encode(Record(1, "out", "build", "done\\n"))
    b'[1,"out","build","done\\\\n"]\\n'
    """
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace") + b"\n"


def append(path: Path, record: Record) -> None:
    """Append a record to a file. Makes the file for its owner alone, and does not follow a link (`OSError`)."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "ab") as file:
        file.write(encode(record))


def decode(lines: Iterable[bytes]) -> Iterator[Record]:
    """The records of whole lines. Leaves out lines that are cut: the last one of a file that is still written, or one
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
