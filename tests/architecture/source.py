"""Where the sources are, for the tests that read them instead of running them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "onthedot"
VERIFY = ROOT / "verify"


def python_files(*places: Path) -> list[Path]:
    """Every Python file at or under the places that exist, in a stable order."""
    found: set[Path] = set()
    for place in places:
        found.update([place] if place.is_file() else place.rglob("*.py"))
    return sorted(found)


def report(rule: str, findings: Iterable[str]) -> str:
    """A failure message: the rule once, then one finding per line."""
    return "\n  ".join([rule, *findings])
