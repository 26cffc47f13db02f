"""Program output on a terminal: only text and colours pass; every other control sequence is removed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.output.display import Display, safe


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain é ☃\ttext\n", "plain é ☃\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[38;5;208mo\x1b[48;2;1;2;3mx\x1b[m", "\x1b[38;5;208mo\x1b[48;2;1;2;3mx\x1b[m"),
        ("\x1b[31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b[8mhidden\x1b[5mblinking", "hiddenblinking"),
        ("\x1b[31;8mx", "x"),
        ("\x1b[38;5mx", "x"),
        ("\x1b[2J\x1b[1;1H\x1b[?1049hcleared", "cleared"),
        ("\x1b]0;title\x07a\x1b]52;c;cm0gLXJm\x1b\\b", "ab"),
        ("\x1bP+q544e\x1b\\c", "c"),
        ("\x9b2Jd\x9d0;t\x9ce", "de"),
        ("\x1b]0;never ends", ""),
        ("\x1bcreset\x1b(0x", "resetx"),
        ("over\rwritten\r\nnext", "over\nwritten\nnext"),
        ("back\x08\x08space\x7f\x00\x07", "backspace"),
        ("abc\u202edcba\u2066", "abcdcba"),
        ("\x1b[5n\x1b[c\x1b[>0qasks", "asks"),
    ],
)
def test_text_and_colours_pass_and_control_sequences_are_removed(said: str, shown: str):
    assert safe(said) == shown


ALPHABET = st.sampled_from(
    ["\x1b", "[", "]", "3", "1", ";", "m", "\x07", "\\", "\r", "\n", "a", "\x9b", "\x9d", "P", "8", "?"]
)


@given(st.lists(ALPHABET, max_size=40).map("".join), st.integers(0, 40))
def test_only_colours_pass_wherever_the_text_is_cut(said: str, cut: int):
    display = Display()
    shown = display.feed(said[:cut]) + display.feed(said[cut:]) + display.close()
    rest = re.sub(r"\x1b\[[0-9;:]*m", "", shown)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", rest)


def test_a_sequence_cut_in_two_is_joined():
    display = Display()
    assert display.feed("a\x1b[3") + display.feed("1mb") + display.close() == "a\x1b[31mb\x1b[0m"
    assert display.feed("c\r") + display.feed("\nd") + display.close() == "c\nd"
