"""A program and its end cross the pipe unchanged, and invalid messages are refused."""

from datetime import timedelta

import pytest

from onthedot.model.task import Bounds
from onthedot.runners.frames import BadFrame, Inbox, frame
from onthedot.runners.guard.protocol import Program, ProgramEnd, end_from_json, program_from_json, program_to_json

FULL = Program(
    argv=("backup", "--all"), env={"A": "ä"}, directory="/d", workspace="/w", log="/l", label="step", stdin=b"\0\xff",
    level="user", timeout=7, grace=8, secrets=("sesame",),
    bounds=Bounds(cpu=timedelta(milliseconds=1500), memory=None, processes=3, files=4, file_bytes=5, output=6),
)  # fmt: skip


@pytest.mark.parametrize("program", [FULL, FULL._replace(bounds=Bounds(cpu=None))])
def test_a_program_arrives_unchanged(program: Program):
    [message] = Inbox(10_000).feed(frame(program_to_json(program)))
    assert program_from_json(message) == program


def test_a_program_end_arrives_unchanged():
    end = ProgramEnd("signalled", signal=9, cpu=3, memory=4, stragglers=5)
    [message] = Inbox(1_000).feed(frame({"end": end}))
    assert end_from_json(message["end"]) == end
    with pytest.raises(BadFrame):
        end_from_json(["exited"])
