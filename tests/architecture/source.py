"""The folders of the sources, for tests that read source files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "onthedot"
VERIFY = ROOT / "verify"


def python_files(*places: Path) -> list[Path]:
    """Return every Python file at or under these places, sorted. Places that do not exist are skipped."""
    found: set[Path] = set()
    for place in places:
        found.update([place] if place.is_file() else place.rglob("*.py"))
    return sorted(found)


def report(rule: str, findings: Iterable[str]) -> str:
    """Return the message of a failure: the rule, then one finding per line."""
    return "\n  ".join([rule, *findings])
