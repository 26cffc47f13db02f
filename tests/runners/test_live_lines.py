"""The output of programs becomes lines of their run's log: in order, each with its instant, stream and step."""

from __future__ import annotations

from typing import Any

from onthedot.output.records import Mark, Stream
from onthedot.runners.context import LONGEST_LINE, LiveLines


class RecordingContext:
    """A context that only records."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, Stream, str]] = []

    def _log_as(self, mark: Mark, text: str) -> None:
        assert mark.step == "build"
        self.lines.append((mark.at, mark.stream, text))


def lines_of(*pieces: tuple[int, Stream, str]) -> list[tuple[int, Stream, str]]:
    context: Any = RecordingContext()
    live = LiveLines(context, "build")
    for one in pieces:
        live.say(*one)
    live.flush()
    lines: list[tuple[int, Stream, str]] = context.lines
    return lines


def test_whole_lines_are_logged_at_once_and_a_partial_one_when_it_ends():
    assert lines_of((1, "out", "a\nb\nc"), (2, "out", "d"), (3, "out", "e\nf\n")) == [
        (1, "out", "a\nb"), (1, "out", "cde"), (3, "out", "f"),
    ]  # fmt: skip
    assert lines_of((1, "out", "a"), (2, "out", "\n\n"), (3, "out", "\n")) == [
        (1, "out", "a"), (2, "out", ""), (3, "out", ""),
    ]  # fmt: skip


def test_two_streams_do_not_share_a_line_and_keep_their_order():
    assert lines_of((1, "out", "half"), (2, "err", "oh\nno"), (3, "out", " whole\n")) == [
        (1, "out", "half"), (2, "err", "oh"), (2, "err", "no"), (3, "out", " whole"),
    ]  # fmt: skip


def test_a_very_long_line_is_logged_in_pieces():
    long = "x" * (LONGEST_LINE + 1)
    assert lines_of((1, "out", long), (2, "out", "y\n")) == [(1, "out", long), (2, "out", "y")]
    halves = lines_of((1, "out", long[:5000]), (2, "out", long[5000:]), (3, "out", "y"))
    assert halves == [(1, "out", long), (3, "out", "y")]


def test_empty_output_makes_no_line():
    assert lines_of((1, "out", ""), (2, "err", "")) == []
