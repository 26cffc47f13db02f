"""The forms in which a secret may be printed: as it is, and as the encodings that programs commonly put it in."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Shorter forms would take away text that is no secret; shorter secrets are refused where they are defined."""

_LINE = 8  # of a secret of several lines, each that is at least so long is a secret by itself
_WRAPS = (76, 64)  # where `base64` and `openssl` break their lines: each is hidden, also if there is text before it
_QUOTED = re.compile(r"""[ '"\\|&;()<>!{}*\[\]?^$`,]|(?<=[:=])~""")
_QUOTED_FIRST = re.compile(rf"{_QUOTED.pattern}|\A[#~]")
_ANSI_C = {"\\": "\\\\", "'": "\\'", "\a": "\\a", "\b": "\\b", "\x1b": "\\E", "\f": "\\f", "\n": "\\n", "\r": "\\r",
           "\t": "\\t", "\v": "\\v"}  # fmt: skip


def forms_of(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Every form that must not be kept or shown, the longest first.

    >>> forms = forms_of(["s3cr&t"])
    >>> [form in forms for form in (b"s3cr&t", b"s3cr%26t", b"czNjciZ0", b"s3cr&amp;t", b"733363722674")]
    [True, True, True, True, True]
    """
    found = {form for secret in secrets for value in _values(secret) for form in _forms(value)}
    return tuple(sorted((form for form in found if len(form) >= SHORTEST), key=lambda form: (-len(form), form)))


def _values(secret: str) -> Iterator[str]:
    """What is secret of it: not the white space around it, which files have; and each of its lines."""
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
    """Alone, and in the middle of something: then what stands before it shifts it by none, one or two bytes, and the
    characters at its borders are made of it and of its neighbours."""
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
    """The same for groups of five bytes."""
    for shift in range(5):
        shifted = base64.b32encode(bytes(shift) + raw)
        first = -(-shift * 8 // 5)
        yield shifted[first:].rstrip(b"=")
        yield shifted[first : (shift + len(raw)) * 8 // 5]
    yield base64.b32encode(raw)


def _in_urls(raw: bytes) -> Iterator[str]:
    """Libraries differ in what they leave as it is, and in how they write the rest."""
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
        yield json.dumps(inside)[1:-1]  # JSON as a text in JSON


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
