"""ETags of jobs, and the headers If-Match and If-None-Match: two clients cannot overwrite each other's edit."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from onthedot.model.job import JobRecord
from onthedot.server.problems import FieldProblem, Problem

_LIST = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e]*"\s*)*')
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')

IfMatch = Annotated[
    str | None,
    Header(
        description="Only if the job still has this `ETag`; else 412.", max_length=1000, examples=['"7-3"'],
    ),
]  # fmt: skip
IfNoneMatch = Annotated[
    str | None,
    Header(description="`*`: only if there is no such job yet; else 412.", max_length=1000, examples=["*"]),
]


def etag_of(record: JobRecord) -> str:
    """The tag of a job at this revision. A job that was deleted and created again has another one."""
    return f'"{record.id}-{record.revision}"'


def check_match(record: JobRecord | None, if_match: str | None, if_none_match: str | None) -> None:
    """412 unless the stored job fits these headers; 422 if they cannot be read."""
    tag = None if record is None else etag_of(record)
    if if_match is not None and not _names(if_match, tag, "If-Match"):
        raise _stale(f"a job with the tag {if_match}", tag)
    if if_none_match is not None and _names(if_none_match, tag, "If-None-Match"):
        wanted = "no such job" if if_none_match.strip() == "*" else f"another tag than {if_none_match}"
        raise _stale(wanted, tag)


def _names(header: str, tag: str | None, name: str) -> bool:
    """Whether a header names this tag. A weak tag (`W/"7-3"`) never matches."""
    if header.strip() == "*":
        return tag is not None
    if not _LIST.fullmatch(header):
        problem = f'expected an ETag as it was answered, such as "7-3", or *, got {header[:80]!r}'
        raise Problem(422, "invalid", f"{name}: {problem}", [FieldProblem(f"header.{name}", problem)])
    return tag is not None and tag in _TAG.findall(header)


def _stale(wanted: str, tag: str | None) -> Problem:
    found = "none" if tag is None else f"one with the tag {tag}"
    return Problem(412, "stale", f"expected {wanted}, found {found}; read it again, and make the change anew")
