"""Where somebody has come to who follows the output of a run, and what there is for them beyond it. Pure.

While an attempt runs, what it has said is a *note*: text of which the middle may be left out, so that its beginning and
its end are there. When it is over and its output is kept, there are *records*, with all of it. Both are counted in
characters from the beginning, what is left out of a note included; so a place stays a place while a note grows, and
whoever knows only the place can go on from there, at any server.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from onthedot.output.records import Record

LARGEST = 16 * 1024
"""How many characters one piece has at the most."""

_GAP = re.compile(r"^\[… (\d{1,15}) characters left out …\]\n", re.MULTILINE)
_PLACE = re.compile(r"(\d{1,6})\.([nr])\.(\d{1,15})")
_KNOWN = 400  # characters that are looked for, to find where a text went on that has lost its middle


class Place(NamedTuple):
    """Behind so many characters of an attempt's note (`n`), or of its records (`r`)."""

    attempt: int = 1
    of: Literal["n", "r"] = "n"
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}.{self.of}.{self.offset}"


def read_place(text: str) -> Place | None:
    """
    >>> read_place("2.r.70"), read_place("2.x.1")
    (Place(attempt=2, of='r', offset=70), None)
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    return Place(int(found[1]), "r" if found[2] == "r" else "n", int(found[3]))


class Piece(NamedTuple):
    """Some text, where one is when one has read it, and what is known of it: nothing, if it is from a note."""

    text: str
    place: Place
    record: Record | None = None
    left_out: int = 0  # characters that were passed over before it


class Part(NamedTuple):
    """Some of a note, and how many characters of it came before."""

    start: int
    text: str


def read_note(note: str) -> tuple[Part, ...]:
    """The beginning of a note, and its end if its middle is left out.

    >>> read_note("abc\\n[… 90 characters left out …]\\nxyz\\n")
    (Part(start=0, text='abc\\n'), Part(start=94, text='xyz\\n'))
    """
    gap = _GAP.search(note)
    if gap is None:
        return (Part(0, note),) if note else ()
    return Part(0, note[: gap.start()]), Part(gap.start() + int(gap[1]), note[gap.end() :])


def note_pieces(parts: Sequence[Part], place: Place) -> Iterator[Piece]:
    """What a note has beyond a place.

    >>> parts = [Part(0, "abc\\n"), Part(94, "xyz\\n")]
    >>> [(piece.text, piece.place.offset, piece.left_out) for piece in note_pieces(parts, Place(1, "n", 2))]
    [('c\\n', 4, 0), ('xyz\\n', 98, 90)]
    >>> [(piece.text, piece.place.offset, piece.left_out) for piece in note_pieces(parts, Place(1, "n", 95))]
    [('yz\\n', 98, 0)]
    """
    reached = place.offset
    for start, text in parts:
        end = start + len(text)
        if end <= reached:
            continue
        left_out = max(0, start - reached)
        reached = max(reached, start)
        while reached < end:
            piece = text[reached - start : reached - start + LARGEST]
            reached += len(piece)
            yield Piece(piece, Place(place.attempt, "n", reached), None, left_out)
            left_out = 0


class Log(NamedTuple):
    """The records of an attempt, and where each of them begins."""

    records: Sequence[Record]
    starts: Sequence[int]
    size: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> Log:
        """Count them."""
        starts, size = [], 0
        for record in records:
            starts.append(size)
            size += len(record.text)
        return cls(records, starts, size)


def record_pieces(log: Log, place: Place) -> Iterator[Piece]:
    """What records have beyond a place of theirs.

    >>> log = Log.of([Record(1, "out", "", "abc"), Record(2, "err", "", "de")])
    >>> [(piece.text, str(piece.place)) for piece in record_pieces(log, Place(1, "r", 2))]
    [('c', '1.r.3'), ('de', '1.r.5')]
    """
    first = max(0, bisect_right(log.starts, place.offset) - 1)
    for number in range(first, len(log.records)):
        record, start = log.records[number], log.starts[number]
        reached, end = max(start, place.offset), start + len(record.text)
        while reached < end:
            piece = record.text[reached - start : reached - start + LARGEST]
            reached += len(piece)
            yield Piece(piece, Place(place.attempt, "r", reached), record)


def in_records(place: Place, parts: Sequence[Part], text: str) -> Place:
    """A place in a note as one in the records of the same attempt, whose text this is. What was seen is looked for;
    line ends do not count, because a note has one behind each thing that was said.

    >>> str(in_records(Place(1, "n", 3), [Part(0, "ab\\ncd\\n")], "abcd\\nef"))
    '1.r.2'
    """
    seen = [part.text[: place.offset - part.start] for part in parts if part.start < place.offset]
    return Place(place.attempt, "r", known(seen[-1], text) if seen else 0)


def known(seen: str, text: str) -> int:
    """How much of the text was there before, from its beginning on. Line ends do not count.

    >>> known("ab", "abcd"), known("", "abcd"), known("a\\nb\\n", "ab\\ncd"), known("xy", "abcd")
    (2, 0, 3, 0)
    """
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
            break  # the one behind what was seen, not those that come after it
    return at
