"""Removes secret values from a stream of bytes, in every form in which programs commonly print them.

A secret has many forms: plain, in base64, in a URL, in JSON, in a shell's quotes … (`forms_of`). Every occurrence is
replaced by `***`, and adjacent ones by a single `***`. Line breaks within an occurrence do not matter, because programs
wrap encoded text at different widths. Bytes that may begin a form are held back until more bytes come: at most one byte
less than the longest form, and the line breaks in it. So the result does not depend on how the stream was cut.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Forms shorter than this would remove text that is no secret. Shorter secrets are refused when they are defined."""

_LINE = 8  # each line of a secret counts as a secret if it has at least this many characters
_WRAPS = (76, 64)  # line lengths of `base64` and `openssl`: each line is hidden, also after other text
_QUOTED = re.compile(r"""[ '"\\|&;()<>!{}*\[\]?^$`,]|(?<=[:=])~""")
_QUOTED_FIRST = re.compile(rf"{_QUOTED.pattern}|\A[#~]")
_ANSI_C = {"\\": "\\\\", "'": "\\'", "\a": "\\a", "\b": "\\b", "\x1b": "\\E", "\f": "\\f", "\n": "\\n", "\r": "\\r",
           "\t": "\\t", "\v": "\\v"}  # fmt: skip


def forms_of(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return every form that must not be kept or shown, the longest first.

    >>> forms = forms_of(["s3cr&t"])
    >>> [form in forms for form in (b"s3cr&t", b"s3cr%26t", b"czNjciZ0", b"s3cr&amp;t", b"733363722674")]
    [True, True, True, True, True]
    """
    found = {form for secret in secrets for value in _values(secret) for form in _forms(value)}
    return tuple(sorted((form for form in found if len(form) >= SHORTEST), key=lambda form: (-len(form), form)))


def _values(secret: str) -> Iterator[str]:
    """Yield the secret parts: the value without surrounding white space, and each of its longer lines."""
    value = secret.strip()
    yield value
    if "\n" in value:
        yield from (line for line in map(str.strip, value.splitlines()) if len(line) >= _LINE)


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode(errors="surrogateescape")
    yield raw
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    yield from _base64(raw)
    yield from _base32(raw)
    for text in (*_in_urls(raw), *_in_json(value), *_in_shells(value, raw), *_in_other_texts(value, raw)):
        yield text.encode(errors="surrogateescape")


def _base64(raw: bytes) -> Iterator[bytes]:
    """Yield the value in base64, alone and among other bytes. Other bytes shift it by up to two bytes, and share the
    characters at its borders."""
    encoders: tuple[Callable[[bytes], bytes], ...] = (base64.b64encode, base64.urlsafe_b64encode)
    for encode in encoders:
        whole = encode(raw)
        yield whole
        yield from (whole[at : at + wrap] for wrap in _WRAPS for at in range(0, len(whole), wrap) if len(whole) > wrap)
        for shift in range(3):
            shifted = encode(bytes(shift) + raw).rstrip(b"=")
            first = -(-shift * 8 // 6)
            yield shifted[first:]
            yield shifted[first : (shift + len(raw)) * 8 // 6]


def _base32(raw: bytes) -> Iterator[bytes]:
    """Yield the value in base32, like `_base64`, for groups of five bytes."""
    for shift in range(5):
        shifted = base64.b32encode(bytes(shift) + raw)
        first = -(-shift * 8 // 5)
        yield shifted[first:].rstrip(b"=")
        yield shifted[first : (shift + len(raw)) * 8 // 5]
    yield base64.b32encode(raw)


def _in_urls(raw: bytes) -> Iterator[str]:
    """Yield the value as URLs contain it. Libraries differ in which characters they escape, and how."""
    for safe in ("", "/", "!'()*", "!*'();:@&=+$,/?#[]"):
        yield quote(raw, safe=safe)
        yield quote(raw, safe=safe).replace("%20", "+")
    yield quote_plus(raw)
    yield from [_lower_escapes(quote(raw, safe=safe)) for safe in ("", "/")]
    yield "".join(f"%{byte:02X}" for byte in raw)


def _lower_escapes(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return head + "".join(f"%{part[:2].lower()}{part[2:]}" for part in rest)


def _in_json(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        inside = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield inside
        yield inside.replace("/", "\\/")
        for_html = inside.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")  # as Go writes it
        yield for_html
        yield json.dumps(inside)[1:-1]  # JSON within a JSON string


def _in_shells(value: str, raw: bytes) -> Iterator[str]:
    yield value.replace("'", "'\\''")
    yield value.replace("'", "'\"'\"'")
    yield re.sub(r"[$`\"\\]", r"\\\g<0>", value)  # between double quotes
    yield _QUOTED.sub(r"\\\g<0>", value)
    yield _QUOTED_FIRST.sub(r"\\\g<0>", value)
    for text in (value, raw.decode("latin-1")):  # between $' and ', in UTF-8 and in the locale C
        for quotes in ("", '"'):
            yield "".join(_ansi_c(one, quotes, ascii_only=text is not value) for one in text)


def _ansi_c(one: str, quotes: str, *, ascii_only: bool) -> str:
    if one in _ANSI_C or one in quotes:
        return _ANSI_C.get(one, f"\\{one}")
    octal = one < " " or one == "\x7f" or (ascii_only and one > "\x7f")
    return f"\\{ord(one):03o}" if octal else one


def _in_other_texts(value: str, raw: bytes) -> Iterator[str]:
    yield repr(value)[1:-1]
    yield repr(raw)[2:-1]
    yield value.replace('"', '""')  # in CSV
    escaped = html.escape(value, quote=False)
    yield escaped
    for double in ("&quot;", "&#34;"):
        for single in ("&#x27;", "&#39;", "&apos;", "'"):
            yield escaped.replace('"', double).replace("'", single)


HIDDEN = b"***"

_BREAKS = b"\r\n"
_LONGEST_BREAK = 2  # bytes: `\r\n`, or an empty line; longer breaks end a form
_BREAK = re.compile(rb"[\r\n]+")
_FEW = 3
"""If a line ends with at most this many bytes of a form, they are shown at once. Only the rest of the form is
hidden."""


class _Joined:
    """Bytes without their line breaks, and the places of the breaks."""

    def __init__(self, data: bytes) -> None:
        parts, at, removed = [], 0, 0
        self._starts, self._removed = [0], [0]  # from start i of the rest on, removed[i] bytes were left out
        for found in _BREAK.finditer(data):
            first, last = found.span()
            if last - first <= _LONGEST_BREAK:
                parts.append(data[at:first])
                self._starts.append(first - removed)
                at, removed = last, removed + last - first
                self._removed.append(removed)
        self.rest = b"".join([*parts, data[at:]])

    def place(self, at: int) -> int:
        """Return the index in the original bytes of a byte of the rest."""
        return at + self._removed[bisect_right(self._starts, at) - 1]

    def hidden(self, at: int, length: int) -> tuple[int, int]:
        """Return the hidden part of an occurrence: all of it except a few bytes before its first line break."""
        for begin in range(min(at + _FEW, at + length - 1), at, -1):
            if self.place(begin) - self.place(begin - 1) > 1:
                return self.place(begin), self.place(at + length - 1) + 1
        return self.place(at), self.place(at + length - 1) + 1


def redacted(text: str, forms: Sequence[bytes], *, cut: bool = False) -> str:
    """Return a whole text without secrets. `cut`: the text's end is missing, so the beginning of a secret there is
    hidden, too.

    >>> redacted("at 7, hunter2", (b"hunter2",)), redacted("at 7, hunt", (b"hunter2",), cut=True)
    ('at 7, ***', 'at 7, ***')
    """
    if not forms:
        return text
    return redacted_bytes(text.encode(errors="surrogatepass"), forms, cut=cut).decode(errors="replace")


def redacted_bytes(data: bytes, forms: Sequence[bytes], *, cut: bool = False) -> bytes:
    """Do the same as `redacted`, for bytes."""
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
        self._shortest: list[bytes] = []  # without line breaks; text that contains none of these has no form
        for flat in sorted((form.translate(None, _BREAKS) for form in self._forms), key=len):
            if not any(shorter in flat for shorter in self._shortest):
                self._shortest.append(flat)
        self._most_held = (max(map(len, self._forms), default=1) - 1) * (1 + _LONGEST_BREAK)
        self._held = b""
        self._hidden = 0  # how many of the held bytes belong to a complete form
        self._skipped = 0  # how many of the held bytes are not shown
        self._hiding = False  # the byte before the held ones was replaced by `***`

    def feed(self, data: bytes) -> bytes:
        """Take some bytes. Return the bytes that may be shown now."""
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
        """Take some bytes that are not shown, and drop the bytes that are held back. A secret may begin in them. The
        time does not depend on the number of bytes."""
        if self._most_held:
            known = data if len(data) >= self._most_held else self._held + data
            self._held = known[-self._most_held :]
        self._skipped, self._hidden, self._hiding = len(self._held), 0, False

    def close(self) -> bytes:
        """End the stream. Return the bytes that were held back."""
        return self._settle(self._held, final=True)

    def copy(self) -> Redactor:
        """A copy with the same state."""
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
        kept = [last - begin_held for first, last in hidden if first <= begin_held]  # later ones are found again
        self._hidden = max([0, *kept])
        self._skipped = max(0, max(start, until) - begin_held)
        return bytes(shown)

    def _may_have_forms(self, data: bytes) -> bool:
        """Return quickly whether there may be forms: most output has none."""
        flat = data.translate(None, _BREAKS)
        return any(form in flat for form in self._shortest)

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """Return the places of all forms, in order, without overlaps."""
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
        """Return where the longest suffix starts that may begin a form, and the end of the bytes that may be shown."""
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
