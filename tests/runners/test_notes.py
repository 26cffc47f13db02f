"""Notes of a running attempt before they are written: its progress, log and checkpoint."""

import json
import threading

import pytest

from onthedot.model.errors import ArgumentsError
from onthedot.model.run import Progress
from onthedot.output.records import Mark, encode_mark
from onthedot.runners.notes import CHECKPOINT_LIMIT, LOG_LIMIT, BoundedLog, Notes, encode_checkpoint

SAID = Mark(1, "log")
MARK = encode_mark(SAID)


def test_a_short_log_is_kept_whole():
    log = BoundedLog()
    log.add("one")
    log.add("two\nthree")
    assert log.text() == "one\ntwo\nthree\n"


def test_a_long_log_keeps_its_first_and_last_lines():
    log = BoundedLog()
    for number in range(100_000):
        log.add(f"line {number}")
    text = log.text()
    assert len(text) <= LOG_LIMIT + 100
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 99998\nline 99999\n")
    [gap] = [line for line in text.splitlines() if "left out" in line]
    everything = sum(len(f"line {number}\n") for number in range(100_000))
    assert int(gap.split()[1]) == everything - (len(text) - len(gap) - 1)


def test_a_very_long_line_is_cut():
    log = BoundedLog(limit=100)
    log.add("x" * 1000)
    log.add("the end")
    assert len(log.text()) <= 200
    assert log.text().endswith("the end\n")


def test_text_that_cannot_be_stored_is_shown_escaped():
    log = BoundedLog()
    log.add("a \ud800 surrogate")
    assert log.text() == "a \\ud800 surrogate\n"


@pytest.mark.parametrize("value", [None, 7, "text", [1, {"page": 2}], 1.5, True])
def test_a_checkpoint_is_stored_as_json(value):
    assert json.loads(encode_checkpoint(value)) == value


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, b"bytes"])
def test_a_checkpoint_that_is_not_json_is_refused(value):
    with pytest.raises(ArgumentsError, match="checkpoint: expected JSON"):
        encode_checkpoint(value)


def test_a_checkpoint_one_character_over_the_limit_is_refused():
    assert len(encode_checkpoint("x" * (CHECKPOINT_LIMIT - 2))) == CHECKPOINT_LIMIT
    with pytest.raises(ArgumentsError, match="at most 65536 characters of JSON, got 65537"):
        encode_checkpoint("x" * (CHECKPOINT_LIMIT - 1))


def test_only_the_first_note_is_announced_until_the_notes_are_taken():
    notes = Notes(lease=None)  # type: ignore[arg-type]
    assert notes.progress(Progress(1)) is True
    assert notes.progress(Progress(2)) is False
    assert notes.log("half", SAID) is False
    taken = notes.take()
    assert (taken.number, taken.progress, taken.log) == (1, Progress(2), f"{MARK}half\n")
    assert notes.log("whole", SAID) is True
    assert notes.take()._replace(lease=None) == taken._replace(number=2, log=f"{MARK}half\nwhole\n")  # type: ignore[arg-type]


def test_lines_of_several_threads_are_all_kept():
    notes = Notes(lease=None)  # type: ignore[arg-type]
    threads = [threading.Thread(target=lambda: [notes.log("x", SAID) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes.take().log == MARK + "x\n" * 4000
