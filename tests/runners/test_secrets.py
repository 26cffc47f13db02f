"""Where secrets are found, for whom, and what is refused. No value is ever in a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.errors import StoreUnavailable, UnknownSecret
from onthedot.runners.secrets import EnvironmentSecrets, SecretFiles, Secrets

VALUE = "correct horse battery"


class Shelf:
    """A provider of somebody else's."""

    name = "the shelf"

    def __init__(self, values: dict[tuple[str, str], object] | None = None, error: Exception | None = None) -> None:
        self._values = values or {}
        self._error = error

    async def get(self, namespace: str, name: str) -> str | None:
        if self._error is not None:
            raise self._error
        return self._values.get((namespace, name))  # type: ignore[return-value]


def put(folder: Path, name: str, content: bytes, mode: int = 0o600) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


async def test_the_first_that_has_one_wins():
    first = EnvironmentSecrets({"OTD_SECRET_A": "from env", "OTD_SECRET_B": "from env"})
    second = Shelf({("default", "B"): "from shelf", ("default", "C"): "from shelf"})
    found = await Secrets([first, second]).resolve(["C", "B", "A", "A"])
    assert found == {"A": "from env", "B": "from env", "C": "from shelf"}
    assert await Secrets([]).resolve([]) == {}


async def test_a_secret_belongs_to_its_namespace():
    secrets = Secrets([EnvironmentSecrets({"OTD_SECRET_A": VALUE}), Shelf({("team", "A"): "of the team"})])
    assert await secrets.resolve(["A"], namespace="team") == {"A": "of the team"}
    with pytest.raises(UnknownSecret, match="for namespace 'other', found none"):
        await secrets.resolve(["A"], namespace="other")


async def test_every_problem_is_told_and_no_value():
    secrets = Secrets([EnvironmentSecrets({"OTD_SECRET_PIN": "987", "OTD_SECRET_NUL": "hush\0hush"})])
    with pytest.raises(UnknownSecret) as told:
        await secrets.resolve(["PIN", "NUL", "GONE", "no name"])
    text = str(told.value)
    assert "secret PIN: expected at least 4 characters, got fewer" in text
    assert "secret NUL: expected UTF-8 text without a zero character" in text
    assert (
        "secret GONE: expected one of that name for namespace 'default', found none (looked in: the environment)"
        in text
    )
    assert "set it with 'onthedot secret set GONE'" in text
    assert "secret: expected a name of letters" in text
    assert "987" not in text
    assert "hush" not in text


@pytest.mark.parametrize("value", [3, b"bytes bytes", "x" * 40_000, "☃" * 20_000, "bad \ud800 text"])
async def test_what_is_no_secret_is_refused(value: object):
    with pytest.raises(UnknownSecret, match="secret A: expected"):
        await Secrets([Shelf({("default", "A"): value})]).resolve(["A"])


async def test_a_provider_that_fails_ends_the_search_and_its_words_are_not_repeated():
    secrets = Secrets(
        [Shelf(error=RuntimeError(f"cannot parse {VALUE}")), EnvironmentSecrets({"OTD_SECRET_A": "other"})]
    )
    with pytest.raises(UnknownSecret) as told:
        await secrets.resolve(["A"])
    assert str(told.value) == "secret A: the shelf failed with RuntimeError; look at it"
    assert told.value.__cause__ is None


async def test_a_store_that_is_away_is_not_a_secret_that_is_missing():
    with pytest.raises(StoreUnavailable):
        await Secrets([Shelf(error=StoreUnavailable("away"))]).resolve(["A"])


async def test_a_program_adds_its_own():
    sched = otd.Scheduler("memory:")
    shelf = Shelf()
    sched.secrets_from(shelf)
    assert sched.registry.providers == [shelf]
    with pytest.raises(otd.DefinitionError, match="provider: expected an object with a name and 'async def get'"):
        sched.secrets_from({"DB": "hush"})  # type: ignore[arg-type]
    async with sched:
        with pytest.raises(otd.StateError, match="secrets_from: expected to be called before"):
            sched.secrets_from(shelf)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_files_by_namespace(tmp_path: Path):
    put(tmp_path, "A", f"{VALUE}\n".encode())
    put(tmp_path, "B", b"two\n\n", 0o400)
    put(tmp_path, "team/A", b"of the team\r\n")
    files = SecretFiles(str(tmp_path))
    assert await files.get("default", "A") == VALUE
    assert await files.get("default", "B") == "two\n"
    assert await files.get("team", "A") == "of the team"
    assert await files.get("team", "B") is None
    assert await files.get("other", "A") is None
    assert await files.get("A", "A") is None  # a file, and no folder
    assert await files.get("default", "C") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o610])
async def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int):
    put(tmp_path, "A", VALUE.encode(), mode)
    with pytest.raises(
        UnknownSecret, match=f"secret A: expected a file of mode 0600, got {mode:04o}; 'chmod 600' it"
    ) as told:
        await SecretFiles(str(tmp_path)).get("default", "A")
    assert VALUE not in str(told.value)


async def test_what_is_no_file_is_refused(tmp_path: Path):
    put(tmp_path, "A", VALUE.encode())
    (tmp_path / "LINK").symlink_to(tmp_path / "A")
    os.mkfifo(tmp_path / "PIPE", 0o600)
    (tmp_path / "FOLDER").mkdir(mode=0o700)
    put(tmp_path, "BYTES", b"\xff\xfe\xfd\xfc")
    files = SecretFiles(str(tmp_path))
    for name, words in (
        ("LINK", "expected a file, got a link"),
        ("PIPE", "expected a plain file, got something else"),
        ("FOLDER", "expected"),
        ("BYTES", "expected UTF-8 text, got other bytes"),
    ):
        with pytest.raises(UnknownSecret, match=words):
            await files.get("default", name)


async def test_no_namespace_leads_out_of_the_directory(tmp_path: Path):
    put(tmp_path, "A", VALUE.encode())
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link").symlink_to(tmp_path)
    files = SecretFiles(str(inner))
    for namespace in ("..", "../inner/..", ".", "", "/", str(tmp_path), "link"):
        assert await files.get(namespace, "A") is None


async def test_a_directory_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(UnknownSecret, match=r"expected the directory .*none \(OTD_SECRETS_DIR\), got: No such file"):
        await SecretFiles(str(tmp_path / "none")).get("default", "A")


async def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = put(tmp_path, "A", VALUE.encode())
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UnknownSecret, match="expected a file of this user or of root, got one of user"):
        await SecretFiles(str(tmp_path)).get("default", "A")
