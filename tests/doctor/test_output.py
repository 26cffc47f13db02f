"""The output store: a probe is written, read back and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.doctor import output
from onthedot.doctor.output import look_at_output
from onthedot.ids import SeededIds


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


async def test_a_directory(tmp_path: Path):
    for place in (str(tmp_path), f"file://{tmp_path}"):
        found = await look_at_output(place, SeededIds(1))
        assert (found.state, found.found) == ("ok", f"{place}: written and read back")
    assert is_empty(tmp_path)


async def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path):
    found = await look_at_output(str(tmp_path / "none"), SeededIds(1))
    assert (found.state, found.is_fault) == ("broken", True)
    assert "expected a directory, found none" in found.found
    assert is_empty(tmp_path)


async def test_a_bucket_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "PATIENCE", 2)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "ann",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    found = await look_at_output("s3://bucket/logs", SeededIds(1))
    assert found.is_fault
    assert "hidden" not in str(found)


async def test_a_place_that_is_none():
    assert (await look_at_output("ftp://x/y", SeededIds(1))).is_fault
