"""Keys: issued, listed and revoked on every store; and which keys a principal can see."""

from __future__ import annotations

import asyncio
import json

import pytest

from onthedot.access.credentials import read
from onthedot.access.keys import KIND, USED, get_key, issue, list_keys, note_use, read_key, revoke
from onthedot.access.permissions import Grant, Permission, Role
from onthedot.clock import SECOND
from onthedot.model.errors import AccessDenied, DefinitionError, UnknownKey
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import START

VIEWER = Grant(role=Role.VIEWER)
EDITOR = Grant(
    role=Role.EDITOR, scopes=frozenset({Permission.JOBS_WRITE}), may_code=True, namespaces=("ci",), owner="ann"
)


async def test_an_issued_key_is_stored_without_its_secret(stores: tuple[Store, Store]):
    one, other = stores
    issued = await issue(one, "ci", EDITOR, expires_at=START + 60 * SECOND, now=START)
    credential = read(issued.text)
    assert credential is not None
    assert (credential.kind, credential.id) == ("key", issued.key.id)
    key = await get_key(other, issued.key.id)
    assert key == issued.key
    assert (key.name, key.grant, key.made_at, key.made_by, key.used_at) == ("ci", EDITOR, START, "local", None)
    assert await list_keys(other) == [key]
    document = await other.documents.get_document(KIND, key.id)
    assert document is not None
    assert credential.secret not in f"{document} {issued!r} {key!r} {read_key(document)!r}"
    assert [key.state(START + after) for after in (0, 60 * SECOND - 1, 60 * SECOND)] == ["active", "active", "expired"]


async def test_a_revoked_key_stays_revoked(stores: tuple[Store, Store]):
    one, other = stores
    issued = await issue(one, "ci", VIEWER)
    revoked = await revoke(one, issued.key.id, now=START)
    assert (revoked.revoked_at, revoked.state(0)) == (START, "revoked")
    assert await revoke(other, issued.key.id, now=START + 1) == revoked
    assert await get_key(other, issued.key.id) == revoked
    document = await other.documents.get_document(KIND, issued.key.id)
    assert document is not None
    assert json.loads(document.body)["proof"] == ""  # no text matches an empty proof


async def test_concurrent_revocations_agree_on_the_instant(stores: tuple[Store, Store]):
    issued = await issue(stores[0], "ci", VIEWER)
    answers = await asyncio.gather(*(revoke(stores[n % 2], issued.key.id, now=START + n) for n in range(6)))
    assert {answer.revoked_at for answer in answers} == {(await get_key(stores[1], issued.key.id)).revoked_at}


async def test_keys_are_listed_page_by_page_with_their_last_use(stores: tuple[Store, Store]):
    one, _ = stores
    ids = sorted([(await issue(one, f"k{number}", VIEWER)).key.id for number in range(7)])
    await note_use(one, ids[1], START)
    await note_use(one, ids[5], START)
    first = await list_keys(one, limit=3)
    rest = await list_keys(one, after=first[-1].id)
    assert [key.id for key in [*first, *rest]] == ids
    assert [key.id for key in [*first, *rest] if key.used_at == START] == [ids[1], ids[5]]
    assert await list_keys(one, after=ids[-1]) == []


async def test_use_is_recorded_at_most_once_a_minute():
    store = MemoryStore()
    issued = await issue(store, "ci", VIEWER)
    for seconds, noted in ((0, 0), (59, 0), (60, 60), (61, 60)):
        await note_use(store, issued.key.id, START + seconds * SECOND)
        assert (await get_key(store, issued.key.id)).used_at == START + noted * SECOND


async def test_invalid_keys_and_keys_with_too_many_rights_are_not_issued():
    store = MemoryStore()
    with pytest.raises(DefinitionError, match="name of the key"):
        await issue(store, "a b", VIEWER)
    with pytest.raises(DefinitionError, match="expected an instant that lies ahead"):
        await issue(store, "ci", VIEWER, expires_at=START, now=START)
    with pytest.raises(DefinitionError, match="scope"):
        await issue(store, "ci", Grant(role=Role.VIEWER, scopes=frozenset({Permission.KEYS_MANAGE})))
    team = Grant(role=Role.ADMIN, namespaces=("team",)).principal("key", "1", "team")
    with pytest.raises(AccessDenied, match=r"team \(admin\) may not give this"):
        await issue(store, "ci", Grant(role=Role.ADMIN), by=team)
    assert await list_keys(store) == []


async def test_a_principal_sees_only_keys_it_could_have_issued():
    store = MemoryStore()
    team = Grant(role=Role.ADMIN, namespaces=("team",)).principal("key", "1", "team")
    theirs = await issue(store, "theirs", Grant(role=Role.EDITOR, namespaces=("team",)), by=team)
    root = await issue(store, "root", Grant(role=Role.ADMIN))
    assert [key.name for key in await list_keys(store, by=team, limit=1)] == ["theirs"]
    assert len(await list_keys(store)) == 2
    for ask in (get_key, revoke):
        with pytest.raises(UnknownKey):
            await ask(store, root.key.id, by=team)
    assert (await get_key(store, root.key.id)).revoked_at is None
    assert (await revoke(store, theirs.key.id, by=team)).revoked_at is not None


@pytest.mark.parametrize("id", ["", "x", "0" * 15, "\0", "a\nb", "☃" * 500])
async def test_an_invalid_id_names_no_key(stores: tuple[Store, Store], id: str):
    with pytest.raises(UnknownKey):
        await get_key(stores[0], id)


async def test_an_error_about_a_key_does_not_repeat_its_secret():
    store = MemoryStore()
    issued = await issue(store, "ci", VIEWER)
    with pytest.raises(UnknownKey) as told:
        await revoke(store, issued.text)
    assert issued.text.partition(".")[2] not in str(told.value)
    assert issued.key.id in str(told.value)


@pytest.mark.parametrize("body", ["{}", "[]", "3", "null", '{"proof": ""}', '"text"'])
async def test_damaged_documents_are_no_keys(body: str):
    store = MemoryStore()
    await store.documents.put_document(KIND, "0" * 15, body, version=0)
    await store.documents.put_document(USED, "0" * 15, body, version=0)
    assert await list_keys(store) == []
    with pytest.raises(UnknownKey):
        await get_key(store, "0" * 15)
