"""Secret values are taken out of a stream of bytes, wherever it was cut into pieces.

Every byte that belongs to an occurrence of a form (`output/forms.py`) is left out, and each row of such bytes is shown
as `***`. What may be the beginning of a form is held back until it is known: at most one byte less than the longest
form. So the result is the same however the stream was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

HIDDEN = b"***"


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
        self._forms = tuple(forms)
        self._most_held = max(map(len, forms), default=1) - 1
        self._held = b""
        self._hidden = 0  # so many of the held bytes belong to a form that has come to its end
        self._skipped = 0  # so many of them are not wanted
        self._hiding = False  # the last byte before the held ones was hidden, and is shown

    def feed(self, data: bytes) -> bytes:
        """Some bytes came; what may be shown now."""
        if not self._forms:
            return data
        if not self._held and not any(form in data for form in self._forms):
            until = self._beginning(data)
            if until:
                self._hiding = False
            self._held = data[until:]
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
        until = len(data) if final else self._beginning(data)
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
        self._held = data[until:]
        self._hidden = max([0, *(last - until for first, last in hidden if first <= until)])  # others are found again
        self._skipped = max(0, start - until)
        return bytes(shown)

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """Where forms are, in order and apart from each other."""
        found = [(0, self._hidden)] if self._hidden else []
        for form in self._forms:
            at = data.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = data.find(form, at + 1)
        apart: list[tuple[int, int]] = []
        for first, last in sorted(found):
            if apart and first <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(last, apart[-1][1]))
            else:
                apart.append((first, last))
        return apart

    def _beginning(self, data: bytes) -> int:
        """Where the longest end of it starts that may be the beginning of a form."""
        first = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1), first)
            while 0 <= at < first:
                if form.startswith(data[at:]):
                    first = at
                    break
                at = data.find(form[:1], at + 1, first)
        return first
