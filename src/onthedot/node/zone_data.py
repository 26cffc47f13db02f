"""The version of this machine's time zone data: planners with different data would plan different slots."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from zoneinfo import TZPATH

UNKNOWN = "unknown"
_VERSION = re.compile(r"\s*(?:#\s*version\s+)?([0-9]{4}[a-z]{1,2})\b")


@lru_cache(maxsize=1)
def tzdata_version() -> str:
    """The version of the data that `zoneinfo` reads here, like `2026a`; `unknown` if no file names it.

    The system's data comes first, as it does for `zoneinfo`; then the package `tzdata`. It is read once, because loaded
    zones do not change in a running process either.
    """
    return find_version(TZPATH)


def find_version(path: Sequence[str]) -> str:
    """Return the version of the first data on this path. If there is none, return that of the package."""
    for folder in map(Path, path):
        if (folder / "UTC").is_file():
            found = (_read_version(folder / name) for name in ("tzdata.zi", "+VERSION"))
            return next((version for version in found if version), UNKNOWN)
    try:
        return str(importlib.import_module("tzdata").IANA_VERSION)
    except (ImportError, AttributeError):
        return UNKNOWN


def _read_version(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            found = _VERSION.match(lines.readline(100))
    except OSError:
        return ""
    return found[1] if found else ""
