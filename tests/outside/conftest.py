"""A canary on the path of every test here, and a look at it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.attacks import CANARY, SOURCE
from tests.outside.canary import check_canary


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, the canary is neither imported nor called, here or in a child process."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / f"{CANARY}.py").write_text(SOURCE.format(path=str(tmp_path / "touched")))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    yield
    check_canary(tmp_path)
