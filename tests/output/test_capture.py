"""What a program says is recorded: whole or head and tail, redacted, in bounded memory."""

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
    """A clock that stands until it is turned."""

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


def capture(path: Path, watch: Watch, *, step: str = "", limit: int = LIMIT, secrets: tuple[str, ...] = ()) -> Capture:
    return Capture(path, step=step, limit=limit, secrets=secrets, clock=watch)


def records(path: Path) -> list[Record]:
    return list(decode(path.read_bytes().splitlines(keepends=True)))


def text(path: Path, *streams: Stream) -> str:
    return "".join(record.text for record in records(path) if record.stream in (streams or ("out", "err")))


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_records_instant_stream_and_step(path: Path, watch: Watch):
    told = capture(path, watch, step="build")
    assert told.feed("out", b"hello\n") == "hello\n"
    watch.now += 1 * SECOND
    assert told.feed("err", b"oh\n") == "oh\n"
    assert told.close() == []
    assert records(path) == [
        Record(1_000 * SECOND, "out", "build", "hello\n"),
        Record(1_001 * SECOND, "err", "build", "oh\n"),
    ]


def test_single_bytes_make_no_record_each(path: Path, watch: Watch):
    told = capture(path, watch)
    for _ in range(10_000):
        told.feed("out", b"x")
        watch.now += 50
    told.close()
    assert text(path) == "x" * 10_000
    assert len(records(path)) <= 10_000 * 50 // WINDOW + 1


def test_what_comes_slowly_is_in_the_file_when_it_is_fed_or_ticked(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"first ")
    told.tick()
    assert not path.exists()
    watch.now += 200 * MILLISECOND
    told.feed("out", b"second ")
    assert text(path) == "first "
    watch.now += 200 * MILLISECOND
    told.tick()
    assert text(path) == "first second "
    told.close()


def test_a_clock_that_is_set_back_holds_nothing_up(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"first ")
    watch.now -= 3_600 * SECOND
    told.tick()
    assert text(path) == "first "
    told.close()


def test_the_streams_stay_in_the_order_of_their_arrival(path: Path, watch: Watch):
    told = capture(path, watch)
    for number in range(5):
        told.feed("out", b"o%d " % number)
        told.feed("err", b"e%d " % number)
    told.close()
    assert text(path) == "o0 e0 o1 e1 o2 e2 o3 e3 o4 e4 "


def test_characters_may_be_cut_and_bytes_may_be_no_text(path: Path, watch: Watch):
    told = capture(path, watch)
    shown = "".join(told.feed("out", bytes([byte])) for byte in "a☃é😀".encode())
    shown += told.feed("out", b"\xff|\xe2\x98") + "".join(text for _, text in told.close())
    assert shown == text(path) == "a☃é😀\ufffd|\ufffd"


def test_no_record_is_larger_than_a_reader_wants(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"x" * (1 << 20))
    told.close()
    assert max(len(record.text) for record in records(path)) <= LARGEST
    assert len(text(path)) == 1 << 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["out", "err"]), st.binary(max_size=20), st.integers(0, 300)), max_size=30))
def test_everything_within_the_bound_is_there(tmp_path: Path, said: list[tuple[Stream, bytes, int]]):
    path, watch = tmp_path / "log", Watch()
    path.unlink(missing_ok=True)
    told = capture(path, watch)
    for stream, data, wait in said:
        told.feed(stream, data)
        watch.now += wait * MILLISECOND
    told.close()
    assert path.exists() == any(data for _, data, _ in said)
    for stream in ("out", "err") if path.exists() else ():
        assert text(path, stream) == b"".join(data for of, data, _ in said if of == stream).decode(errors="replace")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_past_the_bound_the_head_and_the_tail_are_kept_and_the_cut_is_marked(path: Path, watch: Watch):
    told = capture(path, watch, limit=100_000)
    lines = [b"line %06d\n" % number for number in range(30_000)]
    for line in lines:
        told.feed("out", line)
        watch.now += 10
    told.close()
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


def test_what_just_fits_is_not_cut_and_what_just_does_not_loses_little(path: Path, watch: Watch):
    told = capture(path, watch, limit=10_000)
    told.feed("out", b"x" * 9_000)
    told.close()
    assert text(path) == "x" * 9_000
    assert text(path, "otd") == ""


def test_what_takes_more_room_than_it_has_bytes_is_bounded_too(path: Path, watch: Watch):
    told = capture(path, watch, limit=1 << 20)
    for _ in range(100):
        told.feed("out", bytes(1 << 16))  # each byte is \u0000 in JSON
        told.feed("err", b"!")
    told.close()
    assert path.stat().st_size <= (1 << 20) + 200
    assert records(path)[-1].text == "!"


@pytest.mark.slow
def test_a_program_that_changes_its_stream_with_every_byte_is_bounded(path: Path, watch: Watch):
    told = capture(path, watch, limit=128 << 10)
    tracemalloc.start()
    for _ in range(20_000):
        told.feed("out", b"o")
        told.feed("err", b"e")
    assert tracemalloc.get_traced_memory()[1] < 512 << 10
    tracemalloc.stop()
    told.close()
    assert path.stat().st_size <= (128 << 10) + 200


def test_a_gigabyte_takes_the_memory_of_its_tail(path: Path, watch: Watch):
    told = capture(path, watch, limit=1 << 20, secrets=("hunter2",))
    piece = b"no line ends here " * 3_641
    tracemalloc.start()
    for _ in range(3_000):  # 200 MB are as good as a gigabyte
        told.feed("out", piece)
        watch.now += 10
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()
    told.close()
    assert path.stat().st_size <= (1 << 20) + 200


def test_the_programs_of_one_attempt_share_its_bound_and_each_has_room_for_a_little(path: Path, watch: Watch):
    for step in ("a", "b", "c"):
        told = capture(path, watch, step=step, limit=300_000)
        for _ in range(40):
            told.feed("out", b"x" * 10_000)
        told.close()
    assert path.stat().st_size <= 300_000 + 2 * LEAST + 1_000
    assert {record.step for record in records(path) if record.stream == "out"} == {"a", "b", "c"}


def test_who_looks_on_sees_a_slow_program_behind_the_bound_and_not_all_of_a_fast_one(path: Path, watch: Watch):
    told = capture(path, watch, limit=10_000, secrets=("hunter2",))
    told.feed("out", b"x" * 10_000)
    watch.now += 1 * SECOND
    assert told.feed("out", b"still here: hunt") == "still here: "
    assert told.feed("out", b"er2\n") == "***\n"
    fast = sum(len(told.feed("out", b"y" * 60_000)) for _ in range(100))
    assert fast < 300_000
    watch.now += 1 * SECOND
    assert told.feed("out", b"slow again\n") == "slow again\n"
    told.close()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "corr&ct/horse"


@pytest.mark.parametrize("limit", [200, 400, 1_000, LIMIT])
@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_no_secret_is_kept_or_shown_wherever_the_bound_cuts(path: Path, watch: Watch, limit: int, size: int):
    encoded = base64.b64encode(SECRET.encode())
    said = b"".join(b"%d %s %s\n" % (number, SECRET.encode(), encoded) for number in range(40))
    for shift in range(0, 60, 7):
        path.unlink(missing_ok=True)
        told = capture(path, watch, limit=limit, secrets=(SECRET,))
        data = b"." * shift + said
        shown = "".join(told.feed("out", data[at : at + size]) for at in range(0, len(data), size))
        shown += "".join(text for _, text in told.close())
        for kept in (shown, text(path), path.read_text()):
            for part in (SECRET[:6], SECRET[-6:], encoded.decode()[:6], encoded.decode()[-6:]):
                assert part not in kept


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_file_is_its_owners_alone(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"mine")
    told.close()
    told.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_who_says_nothing_leaves_no_file(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"")
    assert told.close() == []
    assert not path.exists()


def test_a_file_that_cannot_be_made_hurts_nobody(tmp_path: Path, watch: Watch):
    told = capture(tmp_path / "nowhere" / "log", watch)
    assert told.feed("out", b"hello") == "hello"
    told.close()


def test_a_link_is_not_followed(tmp_path: Path, path: Path, watch: Watch):
    target = tmp_path / "precious"
    target.write_text("mine")
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        capture(path, watch)
    assert target.read_text() == "mine"


def test_it_goes_on_behind_a_line_that_was_cut_by_a_kill(path: Path, watch: Watch):
    told = capture(path, watch)
    told.feed("out", b"before ")
    told.close()
    with path.open("ab") as file:
        file.write(b'[1,"out","","half')
    told = capture(path, watch)
    told.feed("out", b"after")
    told.close()
    assert text(path) == "before after"


def test_a_full_disk_loses_the_record_and_nothing_else(watch: Watch):
    if not os.access("/dev/full", os.W_OK):
        pytest.fail("expected /dev/full, to write to a full disk")
    told = capture(Path("/dev/full"), watch)
    assert told.feed("out", b"x" * 100_000) == "x" * 100_000
    assert told.close() == []
