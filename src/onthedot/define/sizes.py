"""Amounts of bytes as people write them: `512MiB`, `2G`, `65536`."""

from __future__ import annotations

import re

from onthedot.model.errors import DefinitionError, shown

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_LONGEST_TEXT = 100  # characters
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(value: object, *, what: str = "size") -> int:
    """A number of bytes. `K`, `M`, `G`, `T` count by 1024, as memory does, with or without the `i`.

    >>> parse_size("512MiB"), parse_size("2G"), parse_size(4096)
    (536870912, 2147483648, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None
    if found is None:
        raise DefinitionError(f"{what}: expected an amount of bytes like '512M' or '2GiB', got {shown(value)}")
    return round(float(found[1]) * 2.0 ** (10 * _POWERS[found[2].upper()]))
