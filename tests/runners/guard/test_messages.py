"""What crosses is what was meant, and nothing else is taken."""

from datetime import timedelta

import pytest

from onthedot.model.task import Bounds
from onthedot.runners.guard.messages import BadFrame, Inbox, end_from_json, frame, program_from_json, program_to_json
from onthedot.runners.program.protocol import Program, ProgramEnd

FULL = Program(
    argv=("backup", "--all"), env={"A": "ä"}, directory="/d", workspace="/w", log="/l", label="step", stdin=b"\0\xff",
    level="user", timeout=7, grace=8, secrets=("sesame",),
    bounds=Bounds(cpu=timedelta(milliseconds=1500), memory=None, processes=3, files=4, file_bytes=5, output=6),
)  # fmt: skip


@pytest.mark.parametrize("program", [FULL, FULL._replace(bounds=Bounds(cpu=None))])
def test_a_program_crosses_whole(program: Program):
    [message] = Inbox(10_000).feed(frame(program_to_json(program)))
    assert program_from_json(message) == program


def test_frames_come_in_any_pieces():
    inbox = Inbox(100)
    data = frame({"stop": 1}) + frame({"renew": 2})
    assert [message for byte in data for message in inbox.feed(bytes([byte]))] == [{"stop": 1}, {"renew": 2}]


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1{", b"\0\0\0\1\xff", b"\0\1\0\0" + b"[" * (1 << 16)]
)
def test_what_is_no_frame_is_refused(data: bytes):
    with pytest.raises(BadFrame):
        list(Inbox(1 << 17).feed(data))


def test_an_end_crosses():
    end = ProgramEnd("signalled", signal=9, cpu=3, memory=4, stragglers=5)
    [message] = Inbox(1_000).feed(frame({"end": end}))
    assert end_from_json(message["end"]) == end
    with pytest.raises(BadFrame):
        end_from_json(["exited"])
