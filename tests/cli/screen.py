"""A minimal terminal for `onthedot up`: it turns written text into the rows that a person sees."""

from __future__ import annotations

import re

_CODE = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])")


class Screen:
    """Text at a cursor. It knows the codes that the live view uses: move up, erase a line, hide the cursor. It grows
    as needed."""

    def __init__(self) -> None:
        self.rows: list[str] = [""]
        self.cursor_hidden = False
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            code = _CODE.match(text, place)
            if code is not None:
                self._obey(code[1], code[2])
                place = code.end()
                continue
            self._put(text[place])
            place += 1

    def _obey(self, argument: str, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(argument or 1))
        elif letter == "K":
            self.rows[self._row] = ""
        elif letter in "hl" and argument == "25":
            self.cursor_hidden = letter == "l"
        elif letter not in "mhl":
            raise AssertionError(f"unknown code: {argument}{letter}")

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._row += 1
            if self._row == len(self.rows):
                self.rows.append("")
        else:
            row = self.rows[self._row].ljust(self._column)
            self.rows[self._row] = row[: self._column] + char + row[self._column + 1 :]
            self._column += 1

    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)
