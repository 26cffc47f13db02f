"""Encodes the arguments of a run: JSON of at most 64 KiB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onthedot.model.errors import ArgumentsError
from onthedot.model.job import canonical

LIMIT = 64 * 1024
"""The most characters of JSON for a run's arguments. Larger data belongs elsewhere; the run refers to it."""


def encode_arguments(arguments: Mapping[str, Any], *, subject: str, from_json: bool = False) -> str:
    """Arguments as canonical JSON; `ArgumentsError` if they are not JSON or too large. Arguments from valid JSON
    (`from_json`) are not compared with the result, which saves two thirds of the time.

    >>> encode_arguments({"b": 1, "a": [True, None]}, subject="job 'x'")
    '{"a":[true,null],"b":1}'
    """
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        raise ArgumentsError(
            f"arguments: expected a mapping of names to values, got {type(arguments).__name__}", subject=subject
        )
    try:
        text = canonical(arguments)
        if not from_json:
            json.dumps(dict(arguments), ensure_ascii=False).encode()  # a lone surrogate cannot be stored
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(
            f"arguments: expected JSON (numbers, text, true, false, null, lists, mappings), but {error}",
            subject=subject,
        ) from None
    if not from_json and json.loads(text) != _plain(arguments):
        raise ArgumentsError("arguments: expected text as the keys of every mapping", subject=subject)
    if len(text) > LIMIT:
        raise ArgumentsError(
            f"arguments: expected at most {LIMIT} characters of JSON, got {len(text)}; "
            "keep the data elsewhere and pass a reference",
            subject=subject,
        )
    return text


def _plain(value: Any) -> Any:
    """Return what JSON would return if every key were text: tuples become lists, nothing else changes."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
