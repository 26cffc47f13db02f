"""A pytest plugin with the option `--timeline DIR`, which keeps the picture that each chaos test draws."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--timeline", metavar="DIR", help="keep the timeline of each chaos test here (default: with its other files)"
    )


@pytest.fixture
def timeline_kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """After the test, copy its picture to the folder of `--timeline`, whether it passed or not."""
    yield
    wanted, drawn = request.config.getoption("--timeline"), tmp_path / "timeline.html"
    if wanted and drawn.exists():
        folder = Path(wanted)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(drawn, folder / (re.sub(r"[^\w.-]+", "-", request.node.name).strip("-") + ".html"))
