"""The settings `output` and `spool`: which folder or bucket each value names, and which values are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.model.errors import DefinitionError
from onthedot.output.locations import Bucket, home_of, output_location, spool_folder
from onthedot.runners.program.workspace import spool_of
from onthedot.settings import Settings


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "onthedot"


def test_by_default_each_store_has_a_folder_in_the_users_state_folder(state: Path):
    first, second = output_location("", "sqlite:///a.db"), output_location("", "sqlite:///b.db")
    assert isinstance(first, Path)
    assert first.parent == state / "output"
    assert first != second
    assert spool_folder("", "sqlite:///a.db") == state / "spool" / first.name


def test_without_xdg_state_home_output_goes_to_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    place = output_location("", "sqlite:///a.db")
    assert isinstance(place, Path)
    assert place.parent == tmp_path / "ann" / ".local" / "state" / "onthedot" / "output"


def test_urls_of_one_store_share_its_folder_whatever_the_password(tmp_path: Path):
    assert home_of("sqlite:///a.db") == home_of(f"sqlite:///{tmp_path}/./a.db")
    assert home_of("postgresql://a:x@db/jobs") == home_of("postgresql://b:y@db/jobs") != home_of("postgresql://db/o")


def test_stores_in_one_database_have_different_folders():
    assert home_of("postgresql://db/jobs?schema=a") != home_of("postgresql://db/jobs?schema=b&connections=4")
    assert home_of("postgresql://db/jobs?schema=a") == home_of("postgresql://db/jobs?connections=4&schema=a")
    assert home_of("redis://db/0?prefix=a") != home_of("redis://db/0?prefix=b") != home_of("redis://db/0")


def test_a_store_in_memory_keeps_its_output_in_memory():
    assert output_location("", "memory:") is None
    assert output_location("", None) is None
    assert spool_folder("", None) is None


def test_a_directory_and_a_bucket_can_be_given(tmp_path: Path):
    assert output_location("out", "memory:") == tmp_path / "out"
    place = output_location("s3://bucket/a/b/?endpoint=http://127.0.0.1:1&region=eu", None)
    assert place == Bucket("bucket", "a/b", "http://127.0.0.1:1", "eu")
    assert str(place) == "s3://bucket/a/b"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ftp://x/y", "expected a directory or s3://"),
        ("s3:///prefix", "no bucket"),
        ("s3://KEY:SECRET@bucket/x", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/x?regoin=eu", "did you mean 'region'"),
        ("s3://bucket/x?endpoint=localhost:9000", "expected http://"),
    ],
)
def test_an_invalid_location_is_refused_with_advice(given: str, told: str):
    with pytest.raises(DefinitionError) as refused:
        output_location(given, None)
    assert told in str(refused.value)
    assert "SECRET@" not in str(refused.value)


def test_each_store_has_its_own_folder_in_a_shared_spool(tmp_path: Path):
    first, second = spool_folder("here", "sqlite:///a.db"), spool_folder("here", "sqlite:///b.db")
    assert first is not None
    assert first.parent == spool_of(Settings(spool="here")) == tmp_path / "here"
    assert first != second
    assert spool_folder("here", "memory:") == tmp_path / "here" / "memory"


def test_a_spool_must_be_a_directory():
    with pytest.raises(DefinitionError, match="spool: expected a directory"):
        spool_folder("s3://bucket", None)
