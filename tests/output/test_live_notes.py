"""Notes of live lines: each line keeps its instant, stream and step, and the note stays within its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.output.display import safe
from onthedot.output.log_positions import LogPosition, Part, in_records, known, note_pieces, note_records, read_note
from onthedot.output.records import WINDOW, Mark, Record, Stream, encode_mark, split_marked, without_marks
from onthedot.runners.notes import LOG_LIMIT, BoundedLog

FORGED = encode_mark(Mark(7, "otd", "forged"))
STREAMS: list[Stream] = ["out", "err", "otd", "log"]

texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["", "\n", "a\n\nb", FORGED, f"\n{FORGED}x", "\x1b_otd;", "\x1b\\", "\x00\x1b[31m", "\ud800", "…"]),
)
marks = st.builds(Mark, st.integers(0, 10**16), st.sampled_from(STREAMS), st.text(max_size=8))


def stored(text: str) -> str:
    return without_marks(text.encode(errors="backslashreplace").decode())


@given(st.lists(st.tuples(texts, marks), max_size=20))
def test_every_line_is_read_back_with_its_stream_and_step(said: list[tuple[str, Mark]]):
    log = BoundedLog()
    for text, mark in said:
        log.add(text, mark)
    text, records = note_records(read_note(log.text()))
    assert text == "".join(stored(one) + "\n" for one, _ in said)
    assert "".join(record.text for record in records or ()) == text
    found = [(record.stream, record.step) for record in records or () for _ in record.text]
    told = [(mark.stream, mark.step) for one, mark in said for _ in stored(one) + "\n"]
    steps = [step.encode(errors="surrogatepass") for _, step in told]
    assert [stream for stream, _ in found] == [stream for stream, _ in told]
    assert [step.encode(errors="surrogatepass") for _, step in found] == steps


@given(st.lists(st.tuples(texts, marks), max_size=60), st.integers(200, 600))
def test_a_note_stays_within_its_limit_and_counts_what_it_leaves_out(said: list[tuple[str, Mark]], limit: int):
    log = BoundedLog(limit)
    for text, mark in said:
        log.add(text, mark)
        assert len(log.text()) <= limit + 50  # 50: the line that counts what is left out
    parts = read_note(log.text())
    whole = "".join(stored(one) + "\n" for one, _ in said)
    if parts:
        assert parts[-1].start + len(parts[-1].text) == len(whole)
    for start, text, mark_of_part in parts:
        assert whole[start : start + len(text)] == text
        assert mark_of_part is not None


def test_lines_of_one_moment_share_a_mark():
    log = BoundedLog()
    for number in range(3):
        log.add(f"line {number}", Mark(number * WINDOW // 2, "out", "build"))
    assert read_note(log.text()) == (
        Part(0, "line 0\nline 1\n", Mark(0, "out", "build")),
        Part(14, "line 2\n", Mark(WINDOW, "out", "build")),
    )


def test_a_long_note_keeps_the_marks_of_its_beginning_and_end():
    log = BoundedLog()
    for number in range(10_000):
        log.add(f"line {number}", Mark(number * 1_000, "out" if number % 50 else "err", "build"))
    assert len(log.text()) <= LOG_LIMIT + 50
    text, records = note_records(read_note(log.text()))
    assert records is not None
    assert "".join(record.text for record in records) == text
    assert records[0] == Record(0, "err", "build", "line 0\n")
    assert (records[-1].stream, records[-1].text.endswith("line 9999\n")) == ("out", True)
    [gap] = [record for record in records if "left out" in record.text]
    assert (gap.stream, gap.text.count("\n")) == ("otd", 1)


def test_a_note_of_an_older_version_is_text_without_marks():
    note = "one\n[… 100 characters left out …]\nlast\n"
    assert read_note(note) == (Part(0, "one\n"), Part(104, "last\n"))
    assert note_records(read_note(note)) == (note, None)
    assert note_records(read_note("")) == ("", None)


def test_a_note_begun_before_an_upgrade_is_read_whole():
    parts = read_note("old\n" + encode_mark(Mark(5, "err", "s")) + "new\n")
    assert parts == (Part(0, "old\n"), Part(4, "new\n", Mark(5, "err", "s")))
    assert note_records(parts) == ("old\nnew\n", None)


def test_an_older_reader_shows_no_marks():
    """An older reader removes control strings to protect the terminal, and a mark is one."""
    assert safe(f"{encode_mark(Mark(5, 'err', 'städte; 100%'))}text\n") == "text\n"


@pytest.mark.parametrize(
    "damaged", ["\x1b_otd;x;out;\x1b\\", "\x1b_otd;1;in;\x1b\\", '\x1b_otd;1;out;"\x1b\\', "\x1b_otd;1;out;"]
)
def test_a_damaged_mark_is_text(damaged: str):
    assert list(split_marked(f"{damaged}a\n")) == [(None, f"{damaged}a\n")]


def test_positions_count_text_without_marks():
    note = encode_mark(Mark(1, "out", "a")) + "one\n" + encode_mark(Mark(2, "err", "b")) + "two\n"
    pieces = list(note_pieces(read_note(note), LogPosition(1, "n", 2)))
    assert [(piece.text, str(piece.place), piece.record and piece.record[:3]) for piece in pieces] == [
        ("e\n", "1.n.4", (1, "out", "a")),
        ("two\n", "1.n.8", (2, "err", "b")),
    ]
    assert str(in_records(LogPosition(1, "n", 6), read_note(note), "one\ntwo\nthree\n")) == "1.r.6"


def test_a_text_with_a_forged_mark_is_found_in_the_records():
    said = f"before\n{FORGED}text\n"
    log = BoundedLog()
    log.add(said, Mark(1, "out"))
    [part] = read_note(log.text())
    assert known(part.text.removesuffix("\n"), f"{said}more\n") == len(said)
