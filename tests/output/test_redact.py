"""Redaction of streams: secrets are hidden in every form that programs print, wherever the stream is cut."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.output.redact import SHORTEST, Redactor, forms_of


def redacted(forms: tuple[bytes, ...], *pieces: bytes) -> bytes:
    redactor = Redactor(forms)
    return b"".join([*(redactor.feed(piece) for piece in pieces), redactor.close()])


def expected(forms: tuple[bytes, ...], text: bytes) -> bytes:
    """A slow and simple redaction to compare with: hides each byte that belongs to a form."""
    hidden = {
        at + offset
        for form in forms
        for at in range(len(text))
        if text.startswith(form, at)
        for offset in range(len(form))
    }
    shown = b""
    for at, byte in enumerate(text):
        if at not in hidden:
            shown += bytes([byte])
        elif at - 1 not in hidden:
            shown += b"***"
    return shown


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "p/ss w&rd+é'\"<7>"


@pytest.mark.parametrize(
    "printed",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        re.sub("%..", lambda escape: escape[0].lower(), quote(SECRET, safe="")),
        "".join(f"%{byte:02X}" for byte in SECRET.encode()),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps({"inner": json.dumps({"token": SECRET})}),
        json.dumps(SECRET).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        shlex.quote(SECRET),
        repr(SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        base64.b32encode(SECRET.encode()).decode(),
        html.escape(SECRET).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        html.escape(SECRET).replace("&#x27;", "&#39;"),
        html.escape(SECRET).replace("&#x27;", "&apos;"),
        SECRET.replace('"', '""'),
        repr(SECRET.encode())[2:-1],
        r"p/ss\ w\&rd+é\'\"\<7\>",  # bash: printf %q
        r"p/ss w&rd+\303\251\'\"<7>",  # the same in the locale C
        r"p/ss w&rd+é'\"<7>",  # bash: declare -p
    ],
)
def test_every_form_that_programs_print_is_hidden(printed: str):
    shown = redacted(forms_of([SECRET]), f"value={printed};".encode()).decode()
    assert shown in ("value=***;", 'value="***";', "value='***';", 'value={"inner": "{\\"token\\": \\"***\\"}"};')


@given(st.text(min_size=SHORTEST, max_size=40), st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_hidden_inside_longer_base64(secret: str, before: bytes, behind: bytes):
    raw = secret.strip().encode()
    if len(raw) < SHORTEST:
        return
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        printed = encode(before + raw + behind)
        shown = redacted(forms_of([secret]), printed)
        left, _, right = shown.partition(b"***")
        bits_shown = 6 * len(left + right.rstrip(b"="))
        # The rest belongs to the neighbours, but for up to 12 bits of the secret at its two borders.
        assert bits_shown <= 8 * len(before + behind) + 12, shown


def test_base64_wrapped_into_lines_is_hidden():
    secret = "k3y!" * 100
    for wrap in (76, 64):
        whole = base64.b64encode(secret.encode()).decode()
        printed = "\n".join(whole[at : at + wrap] for at in range(0, len(whole), wrap))
        shown = redacted(forms_of([secret]), printed.encode()).decode()
        assert set(shown.split("\n")) == {"***"}


@pytest.mark.parametrize("width", [20, 40, 60, 64, 76])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "u", "user:", "x" * 57])
def test_encodings_are_hidden_at_every_offset_and_line_width(width: int, ending: str, before: str):
    secret = "".join(f"{number:x}Zq" for number in range(11, 31))
    for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.b32encode, bytes.hex):
        printed = encode(f"{before}{secret};".encode())
        whole = printed if isinstance(printed, str) else printed.decode()
        lines = ending.join(whole[at : at + width] for at in range(0, len(whole), width))
        shown = redacted(forms_of([secret]), lines.encode()).decode()
        left, _, right = shown.replace(ending, "").partition("***")
        assert len(left) <= len(before) * 2 + 1 + 3, shown
        assert len(right) <= 8, shown


@pytest.mark.parametrize(
    ("secret", "printed"),
    [
        ("#a~b:~c$d`e", r"\#a~b:\~c\$d\`e"),
        ("#a~b:~c$d`e", r"x#a~b:~c\$d\`e"),
        ("a{b},c!d^e[f]", r"a\{b\}\,c\!d\^e\[f\]"),
        ('a$b`c\\d"e!f', r"a\$b\`c\\d\"e!f"),
        ("pass\tword'1\x1b", r"pass\tword\'1\E"),
    ],
)
def test_text_quoted_by_bash_is_hidden(secret: str, printed: str):
    assert redacted(forms_of([secret]), printed.encode()) in (b"***", b"x***")


def test_each_line_of_a_secret_is_hidden_but_not_the_white_space_around_it():
    key = "\n-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n"
    forms = forms_of([key])
    assert redacted(forms, b"  MIIEvQIBADANBgkq  ") == b"  ***  "
    assert redacted(forms, key.strip().encode()) == b"***"
    assert redacted(forms_of(["hunter22\n"]), b"hunter22 is it") == b"*** is it"


def test_nothing_is_hidden_without_secrets():
    assert redacted(forms_of([]), b"plain", b" text") == b"plain text"
    assert forms_of(["", " ", "abc"]) == forms_of(["abc"])
    assert b"abc" not in forms_of(["abc"])


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

small = st.binary(min_size=1, max_size=6).map(lambda data: bytes(b"ab*"[byte % 3] for byte in data))
some_forms = st.lists(small, min_size=1, max_size=4, unique=True).map(tuple)
texts = st.lists(small, max_size=8).map(b"".join)


@given(some_forms, texts)
def test_text_in_one_piece_is_redacted(forms: tuple[bytes, ...], text: bytes):
    assert redacted(forms, text) == expected(forms, text)


@given(some_forms, texts, st.data())
def test_text_cut_anywhere_is_redacted_the_same(forms: tuple[bytes, ...], text: bytes, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert redacted(forms, *pieces) == expected(forms, text)


broken_texts = st.lists(st.one_of(small, st.sampled_from([b"\n", b"\r\n", b"\n\n\n"])), max_size=12).map(b"".join)


@given(some_forms, broken_texts, st.data())
def test_line_breaks_within_a_form_do_not_reveal_it(forms: tuple[bytes, ...], text: bytes, data: st.DataObject):
    """Two bytes of a form may have a line break of up to two bytes between them. A line that ends with at most three
    bytes of a form is shown whole, so that live output need not wait for the next line."""
    hidden = set[int]()
    for form in forms:
        broken = re.compile(rb"[\r\n]{0,2}".join(re.escape(bytes([byte])) for byte in form))
        for at in range(len(text)):
            found = broken.match(text, at)
            if found:
                lines = re.finditer(rb"[\r\n]+", found[0])
                few = [line.end() for line in lines if len(re.sub(rb"[\r\n]", b"", found[0][: line.end()])) <= 3]
                hidden |= set(range(at + max([0, *few]), found.end()))
    wanted = b""
    for at in range(len(text)):
        if at not in hidden:
            wanted += text[at : at + 1]
        elif at - 1 not in hidden:
            wanted += b"***"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert redacted(forms, *pieces) == wanted


def test_a_secret_with_empty_lines_is_hidden_whole():
    secret = "ab\n\n\n\n\ncd\r\n\r\nef"
    assert redacted(forms_of([secret]), b"x" + secret.encode()[:5], secret.encode()[5:] + b"y") == b"x***y"


def test_held_back_line_breaks_stay_bounded():
    redactor = Redactor((b"secret",))
    for _ in range(100):
        redactor.feed(b"s\n")
        redactor.feed(b"\n\n")
        assert len(redactor._held) <= 3 * len("secret")


@pytest.mark.parametrize("secret", ["hunter2-hunter2", "aaaa", "abab", SECRET])
def test_text_cut_at_any_two_places_is_redacted_the_same(secret: str):
    forms = forms_of([secret])
    text = f"a{secret}{secret[:3]}b{base64.b64encode(secret.encode()).decode()}ab".encode()
    whole = expected(forms, text)
    for first in range(len(text)):
        for last in range(first, len(text)):
            assert redacted(forms, text[:first], text[first:last], text[last:]) == whole


@given(some_forms, texts)
def test_fewer_bytes_are_held_back_than_the_longest_form_has(forms: tuple[bytes, ...], text: bytes):
    redactor = Redactor(forms)
    for at in range(len(text)):
        redactor.feed(text[at : at + 1])
        assert len(redactor._held) < max(map(len, forms))


@given(some_forms, texts, texts, texts)
def test_a_secret_that_begins_in_skipped_text_is_hidden(
    forms: tuple[bytes, ...], before: bytes, skipped: bytes, after: bytes
):
    redactor = Redactor(forms)
    redactor.feed(before)
    redactor.skip(skipped)
    shown = redactor.feed(after) + redactor.close()
    text, start = before + skipped + after, len(before + skipped)
    hidden = {
        at + offset
        for form in forms
        for at in range(len(text))
        if text.startswith(form, at)
        for offset in range(len(form))
    }
    wanted = b""
    for at in range(start, len(text)):
        if at not in hidden:
            wanted += text[at : at + 1]
        elif at == start or at - 1 not in hidden:
            wanted += b"***"
    assert shown == wanted


def test_a_copy_is_independent_of_its_original():
    redactor = Redactor((b"secret",))
    redactor.feed(b"a sec")
    copy = redactor.copy()
    assert redactor.feed(b"ret") == b"***"
    assert copy.feed(b"ond") == b"second"
