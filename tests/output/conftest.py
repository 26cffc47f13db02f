"""Fixtures: an empty output store of each kind, and a log to put into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.output.locations import output_location
from onthedot.output.output_store import OutputStore
from onthedot.output.records import Record, encode


@pytest.fixture(params=["directory", "memory", "s3"])
def outputs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutputStore:
    """An empty output store: once in a directory, once in memory, once on S3."""
    if request.param == "directory":
        return OutputStore(tmp_path / "output")
    if request.param == "memory":
        return OutputStore(None)
    server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return OutputStore(output_location(server.url(server.fresh_prefix()), None))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log file of two lines."""
    folder = tmp_path / "spooled"
    folder.mkdir()
    path = folder / "log"
    path.write_bytes(b"".join(encode(Record(at, "out", "build", f"line {at}\n")) for at in (1, 2)))
    return path
