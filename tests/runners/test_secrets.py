"""Secrets are read from the environment, files, other providers, and sealed from the store. Errors never show them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.errors import StoreUnavailable, UnknownSecret
from onthedot.runners.secrets import (
    KEY,
    KEY_FILE,
    KIND,
    EnvironmentSecrets,
    Keys,
    SecretFiles,
    Secrets,
    StoredSecrets,
    key_id,
)
from onthedot.stores.memory import MemoryStore

VALUE = "correct horse battery"


class FakeProvider:
    """A provider of another package."""

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


async def test_the_first_provider_with_a_secret_wins():
    first = EnvironmentSecrets({"OTD_SECRET_A": "from env", "OTD_SECRET_B": "from env"})
    second = FakeProvider({("default", "B"): "from shelf", ("default", "C"): "from shelf"})
    found = await Secrets([first, second]).resolve(["C", "B", "A", "A"])
    assert found == {"A": "from env", "B": "from env", "C": "from shelf"}
    assert await Secrets([]).resolve([]) == {}


async def test_a_secret_belongs_to_its_namespace():
    secrets = Secrets([EnvironmentSecrets({"OTD_SECRET_A": VALUE}), FakeProvider({("team", "A"): "of the team"})])
    assert await secrets.resolve(["A"], namespace="team") == {"A": "of the team"}
    with pytest.raises(UnknownSecret, match="for namespace 'other', found none"):
        await secrets.resolve(["A"], namespace="other")


async def test_all_problems_are_reported_without_values():
    secrets = Secrets([EnvironmentSecrets({"OTD_SECRET_PIN": "987", "OTD_SECRET_NUL": "hush\0hush"})])
    with pytest.raises(UnknownSecret) as caught:
        await secrets.resolve(["PIN", "NUL", "GONE", "no name"])
    text = str(caught.value)
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
async def test_an_invalid_secret_is_refused(value: object):
    with pytest.raises(UnknownSecret, match="secret A: expected"):
        await Secrets([FakeProvider({("default", "A"): value})]).resolve(["A"])


async def test_a_failing_provider_ends_the_search_and_its_message_is_not_shown():
    secrets = Secrets(
        [FakeProvider(error=RuntimeError(f"cannot parse {VALUE}")), EnvironmentSecrets({"OTD_SECRET_A": "other"})]
    )
    with pytest.raises(UnknownSecret) as caught:
        await secrets.resolve(["A"])
    assert str(caught.value) == "secret A: the shelf failed with RuntimeError; look at it"
    assert caught.value.__cause__ is None


async def test_an_unavailable_store_is_not_reported_as_a_missing_secret():
    with pytest.raises(StoreUnavailable):
        await Secrets([FakeProvider(error=StoreUnavailable("away"))]).resolve(["A"])


async def test_a_program_can_add_its_own_provider():
    sched = otd.Scheduler("memory:")
    shelf = FakeProvider()
    sched.secrets_from(shelf)
    assert sched.registry.providers == [shelf]
    with pytest.raises(otd.DefinitionError, match="provider: expected an object with a name and 'async def get'"):
        sched.secrets_from({"DB": "hush"})  # type: ignore[arg-type]
    async with sched:
        with pytest.raises(otd.StateError, match="secrets_from: expected to be called before"):
            sched.secrets_from(shelf)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_files_are_found_by_namespace(tmp_path: Path):
    put(tmp_path, "A", f"{VALUE}\n".encode())
    put(tmp_path, "B", b"two\n\n", 0o400)
    put(tmp_path, "team/A", b"of the team\r\n")
    files = SecretFiles(str(tmp_path))
    assert await files.get("default", "A") == VALUE
    assert await files.get("default", "B") == "two\n"
    assert await files.get("team", "A") == "of the team"
    assert await files.get("team", "B") is None
    assert await files.get("other", "A") is None
    assert await files.get("A", "A") is None  # A is a file, not a folder
    assert await files.get("default", "C") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o610])
async def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int):
    put(tmp_path, "A", VALUE.encode(), mode)
    with pytest.raises(
        UnknownSecret, match=f"secret A: expected a file of mode 0600, got {mode:04o}; 'chmod 600' it"
    ) as caught:
        await SecretFiles(str(tmp_path)).get("default", "A")
    assert VALUE not in str(caught.value)


async def test_a_link_pipe_folder_or_binary_file_is_refused(tmp_path: Path):
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


async def test_no_namespace_reaches_outside_of_the_directory(tmp_path: Path):
    put(tmp_path, "A", VALUE.encode())
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link").symlink_to(tmp_path)
    files = SecretFiles(str(inner))
    for namespace in ("..", "../inner/..", ".", "", "/", str(tmp_path), "link"):
        assert await files.get(namespace, "A") is None


async def test_a_missing_directory_is_reported(tmp_path: Path):
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


OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


async def test_a_stored_secret_is_found_and_its_value_is_not_in_the_store():
    store = MemoryStore()
    secrets = StoredSecrets(store.documents, Keys([NEW]))
    assert await secrets.set("default", "DB", VALUE) is False
    assert await secrets.get("default", "DB") == VALUE
    assert await secrets.get("team", "DB") is None
    assert await secrets.set("default", "DB", "another one") is True
    assert await secrets.get("default", "DB") == "another one"
    [document] = await store.documents.list_documents(KIND)
    assert document.id == "default/DB"
    assert VALUE not in document.body
    assert set(json.loads(document.body)) == {"key", "sealed"}


async def test_the_same_value_is_sealed_differently_each_time():
    keys = Keys([NEW])
    assert keys.seal("default", "DB", VALUE) != keys.seal("default", "DB", VALUE)


async def test_a_list_has_names_and_no_values():
    secrets = StoredSecrets(MemoryStore().documents, Keys([NEW]))
    for number in range(250):  # more than one page
        await secrets.set("default", f"N{number:03}", VALUE)
    await secrets.set("team", "A", VALUE)
    found = await secrets.list()
    assert [(one.namespace, one.name, one.key) for one in (found[0], found[-1])] == [
        ("default", "N000", key_id(NEW)),
        ("team", "A", key_id(NEW)),
    ]
    assert len(found) == 251
    assert VALUE not in repr(found)


async def test_a_removed_secret_is_gone():
    secrets = StoredSecrets(MemoryStore().documents, Keys([NEW]))
    await secrets.set("default", "DB", VALUE)
    with pytest.raises(UnknownSecret, match="there is none, did you mean 'DB'"):
        await secrets.remove("default", "DBB")
    with pytest.raises(UnknownSecret, match="expected one in namespace 'team', there is none"):
        await secrets.remove("team", "DB")
    await secrets.remove("default", "DB")
    assert await secrets.get("default", "DB") is None


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_secret_cannot_be_read_without_its_key():
    store = MemoryStore()
    await StoredSecrets(store.documents, Keys([OLD])).set("default", "DB", VALUE)
    with pytest.raises(UnknownSecret) as caught:
        await StoredSecrets(store.documents, Keys([])).get("default", "DB")
    assert str(caught.value) == (
        f"secret DB: it is sealed with key {key_id(OLD)}, expected that in OTD_SECRETS_KEY or OTD_SECRETS_KEY_FILE, "
        "got none; add the key, or set the secret again"
    )
    with pytest.raises(UnknownSecret, match=f"got only {key_id(NEW)}; add the key"):
        await StoredSecrets(store.documents, Keys([NEW])).get("default", "DB")
    with pytest.raises(
        UnknownSecret, match="expected a key in OTD_SECRETS_KEY or OTD_SECRETS_KEY_FILE, got none; make"
    ):
        await StoredSecrets(store.documents, Keys([])).set("default", "DB", VALUE)


async def test_keys_can_be_replaced_one_after_the_other():
    store = MemoryStore()
    await StoredSecrets(store.documents, Keys([OLD])).set("default", "A", VALUE)
    await StoredSecrets(store.documents, Keys([OLD])).set("default", "B", "another one")
    both = StoredSecrets(store.documents, Keys([NEW, OLD]))
    assert await both.get("default", "A") == VALUE
    await both.set("default", "C", "the third")
    assert [one.key for one in await both.list()] == [key_id(OLD), key_id(OLD), key_id(NEW)]
    assert await both.reseal() == 2
    assert await both.reseal() == 0
    new = StoredSecrets(store.documents, Keys([NEW]))
    assert [await new.get("default", name) for name in "ABC"] == [VALUE, "another one", "the third"]
    assert {one.key for one in await new.list()} == {key_id(NEW)}


async def test_a_sealed_secret_that_was_changed_or_moved_is_refused():
    store = MemoryStore()
    secrets = StoredSecrets(store.documents, Keys([NEW]))
    await secrets.set("default", "DB", VALUE)
    [document] = await store.documents.list_documents(KIND)
    body = json.loads(document.body)
    sealed = bytearray(base64.b64decode(body["sealed"]))
    sealed[20] ^= 1
    changed = json.dumps(body | {"sealed": base64.b64encode(sealed).decode()})
    for id, stored in (
        ("team/DB", document.body),
        ("default/OTHER", document.body),
        ("default/CHANGED", changed),
        ("default/SHORT", json.dumps(body | {"sealed": "aGk="})),
    ):
        await store.documents.put_document(KIND, id, stored, version=0)
        namespace, _, name = id.partition("/")
        with pytest.raises(UnknownSecret, match=f"secret {name}: expected what was sealed with key") as caught:
            await secrets.get(namespace, name)
        assert VALUE not in str(caught.value)
    for number, stored in enumerate(("3", "{}", '{"key": "a", "sealed": "?"}', "[]", "null")):
        await store.documents.put_document(KIND, f"default/N{number}", stored, version=0)
        with pytest.raises(UnknownSecret, match="expected a sealed text in the store"):
            await secrets.get("default", f"N{number}")
    assert len(await secrets.list()) == 10  # damaged secrets do not break the list


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path):
    path = tmp_path / "keys"
    path.write_text(f"{text(NEW)}\n{text(OLD)}\n")
    path.chmod(0o600)
    ids = (key_id(NEW), key_id(OLD))
    assert Keys.of({KEY_FILE: str(path)}).ids == ids
    assert Keys.of({KEY: f"{text(NEW)}, {text(OLD)}"}).ids == ids
    assert Keys.of({KEY: base64.urlsafe_b64encode(b"\xff" * 32).decode()}).ids == (key_id(b"\xff" * 32),)
    assert Keys.of({}).ids == Keys.of({KEY: ""}).ids == ()


def test_an_invalid_key_is_refused_and_not_shown(tmp_path: Path):
    for wrong in ("hush", text(NEW)[:-4], text(NEW + NEW), "☃" * 43, f"{text(NEW)} hush"):
        with pytest.raises(UnknownSecret, match="expected keys of 32 bytes as base64") as caught:
            Keys.of({KEY: wrong})
        assert wrong not in str(caught.value)
    with pytest.raises(UnknownSecret, match="got both; unset one"):
        Keys.of({KEY: text(NEW), KEY_FILE: "x"})
    with pytest.raises(UnknownSecret, match=r"expected the key file .*none .*, got: No such file"):
        Keys.of({KEY_FILE: str(tmp_path / "none")})
    path = tmp_path / "keys"
    path.write_text(text(NEW))
    path.chmod(0o644)
    with pytest.raises(UnknownSecret, match="expected a file of mode 0600, got 0644"):
        Keys.of({KEY_FILE: str(path)})
    assert text(NEW) not in repr(Keys([NEW]))


@pytest.mark.slow
def test_without_the_library_the_error_names_the_extra():
    probe = """
import sys
sys.modules["cryptography"] = None
from onthedot.model.errors import UnknownSecret
from onthedot.runners.secrets import Keys
try:
    Keys([bytes(32)]).seal("default", "DB", "value")
except UnknownSecret as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=30)
    assert "pip install 'onthedot[secrets]'" in done.stdout, done.stderr
