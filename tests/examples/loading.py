"""Loads an example as a new module, with its database in the folder of the test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the example again for each test, because a scheduler and its jobs belong to one program."""
    monkeypatch.chdir(folder)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
