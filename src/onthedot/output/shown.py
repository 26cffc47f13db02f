"""Bytes become text; and what is shown of a program that says too much."""

from __future__ import annotations

from collections.abc import Mapping

from onthedot.clock import SECOND, Micros
from onthedot.output.records import Stream
from onthedot.output.redact import Redactor

EACH_SECOND = 256 << 10
"""In bytes: what comes faster is not shown to who looks on while the program runs."""


class Characters:
    """Decodes UTF-8 in pieces. What is none becomes U+FFFD.

    >>> characters = Characters()
    >>> characters.feed(b"caf\\xc3"), characters.feed(b"\\xa9\\xff"), characters.close()
    ('caf', 'é\ufffd', '')
    """

    def __init__(self, begun: bytes = b"") -> None:
        self._begun = begun  # the beginning of a character whose end is still to come

    def feed(self, data: bytes) -> str:
        """The text of what has come in full."""
        if not data:
            return ""
        if self._begun:
            data = self._begun + data
        end = _whole_until(data)
        self._begun = data[end:]
        return (data if end == len(data) else data[:end]).decode(errors="replace")

    def close(self, data: bytes = b"") -> str:
        """The last piece, and what had begun."""
        rest, self._begun = self._begun + data, b""
        return rest.decode(errors="replace")

    def copy(self) -> Characters:
        """Another one that goes on from here."""
        return Characters(self._begun)


def _whole_until(data: bytes) -> int:
    """Where the last character starts, if its end is still to come; else the end.

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


class Shown:
    """What is shown of streams whose records are full: redacted, and not more than people can read."""

    def __init__(self, redactors: Mapping[Stream, Redactor], characters: Mapping[Stream, Characters]) -> None:
        self._redactors = {stream: redactor.copy() for stream, redactor in redactors.items()}
        self._characters = {stream: begun.copy() for stream, begun in characters.items()}
        self._since: Micros = 0
        self._bytes = 0

    def feed(self, stream: Stream, data: bytes, now: Micros) -> str:
        """Some bytes came; the text that may be shown now."""
        if not 0 <= now - self._since < SECOND:
            self._since, self._bytes = now, 0
        self._bytes += len(data)
        if self._bytes > EACH_SECOND:
            self._redactors[stream].skip(data)
            return ""
        return self._characters[stream].feed(self._redactors[stream].feed(data))

    def close(self) -> list[tuple[Stream, str]]:
        """What was held back."""
        return [(stream, self._characters[stream].close(one.close())) for stream, one in self._redactors.items()]
