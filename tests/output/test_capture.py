"""Captures of program output: whole, or head and tail past the limit; redacted; in bounded memory."""

from __future__ import annotations

import base64
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onthedot.clock import MILLISECOND, SECOND
from onthedot.output.capture import LARGEST, LEAST, Capture
from onthedot.output.records import WINDOW, Record, Stream, decode

LIMIT = 10 << 20


class Watch:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def open_capture(
    path: Path, watch: Watch, *, step: str = "", limit: int = LIMIT, secrets: tuple[str, ...] = ()
) -> Capture:
    return Capture(path, step=step, limit=limit, secrets=secrets, clock=watch)


def records(path: Path) -> list[Record]:
    return list(decode(path.read_bytes().splitlines(keepends=True)))


def text(path: Path, *streams: Stream) -> str:
    return "".join(record.text for record in records(path) if record.stream in (streams or ("out", "err")))


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_record_has_its_instant_stream_and_step(path: Path, watch: Watch):
    capture = open_capture(path, watch, step="build")
    assert capture.feed("out", b"hello\n") == "hello\n"
    watch.now += 1 * SECOND
    assert capture.feed("err", b"oh\n") == "oh\n"
    assert capture.close() == []
    assert records(path) == [
        Record(1_000 * SECOND, "out", "build", "hello\n"),
        Record(1_001 * SECOND, "err", "build", "oh\n"),
    ]


def test_single_bytes_share_records(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    for _ in range(10_000):
        capture.feed("out", b"x")
        watch.now += 50
    capture.close()
    assert text(path) == "x" * 10_000
    assert len(records(path)) <= 10_000 * 50 // WINDOW + 1


def test_slow_output_is_written_at_the_next_feed_or_tick(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"first ")
    capture.tick()
    assert not path.exists()
    watch.now += 200 * MILLISECOND
    capture.feed("out", b"second ")
    assert text(path) == "first "
    watch.now += 200 * MILLISECOND
    capture.tick()
    assert text(path) == "first second "
    capture.close()


def test_output_is_written_although_the_clock_is_set_back(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"first ")
    watch.now -= 3_600 * SECOND
    capture.tick()
    assert text(path) == "first "
    capture.close()


def test_streams_stay_in_the_order_of_arrival(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    for number in range(5):
        capture.feed("out", b"o%d " % number)
        capture.feed("err", b"e%d " % number)
    capture.close()
    assert text(path) == "o0 e0 o1 e1 o2 e2 o3 e3 o4 e4 "


def test_cut_characters_are_joined_and_invalid_bytes_are_replaced(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    shown = "".join(capture.feed("out", bytes([byte])) for byte in "a☃é😀".encode())
    shown += capture.feed("out", b"\xff|\xe2\x98") + "".join(text for _, text in capture.close())
    assert shown == text(path) == "a☃é😀\ufffd|\ufffd"


def test_large_output_is_split_into_records_of_bounded_size(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"x" * (1 << 20))
    capture.close()
    assert max(len(record.text) for record in records(path)) <= LARGEST
    assert len(text(path)) == 1 << 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["out", "err"]), st.binary(max_size=20), st.integers(0, 300)), max_size=30))
def test_output_within_the_limit_is_recorded_whole(tmp_path: Path, said: list[tuple[Stream, bytes, int]]):
    path, watch = tmp_path / "log", Watch()
    path.unlink(missing_ok=True)
    capture = open_capture(path, watch)
    for stream, data, wait in said:
        capture.feed(stream, data)
        watch.now += wait * MILLISECOND
    capture.close()
    assert path.exists() == any(data for _, data, _ in said)
    for stream in ("out", "err") if path.exists() else ():
        assert text(path, stream) == b"".join(data for of, data, _ in said if of == stream).decode(errors="replace")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_past_the_limit_head_and_tail_are_kept_and_the_cut_is_marked(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=100_000)
    lines = [b"line %06d\n" % number for number in range(30_000)]
    for line in lines:
        capture.feed("out", line)
        watch.now += 10
    capture.close()
    whole = b"".join(lines).decode()
    [remark] = [record for record in records(path) if record.stream == "otd"]
    at = records(path).index(remark)
    head = "".join(record.text for record in records(path)[:at])
    tail = "".join(record.text for record in records(path)[at + 1 :])
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert min(len(head), len(tail)) > 40_000
    assert f"{len(whole) - len(head) - len(tail):,} bytes" in remark.text
    assert path.stat().st_size <= 100_000 + 200


def test_output_just_below_the_limit_is_not_cut(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=10_000)
    capture.feed("out", b"x" * 9_000)
    capture.close()
    assert text(path) == "x" * 9_000
    assert text(path, "otd") == ""


def test_the_limit_counts_bytes_after_escaping(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=1 << 20)
    for _ in range(100):
        capture.feed("out", bytes(1 << 16))  # each byte is \u0000 in JSON
        capture.feed("err", b"!")
    capture.close()
    assert path.stat().st_size <= (1 << 20) + 200
    assert records(path)[-1].text == "!"


@pytest.mark.slow
def test_alternating_single_bytes_on_two_streams_stay_within_the_limit(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=128 << 10)
    tracemalloc.start()
    for _ in range(20_000):
        capture.feed("out", b"o")
        capture.feed("err", b"e")
    assert tracemalloc.get_traced_memory()[1] < 512 << 10
    tracemalloc.stop()
    capture.close()
    assert path.stat().st_size <= (128 << 10) + 200


def test_memory_stays_bounded_for_huge_output(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=1 << 20, secrets=("hunter2",))
    piece = b"no line ends here " * 3_641
    tracemalloc.start()
    for _ in range(3_000):  # 200 MB
        capture.feed("out", piece)
        watch.now += 10
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()
    capture.close()
    assert path.stat().st_size <= (1 << 20) + 200


def test_programs_of_one_attempt_share_its_limit_and_each_has_a_little_room(path: Path, watch: Watch):
    for step in ("a", "b", "c"):
        capture = open_capture(path, watch, step=step, limit=300_000)
        for _ in range(40):
            capture.feed("out", b"x" * 10_000)
        capture.close()
    assert path.stat().st_size <= 300_000 + 2 * LEAST + 1_000
    assert {record.step for record in records(path) if record.stream == "out"} == {"a", "b", "c"}


def test_past_the_limit_live_output_shows_all_of_slow_and_part_of_fast_programs(path: Path, watch: Watch):
    capture = open_capture(path, watch, limit=10_000, secrets=("hunter2",))
    capture.feed("out", b"x" * 10_000)
    watch.now += 1 * SECOND
    assert capture.feed("out", b"still here: hunt") == "still here: "
    assert capture.feed("out", b"er2\n") == "***\n"
    fast = sum(len(capture.feed("out", b"y" * 60_000)) for _ in range(100))
    assert fast < 300_000
    watch.now += 1 * SECOND
    assert capture.feed("out", b"slow again\n") == "slow again\n"
    capture.close()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "corr&ct/horse"


@pytest.mark.parametrize("limit", [200, 400, 1_000, LIMIT])
@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_no_secret_is_kept_or_shown_wherever_the_limit_cuts(path: Path, watch: Watch, limit: int, size: int):
    encoded = base64.b64encode(SECRET.encode())
    said = b"".join(b"%d %s %s\n" % (number, SECRET.encode(), encoded) for number in range(40))
    for shift in range(0, 60, 7):
        path.unlink(missing_ok=True)
        capture = open_capture(path, watch, limit=limit, secrets=(SECRET,))
        data = b"." * shift + said
        shown = "".join(capture.feed("out", data[at : at + size]) for at in range(0, len(data), size))
        shown += "".join(text for _, text in capture.close())
        for kept in (shown, text(path), path.read_text()):
            for part in (SECRET[:6], SECRET[-6:], encoded.decode()[:6], encoded.decode()[-6:]):
                assert part not in kept


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_owner_can_read_the_file(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"mine")
    capture.close()
    capture.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_program_without_output_leaves_no_file(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"")
    assert capture.close() == []
    assert not path.exists()


def test_output_is_still_shown_if_the_file_cannot_be_created(tmp_path: Path, watch: Watch):
    capture = open_capture(tmp_path / "nowhere" / "log", watch)
    assert capture.feed("out", b"hello") == "hello"
    capture.close()


def test_a_link_is_not_followed(tmp_path: Path, path: Path, watch: Watch):
    target = tmp_path / "precious"
    target.write_text("mine")
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        open_capture(path, watch)
    assert target.read_text() == "mine"


def test_a_new_capture_continues_after_a_line_cut_by_a_kill(path: Path, watch: Watch):
    capture = open_capture(path, watch)
    capture.feed("out", b"before ")
    capture.close()
    with path.open("ab") as file:
        file.write(b'[1,"out","","half')
    capture = open_capture(path, watch)
    capture.feed("out", b"after")
    capture.close()
    assert text(path) == "before after"


def test_output_is_still_shown_if_the_disk_is_full(watch: Watch):
    if not os.access("/dev/full", os.W_OK):
        pytest.fail("expected /dev/full, to write to a full disk")
    capture = open_capture(Path("/dev/full"), watch)
    assert capture.feed("out", b"x" * 100_000) == "x" * 100_000
    assert capture.close() == []
