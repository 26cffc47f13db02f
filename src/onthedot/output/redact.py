"""Secret values are taken out of a stream of bytes, wherever it was cut into pieces.

Every byte that belongs to an occurrence of a form (`output/forms.py`) is left out, and each row of such bytes is shown
as `***`. Line breaks within an occurrence do not matter: programs wrap what they encode, each at another width. What
may be the beginning of a form is held back until it is known: at most one byte less than the longest form, and the line
breaks in it. So the result is the same however the stream was cut.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

HIDDEN = b"***"

_BREAKS = b"\r\n"
_LONGEST_BREAK = 2  # in bytes: `\r\n`, or an empty line; what is longer is no break within a form
_BREAK = re.compile(rb"[\r\n]+")
_FEW = 3
"""A line that ends with at most so many bytes of a form is shown at once and whole; what follows of the form is not."""


class _Joined:
    """Bytes without their line breaks."""

    def __init__(self, data: bytes) -> None:
        parts, at, removed = [], 0, 0
        self._starts, self._removed = [0], [0]  # from this byte of the rest on, so many were taken out before it
        for found in _BREAK.finditer(data):
            first, last = found.span()
            if last - first <= _LONGEST_BREAK:
                parts.append(data[at:first])
                self._starts.append(first - removed)
                at, removed = last, removed + last - first
                self._removed.append(removed)
        self.rest = b"".join([*parts, data[at:]])

    def place(self, at: int) -> int:
        """Where a byte of the rest was."""
        return at + self._removed[bisect_right(self._starts, at) - 1]

    def hidden(self, at: int, length: int) -> tuple[int, int]:
        """What is hidden of an occurrence in the rest: not the few bytes before its first line breaks."""
        for begin in range(min(at + _FEW, at + length - 1), at, -1):
            if self.place(begin) - self.place(begin - 1) > 1:
                return self.place(begin), self.place(at + length - 1) + 1
        return self.place(at), self.place(at + length - 1) + 1


def redacted(text: str, forms: Sequence[bytes], *, cut: bool = False) -> str:
    """A whole text without secrets. With `cut` its end is missing: the beginning of a secret there is hidden, too.

    >>> redacted("at 7, hunter2", (b"hunter2",)), redacted("at 7, hunt", (b"hunter2",), cut=True)
    ('at 7, ***', 'at 7, ***')
    """
    if not forms:
        return text
    return redacted_bytes(text.encode(errors="surrogatepass"), forms, cut=cut).decode(errors="replace")


def redacted_bytes(data: bytes, forms: Sequence[bytes], *, cut: bool = False) -> bytes:
    """The same for bytes."""
    redactor = Redactor(forms)
    shown, rest = redactor.feed(data), redactor.close()
    return shown + (HIDDEN if cut and rest else rest)


class Redactor:
    """Redacts one stream. `forms` are those of `forms_of`.

    >>> redactor = Redactor((b"hunter2",))
    >>> redactor.feed(b"the password is hun"), redactor.feed(b"ter2!"), redactor.close()
    (b'the password is ', b'***!', b'')
    """

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms = tuple(filter(None, (_Joined(form.strip(_BREAKS)).rest for form in forms)))
        self._shortest: list[bytes] = []  # without any line breaks: where none of these is, there is no form
        for flat in sorted((form.translate(None, _BREAKS) for form in self._forms), key=len):
            if not any(shorter in flat for shorter in self._shortest):
                self._shortest.append(flat)
        self._most_held = (max(map(len, self._forms), default=1) - 1) * (1 + _LONGEST_BREAK)
        self._held = b""
        self._hidden = 0  # so many of the held bytes belong to a form that has come to its end
        self._skipped = 0  # so many of them are not wanted
        self._hiding = False  # the last byte before the held ones was hidden, and is shown

    def feed(self, data: bytes) -> bytes:
        """Some bytes came; what may be shown now."""
        if not self._forms:
            return data
        if not self._held and not self._may_have_forms(data):
            begin, until = self._beginning(data)
            if until:
                self._hiding = False
            self._held, self._skipped = data[begin:], until - begin
            return data if until == len(data) else data[:until]
        return self._settle(self._held + data, final=False)

    def skip(self, data: bytes) -> None:
        """Some bytes came that nobody wants to see, nor those that are held back; but a secret may begin in them.
        Costs the same however many they are."""
        if self._most_held:
            known = data if len(data) >= self._most_held else self._held + data
            self._held = known[-self._most_held :]
        self._skipped, self._hidden, self._hiding = len(self._held), 0, False

    def close(self) -> bytes:
        """Nothing more will come; what was held back."""
        return self._settle(self._held, final=True)

    def copy(self) -> Redactor:
        """Another one that goes on from here."""
        other = Redactor(self._forms)
        other._held, other._hidden, other._skipped, other._hiding = (
            self._held, self._hidden, self._skipped, self._hiding,
        )  # fmt: skip
        return other

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, data: bytes, *, final: bool) -> bytes:
        hidden = self._occurrences(data)
        begin_held, until = (len(data), len(data)) if final else self._beginning(data)
        shown = bytearray()
        at = start = self._skipped
        for first, last in hidden:
            begin, end = max(first, start), min(last, until)
            if begin >= end:
                continue
            if begin > at:
                shown += data[at:begin]
                self._hiding = False
            if not self._hiding:
                shown += HIDDEN
            self._hiding = True
            at = end
        if at < until:
            shown += data[at:until]
            self._hiding = False
        self._held = data[begin_held:]
        kept = [last - begin_held for first, last in hidden if first <= begin_held]  # others are found again
        self._hidden = max([0, *kept])
        self._skipped = max(0, max(start, until) - begin_held)
        return bytes(shown)

    def _may_have_forms(self, data: bytes) -> bool:
        """Quick: most of what programs say has none."""
        flat = data.translate(None, _BREAKS)
        return any(form in flat for form in self._shortest)

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """Where forms are, in order and apart from each other."""
        found = [(0, self._hidden)] if self._hidden else []
        if self._may_have_forms(data):
            joined = _Joined(data)
            for form in self._forms:
                at = joined.rest.find(form)
                while at >= 0:
                    found.append(joined.hidden(at, len(form)))
                    at = joined.rest.find(form, at + 1)
        apart: list[tuple[int, int]] = []
        for first, last in sorted(found):
            if apart and first <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(last, apart[-1][1]))
            else:
                apart.append((first, last))
        return apart

    def _beginning(self, data: bytes) -> tuple[int, int]:
        """Where the longest end of it starts that may be the beginning of a form; and until where it may be shown."""
        tail_at = max(0, len(data) - self._most_held)
        joined = _Joined(data[tail_at:])
        tail = joined.rest
        first = len(tail)
        for form in self._forms:
            at = tail.find(form[:1], max(0, len(tail) - len(form) + 1), first)
            while 0 <= at < first:
                if form.startswith(tail[at:]):
                    first = at
                    break
                at = tail.find(form[:1], at + 1, first)
        if first == len(tail):
            return len(data), len(data)
        begin = tail_at + joined.place(first)
        return begin, len(data) if len(tail) - first <= _FEW and data[-1:] in (b"\r", b"\n") else begin
