"""A record of what a program said: lines of JSON, each `[instant, stream, step, text]`, in the order of their arrival.

The instant is in microseconds of this machine's clock; the stream is `out`, `err`, or `otd` for remarks of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from onthedot.clock import Micros

Stream = Literal["out", "err", "otd"]


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


def decode(lines: Iterable[bytes]) -> Iterator[Record]:
    """Whole lines; the last one of a file that is being written may be cut, and is left out."""
    for line in lines:
        if line.endswith(b"\n"):
            yield Record(*json.loads(line))
