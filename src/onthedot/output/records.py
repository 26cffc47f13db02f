"""A record of what a program said: lines of JSON, each `[instant, stream, step, text]`, in the order of their arrival.

The instant is in microseconds of this machine's clock; the stream is `out`, `err`, or `otd` for remarks of ours. What
a handler logs has the stream `log`, and is in no file: the store keeps it.
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
    """Some text that came at once."""

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
    """Add to a record, which is made for its owner alone; a link in its place is not followed (`OSError`)."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "ab") as file:
        file.write(encode(record))


def decode(lines: Iterable[bytes]) -> Iterator[Record]:
    """Whole lines; the last one of a file that is being written may be cut, and one in the middle whose writer was
    killed: they are left out.

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
