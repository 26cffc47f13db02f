"""Checks that the canary was neither imported nor called."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.outside.attacks import CANARY


def check_canary(folder: Path, after: str = "the test") -> None:
    assert CANARY not in sys.modules, f"imported by {after}"
    assert not (folder / "touched").exists(), f"called by {after}"
