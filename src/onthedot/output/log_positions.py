"""Finds the output after a reader's position, for readers that follow the output of a run. Pure.

While an attempt runs, its output is a *note*: a text whose middle may be left out. When the attempt has ended and its
output is kept, *records* hold all of it. A position counts characters from the beginning. It counts text that a note
leaves out, and does not count marks (`records.py`). So a position stays valid while a note grows, and a reader can
continue from it at any server.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from onthedot.output.records import Mark, Record, split_marked, without_marks

LARGEST = 16 * 1024
"""The most characters of one piece."""

_GAP = re.compile(r"^\[… (\d{1,15}) characters left out …\]\n", re.MULTILINE)
_PLACE = re.compile(r"(\d{1,6})\.([nr])\.(\d{1,15})")
_KNOWN = 400  # characters to search for, to find where a text with a gap continues


class LogPosition(NamedTuple):
    """A position: the number of characters before it in an attempt's note (`n`) or records (`r`)."""

    attempt: int = 1
    of: Literal["n", "r"] = "n"
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}.{self.of}.{self.offset}"


def read_position(text: str) -> LogPosition | None:
    """Parse a position. Return None for other text.

    >>> read_position("2.r.70"), read_position("2.x.1")
    (LogPosition(attempt=2, of='r', offset=70), None)
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    return LogPosition(int(found[1]), "r" if found[2] == "r" else "n", int(found[3]))


class Piece(NamedTuple):
    """Some text, the position after it, and its record. The record is None if an older node wrote the note."""

    text: str
    place: LogPosition
    record: Record | None = None
    left_out: int = 0  # how many characters before it are left out


class Part(NamedTuple):
    """A part of a note: how many characters of the note come before it, its text, and its mark."""

    start: int
    text: str
    mark: Mark | None = None

    @property
    def record(self) -> Record | None:
        """Return the part as a record; None if it has no mark."""
        return None if self.mark is None else Record(*self.mark, self.text)


def read_note(note: str) -> tuple[Part, ...]:
    """Split a note into its parts, without marks. If the middle is left out, a new part starts after the gap.

    >>> read_note("abc\\n[… 90 characters left out …]\\nxyz\\n")
    (Part(start=0, text='abc\\n', mark=None), Part(start=94, text='xyz\\n', mark=None))
    """
    gap = _GAP.search(note)
    parts, end = _parts(note if gap is None else note[: gap.start()], 0)
    if gap is not None:
        parts += _parts(note[gap.end() :], end + int(gap[1]))[0]
    return tuple(parts)


def _parts(text: str, start: int) -> tuple[list[Part], int]:
    parts = []
    for mark, piece in split_marked(text):
        parts.append(Part(start, piece, mark))
        start += len(piece)
    return parts, start


def note_records(parts: Sequence[Part]) -> tuple[str, list[Record] | None]:
    """Return a note's text, with a line for each gap; and its records, or None if an older node wrote the note.

    >>> note_records(read_note("abc\\n[… 90 characters left out …]\\nxyz\\n"))
    ('abc\\n[… 90 characters left out …]\\nxyz\\n', None)
    """
    texts: list[str] = []
    records: list[Record] = []
    reached = 0
    for part in parts:
        gap = f"[… {part.start - reached} characters left out …]\n" if part.start > reached else ""
        reached = part.start + len(part.text)
        texts += [gap, part.text]
        if part.record is not None:
            records += [Record(part.record.at, "otd", "", gap)] if gap else []
            records.append(part.record)
    known_of_all = bool(parts) and all(part.mark is not None for part in parts)
    return "".join(texts), records if known_of_all else None


def note_pieces(parts: Sequence[Part], place: LogPosition) -> Iterator[Piece]:
    """Yield the text of a note after a position.

    >>> parts = [Part(0, "abc\\n"), Part(94, "xyz\\n")]
    >>> [(piece.text, piece.place.offset, piece.left_out) for piece in note_pieces(parts, LogPosition(1, "n", 2))]
    [('c\\n', 4, 0), ('xyz\\n', 98, 90)]
    >>> [(piece.text, piece.place.offset, piece.left_out) for piece in note_pieces(parts, LogPosition(1, "n", 95))]
    [('yz\\n', 98, 0)]
    """
    reached = place.offset
    for part in parts:
        start, text, _ = part
        end = start + len(text)
        if end <= reached:
            continue
        left_out = max(0, start - reached)
        reached = max(reached, start)
        while reached < end:
            piece = text[reached - start : reached - start + LARGEST]
            reached += len(piece)
            yield Piece(piece, LogPosition(place.attempt, "n", reached), part.record, left_out)
            left_out = 0


class Log(NamedTuple):
    """The records of an attempt, and the offset at which each begins."""

    records: Sequence[Record]
    starts: Sequence[int]
    size: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> Log:
        """Return the log of these records."""
        starts, size = [], 0
        for record in records:
            starts.append(size)
            size += len(record.text)
        return cls(records, starts, size)


def record_pieces(log: Log, place: LogPosition) -> Iterator[Piece]:
    """Yield the text of records after a position in them.

    >>> log = Log.of([Record(1, "out", "", "abc"), Record(2, "err", "", "de")])
    >>> [(piece.text, str(piece.place)) for piece in record_pieces(log, LogPosition(1, "r", 2))]
    [('c', '1.r.3'), ('de', '1.r.5')]
    """
    first = max(0, bisect_right(log.starts, place.offset) - 1)
    for number in range(first, len(log.records)):
        record, start = log.records[number], log.starts[number]
        reached, end = max(start, place.offset), start + len(record.text)
        while reached < end:
            piece = record.text[reached - start : reached - start + LARGEST]
            reached += len(piece)
            yield Piece(piece, LogPosition(place.attempt, "r", reached), record)


def in_records(place: LogPosition, parts: Sequence[Part], text: str) -> LogPosition:
    """Return the position in an attempt's records that matches a position in its note. `text` is the records' text.
    This searches it for the text that the reader has seen. It ignores line ends, because a note has one after each
    piece of output.

    >>> str(in_records(LogPosition(1, "n", 3), [Part(0, "ab\\ncd\\n")], "abcd\\nef"))
    '1.r.2'
    """
    seen, end = "", 0
    for part in parts:
        if part.start < place.offset:
            seen = (seen if part.start == end else "") + part.text[: place.offset - part.start]
            end = part.start + len(part.text)
    return LogPosition(place.attempt, "r", known(seen, text) if seen else 0)


def known(seen: str, text: str) -> int:
    """Return how many characters at the beginning of the text were seen before. It ignores line ends.

    >>> known("ab", "abcd"), known("", "abcd"), known("a\\nb\\n", "ab\\ncd"), known("xy", "abcd")
    (2, 0, 3, 0)
    """
    text = without_marks(text)  # as in a note
    if text.startswith(seen):
        return len(seen)
    squeezed, seen_squeezed = text.replace("\n", ""), seen.replace("\n", "")
    end = seen_squeezed[-_KNOWN:]
    reached = len(seen_squeezed) if squeezed.startswith(seen_squeezed) else squeezed.rfind(end) + len(end)
    if reached < len(end) or not end:
        return 0
    at = reached
    for number, line_end in enumerate(re.finditer("\n", text)):
        if line_end.start() - number > reached or (line_end.start() - number == reached and not seen.endswith("\n")):
            break
        at += 1
        if line_end.start() - number == reached:
            break  # only the first one after the known text
    return at
