"""Computes the fingerprint of a failed run. Failures with the same cause have the same one. Pure.

Errors with the same cause have almost the same text: they differ in ids, addresses, paths and quotes. These are taken
out, and the rest is hashed together with the job and the type of the error. Exit codes, signals and the host of a URL
stay: they tell what went wrong.
"""

from __future__ import annotations

import hashlib
import re

_MOST = 500
"""How many characters of an error's text count."""

_NUMBER = re.compile(r"(\b(?:exit (?:code|status)|signal) -?\d+|\bSIG[A-Z]{3,6}[+-]?\d+)|\d+(?:[.,:]\d+)*")
"""A number; in the group, one that is an exit code or a signal."""

# Each of them looks at a character a bounded number of times, whatever the text is.
_URL = re.compile(
    r"(?<!\w)(['\"`]?)([a-z][a-z0-9+.-]{0,30}://)"  # an opening quote and the scheme
    r"(?:[^\s/?#@'\"`<>()]{0,200}@)?([^\s/?#@;,'\"`<>()]{0,250})"  # user and password, which go; the host
    r"([/?#][^\s:;,'\"`()<>]*)?\1",
    re.IGNORECASE,
)
_PARTS = (
    (re.compile(r"(?<!\w)(['\"`])[^'\"`\n]{0,200}\1(?!\w)"), "<text>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]{0,40}\d)[0-9a-f]{8,}\b", re.IGNORECASE), "<n>"),
    (re.compile(r"(?<![\w>/])(?:[A-Za-z]:\\|~?/(?!/)|(?<!:)//)[^\s:;,'\"`()<>]+"), "<path>"),
)

_TYPED = re.compile(r"([A-Za-z_][\w.]{0,200}): ?")


def error_type(error: str) -> str:
    """The type of a handler's error, from its stored text; empty for other failures.

    >>> error_type("ConnectionError: no answer from 10.0.0.7"), error_type("took longer than its time-out of 5 s")
    ('ConnectionError', '')
    """
    match = _TYPED.match(error)
    return match.group(1) if match else ""


def common_text(error: str) -> str:
    """Return an error's text without the parts that differ from one failure to the next.

    >>> common_text("order 4711 of 'ann' is not in /srv/in/4711.csv (0x7f3a91bc)")
    'order <n> of <text> is not in <path> (<n>)'
    >>> common_text("no answer from http://a.example.org/orders/7?page=2")
    'no answer from http://a.example.org<path>'
    >>> common_text("step 'load': exit code 137")
    'step <text>: exit code 137'
    """
    kept = _URL.sub(_host, error[:_MOST])
    for pattern, instead in _PARTS:
        kept = pattern.sub(instead, kept)
    return " ".join(_NUMBER.sub(lambda match: match[1] or "<n>", kept).split())


def _host(url: re.Match[str]) -> str:
    """Return a URL without its varying parts: the scheme, the host, and whether there was a path."""
    return f"{url[2]}{url[3]}{'<path>' if url[4] else ''}"


def fingerprint(namespace: str, job: str, error: str) -> str:
    """Return twelve characters that are equal for runs of one job that died of the same cause.

    >>> fingerprint("default", "mail", "KeyError: 'ann'") == fingerprint("default", "mail", "KeyError: 'bob'")
    True
    >>> fingerprint("default", "mail", "KeyError: 'ann'") == fingerprint("default", "mail", "ValueError: 'ann'")
    False
    """
    said = "\0".join((namespace, job, error_type(error), common_text(error)))
    return hashlib.sha256(said.encode(errors="backslashreplace")).hexdigest()[:12]
