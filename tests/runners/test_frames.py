"""Frames are read from pieces of any size, and invalid bytes are refused."""

import pytest

from onthedot.runners.frames import BadFrame, Inbox, frame


def test_frames_are_read_from_pieces_of_any_size():
    inbox = Inbox(100)
    data = frame({"stop": 1}) + frame({"renew": 2})
    assert [message for byte in data for message in inbox.feed(bytes([byte]))] == [{"stop": 1}, {"renew": 2}]


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1{", b"\0\0\0\1\xff", b"\0\1\0\0" + b"[" * (1 << 16)]
)
def test_invalid_bytes_are_refused(data: bytes):
    with pytest.raises(BadFrame):
        list(Inbox(1 << 17).feed(data))
