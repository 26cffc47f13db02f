"""Secrets in the store: sealed, bound to their names, opened with a key from outside or not at all."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot.model.errors import UnknownSecret
from onthedot.runners.stored_secrets import KEY, KEY_FILE, KIND, Keys, StoredSecrets, key_id
from onthedot.stores.memory import MemoryStore

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
VALUE = "correct horse battery"


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


async def test_what_is_set_is_found_again_and_is_not_in_the_store():
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


async def test_lists_tell_names_and_no_values():
    secrets = StoredSecrets(MemoryStore().documents, Keys([NEW]))
    for number in range(250):  # more than a page
        await secrets.set("default", f"N{number:03}", VALUE)
    await secrets.set("team", "A", VALUE)
    found = await secrets.list()
    assert [(one.namespace, one.name, one.key) for one in (found[0], found[-1])] == [
        ("default", "N000", key_id(NEW)),
        ("team", "A", key_id(NEW)),
    ]
    assert len(found) == 251
    assert VALUE not in repr(found)


async def test_what_is_removed_is_gone():
    secrets = StoredSecrets(MemoryStore().documents, Keys([NEW]))
    await secrets.set("default", "DB", VALUE)
    with pytest.raises(UnknownSecret, match="there is none, did you mean 'DB'"):
        await secrets.remove("default", "DBB")
    with pytest.raises(UnknownSecret, match="expected one in namespace 'team', there is none"):
        await secrets.remove("team", "DB")
    await secrets.remove("default", "DB")
    assert await secrets.get("default", "DB") is None


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_without_its_key_nothing_is_opened():
    store = MemoryStore()
    await StoredSecrets(store.documents, Keys([OLD])).set("default", "DB", VALUE)
    with pytest.raises(UnknownSecret) as told:
        await StoredSecrets(store.documents, Keys([])).get("default", "DB")
    assert str(told.value) == (
        f"secret DB: it is sealed with key {key_id(OLD)}, expected that in OTD_SECRETS_KEY or OTD_SECRETS_KEY_FILE, "
        "got none; add the key, or set the secret again"
    )
    with pytest.raises(UnknownSecret, match=f"got only {key_id(NEW)}; add the key"):
        await StoredSecrets(store.documents, Keys([NEW])).get("default", "DB")
    with pytest.raises(
        UnknownSecret, match="expected a key in OTD_SECRETS_KEY or OTD_SECRETS_KEY_FILE, got none; make"
    ):
        await StoredSecrets(store.documents, Keys([])).set("default", "DB", VALUE)


async def test_keys_are_replaced_one_by_one():
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


async def test_what_was_changed_or_moved_is_not_opened():
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
        with pytest.raises(UnknownSecret, match=f"secret {name}: expected what was sealed with key") as told:
            await secrets.get(namespace, name)
        assert VALUE not in str(told.value)
    for number, stored in enumerate(("3", "{}", '{"key": "a", "sealed": "?"}', "[]", "null")):
        await store.documents.put_document(KIND, f"default/N{number}", stored, version=0)
        with pytest.raises(UnknownSecret, match="expected a sealed text in the store"):
            await secrets.get("default", f"N{number}")
    assert len(await secrets.list()) == 10  # whatever is in it, a list is a list


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path):
    path = tmp_path / "keys"
    path.write_text(f"{text(NEW)}\n{text(OLD)}\n")
    path.chmod(0o600)
    ids = (key_id(NEW), key_id(OLD))
    assert Keys.of({KEY_FILE: str(path)}).ids == ids
    assert Keys.of({KEY: f"{text(NEW)}, {text(OLD)}"}).ids == ids
    assert Keys.of({KEY: base64.urlsafe_b64encode(b"\xff" * 32).decode()}).ids == (key_id(b"\xff" * 32),)
    assert Keys.of({}).ids == Keys.of({KEY: ""}).ids == ()


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path):
    for wrong in ("hush", text(NEW)[:-4], text(NEW + NEW), "☃" * 43, f"{text(NEW)} hush"):
        with pytest.raises(UnknownSecret, match="expected keys of 32 bytes as base64") as told:
            Keys.of({KEY: wrong})
        assert wrong not in str(told.value)
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
from onthedot.runners.stored_secrets import Keys
try:
    Keys([bytes(32)]).seal("default", "DB", "value")
except UnknownSecret as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=30)
    assert "pip install 'onthedot[secrets]'" in done.stdout, done.stderr
