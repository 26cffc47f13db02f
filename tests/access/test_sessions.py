"""One-time tokens: a token can be exchanged for one session, once, before it expires."""

from __future__ import annotations

import asyncio

import pytest

from onthedot.access.credentials import read
from onthedot.access.permissions import Grant, Role
from onthedot.access.sessions import KIND, TOKEN, TOKEN_LASTS, Session, issue_token
from onthedot.access.users import exchange
from onthedot.model.errors import AccessDenied, LoginRefused
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import START

ADMIN = Grant(role=Role.ADMIN)


async def test_concurrent_exchanges_of_a_token_give_one_session(stores: tuple[Store, Store]):
    text = await issue_token(stores[0], "up", ADMIN)
    answers = await asyncio.gather(*(exchange(stores[n % 2], text) for n in range(8)), return_exceptions=True)
    assert [type(answer) for answer in answers].count(LoginRefused) == 7
    [session] = [answer for answer in answers if isinstance(answer, Session)]
    assert [document.id for document in await stores[1].documents.list_documents(KIND)] == [session.id]
    assert await stores[1].documents.list_documents(TOKEN) == []


async def test_two_requests_that_both_read_a_token_get_one_session(monkeypatch: pytest.MonkeyPatch):
    """In this order, deleting the token instead of marking it would let both requests in."""
    store = MemoryStore()
    text = await issue_token(store, "up", ADMIN)
    both, get, waiting = asyncio.Event(), store.documents.get_document, []

    async def get_together(kind: str, id: str):
        found = await get(kind, id)
        if kind == TOKEN:
            waiting.append(found)
            if len(waiting) == 2:
                both.set()
            await both.wait()
        return found

    monkeypatch.setattr(store.documents, "get_document", get_together)
    answers = await asyncio.gather(exchange(store, text), exchange(store, text), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["LoginRefused", "Session"]
    assert None not in waiting


async def test_a_token_works_once(stores: tuple[Store, Store]):
    text = await issue_token(stores[0], "up", ADMIN)
    assert (await exchange(stores[0], text)).name == "up"
    for store in stores:
        with pytest.raises(LoginRefused, match="expected one that was not used yet"):
            await exchange(store, text)


async def test_a_token_expires():
    store = MemoryStore()
    text = await issue_token(store, "up", ADMIN, now=START)
    with pytest.raises(LoginRefused):
        await exchange(store, text, now=START + TOKEN_LASTS)
    assert (await exchange(store, text, now=START + TOKEN_LASTS - 1)).name == "up"


async def test_other_texts_are_not_exchanged(stores: tuple[Store, Store]):
    text = await issue_token(stores[0], "up", ADMIN)
    token = read(text)
    assert token is not None
    for wrong in ("", "x", text.replace("ott_", "otd_"), text[:-1], f"ott_{token.id}.{'0' * 64}", "\0"):
        with pytest.raises(LoginRefused) as told:
            await exchange(stores[0], wrong)
        assert token.secret not in str(told.value)
    session = await exchange(stores[0], text)
    with pytest.raises(LoginRefused):
        await exchange(stores[0], session.text)


async def test_a_principal_cannot_issue_a_token_with_rights_that_it_lacks():
    with pytest.raises(AccessDenied):
        await issue_token(MemoryStore(), "up", ADMIN, by=Grant(role=Role.EDITOR).principal("key", "1", "ed"))
