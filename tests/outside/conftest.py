"""A fixture that puts a canary module on the path of each test and checks it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.attacks import CANARY, SOURCE
from tests.outside.canary import check_canary


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test that imports or calls the canary, in this process or in a child process."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / f"{CANARY}.py").write_text(SOURCE.format(path=str(tmp_path / "touched")))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    yield
    check_canary(tmp_path)
