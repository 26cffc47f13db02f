"""Makes the output of programs safe for a terminal: keeps text and colours, removes all other control sequences."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"""
    \x1b\[ (?P<colours>[0-9;:]*) m                          # SGR: colours, bold
    | (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]                   # CSI: moves, clears, asks
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]) [^\x07\x1b\x9c]* (?:\x07|\x1b\\|\x9c|(?=\x1b)|\Z)  # OSC, DCS: titles …
    | \x1b [ -/]* [0-~]?                                    # the rest of them
    | \r\n? | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]         # control characters
    | [\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]  # text direction, and halves of characters
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(r"(?:\x1b\[[0-?]*[ -/]*|\x1b[ -/]*|\r)\Z")
_LONGEST = 64  # the most characters of an incomplete sequence

RESET = "\x1b[0m"
_PLAIN = {*range(5), 7, *range(22, 26), 27, *range(30, 38), 39, *range(40, 48), 49, *range(90, 98), *range(100, 108)}


class Display:
    """Makes text safe, piece by piece. A sequence may be split between two pieces.

    >>> display = Display()
    >>> display.feed("a\\x1b[31mred\\x1b[2J\\x1b]0;title\\x07\\x1b["), display.feed("0mb\\rc"), display.close()
    ('a\\x1b[31mred', '\\x1b[0mb\\nc', '')
    """

    def __init__(self) -> None:
        self._held = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """Take some text. Return what may be shown now."""
        text = self._held + text
        cut = _UNFINISHED.search(text, max(0, len(text) - _LONGEST))
        self._held = cut[0] if cut else ""
        return _ESCAPE.sub(self._shown, text[: len(text) - len(self._held)])

    def close(self) -> str:
        """Return the text that was held back, and a reset of the colours."""
        rest = "\n" if self._held == "\r" else ""
        self._held = ""
        coloured, self._coloured = self._coloured, False
        return rest + RESET if coloured else rest

    def _shown(self, found: re.Match[str]) -> str:
        colours = found["colours"]
        if colours is None:
            return "\n" if found[0].startswith("\r") else ""
        if not _is_plain(colours):
            return ""
        self._coloured = colours.strip("0;") != ""
        return found[0]


def safe(text: str) -> str:
    """Return a whole text, made safe.

    >>> safe("one\\x1b]52;c;aGk=\\x07 two\\x1b[8mhidden")
    'one twohidden'
    """
    display = Display()
    return display.feed(text) + display.close()


def _is_plain(colours: str) -> bool:
    """Return whether this sequence sets or ends colours, bold, faint, italic, underlined or reversed, and nothing
    else."""
    if len(colours) > _LONGEST:
        return False
    numbers = [int(part or 0) for part in re.split("[;:]", colours)]
    at = 0
    while at < len(numbers):
        if numbers[at] in (38, 48):  # 38;5;n and 38;2;r;g;b
            at += {5: 3, 2: 5}.get(numbers[at + 1] if at + 1 < len(numbers) else -1, len(numbers))
        elif numbers[at] in _PLAIN:
            at += 1
        else:
            return False
    return at == len(numbers)
