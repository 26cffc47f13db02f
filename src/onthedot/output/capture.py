"""Record what a program says, as it says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from onthedot.clock import Micros
from onthedot.output.records import Record, Stream, encode


class Capture:
    """Appends one program's output to a record. Used in the guard's process, from one thread."""

    def __init__(
        self, path: Path, *, step: str, limit: int, secrets: Sequence[str], clock: Callable[[], Micros]
    ) -> None:
        del limit, secrets  # not yet
        self._file = path.open("ab")
        self._step = step
        self._clock = clock

    def feed(self, stream: Stream, data: bytes) -> str:
        """Some bytes came; the text that may be shown now."""
        text = data.decode(errors="replace")
        self._file.write(encode(Record(self._clock(), stream, self._step, text)))
        return text

    def close(self) -> str:
        """Nothing more will come; what may be shown now, and was held back so far."""
        self._file.close()
        return ""
