"""Users who sign on with an identity provider, on every store, with two servers."""

from __future__ import annotations

import asyncio

import pytest

from onthedot.access import users
from onthedot.access.authenticator import Authenticator
from onthedot.access.grants import Grant
from onthedot.access.id_tokens import Person
from onthedot.access.permissions import Role
from onthedot.access.sign_on import USED, sign_on
from onthedot.access.users import Logins
from onthedot.clock import SystemClock
from onthedot.model.errors import DefinitionError, DuplicateUser, LoginRefused
from onthedot.stores.protocol import Store
from tests.access.test_passwords import CHEAP

ISSUER = "https://example.auth0.com/"
ANN = Person("auth0|ann", "ann@example.org")
EDITOR = Grant(role=Role.EDITOR)


async def test_who_the_provider_knows_is_let_in_as_that_user(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, "Ann@Example.org", None, EDITOR)
    session = await sign_on(one, "one.token.x", ANN, ISSUER)
    authenticator = Authenticator(other, SystemClock())
    try:
        who = await authenticator.check(session.text)
        assert who is not None
        assert (who.name, who.role) == ("ann@example.org", Role.EDITOR)
    finally:
        await authenticator.close()
    assert (await users.get_user(other, "ann@example.org")).subject == "auth0|ann"


async def test_a_token_is_taken_once_whichever_server_is_asked(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    tried = [sign_on(store, "the.same.token", ANN, ISSUER) for store in (one, other, one, other)]
    came = await asyncio.gather(*tried, return_exceptions=True)
    assert [type(one) for one in came if isinstance(one, Exception)] == [LoginRefused] * 3
    assert "not used yet" in str(next(one for one in came if isinstance(one, LoginRefused)))


async def test_a_token_is_the_same_whatever_its_signature_is_spelt_like(stores: tuple[Store, Store]):
    """By elliptic curve (r, s) and (r, n - s) are both good, and whoever has one can work out the other."""
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    await sign_on(store, "header.claims.one", ANN, ISSUER)
    with pytest.raises(LoginRefused, match="not used yet"):
        await sign_on(store, "header.claims.other", ANN, ISSUER)


async def test_an_address_that_somebody_else_has_now_lets_nobody_in(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    await sign_on(one, "a.first.x", ANN, ISSUER)
    for stranger, issuer in ((Person("auth0|eve", ANN.email), ISSUER), (ANN, "https://other.example/")):
        with pytest.raises(LoginRefused, match="found none that is let in"):
            await sign_on(other, f"of {stranger}.{issuer}.x", stranger, issuer)
    assert (await sign_on(other, "a.second.x", ANN, ISSUER)).name == ANN.email


async def test_of_two_who_come_first_with_one_address_one_has_it(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    people = [Person(f"auth0|{number}", ANN.email) for number in range(4)]
    tried = [sign_on((one, other)[n % 2], f"a.token {n}.x", person, ISSUER) for n, person in enumerate(people)]
    came = await asyncio.gather(*tried, return_exceptions=True)
    [winner] = [n for n, found in enumerate(came) if not isinstance(found, BaseException)]
    assert all(isinstance(found, LoginRefused) for n, found in enumerate(came) if n != winner)
    assert (await users.get_user(other, ANN.email)).subject == people[winner].subject


async def test_nobody_else_is_let_in_so(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, "with@password.org", "correct horse", EDITOR, passwords=CHEAP)
    await users.create(store, "bob@example.org", None, EDITOR)
    await users.set_disabled(store, "bob@example.org", disabled=True)
    for email in ("with@password.org", "bob@example.org", "nobody@example.org"):
        with pytest.raises(LoginRefused):
            await sign_on(store, f"a.token for {email}.x", Person("auth0|x", email), ISSUER)
    assert await store.documents.list_documents(USED) == [], "a token that let nobody in can be tried again"


async def test_who_signs_on_has_no_password(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    logins = Logins(SystemClock())
    for password in ("", "correct horse"):
        with pytest.raises(LoginRefused):
            await users.login(store, ANN.email, password, logins=logins, passwords=CHEAP)
    assert logins.nobodys, "it takes as long as for everybody"
    with pytest.raises(DefinitionError, match=r"password: expected none for ann@example\.org"):
        await users.set_password(store, ANN.email, "correct horse", passwords=CHEAP)
    with pytest.raises(DuplicateUser):
        await users.create(store, "ANN@example.org", None, EDITOR)


@pytest.mark.parametrize("name", ["ann", "@example.org", "ann@", "ann@localhost", "ann@b@example.org"])
async def test_who_signs_on_is_called_by_an_address(name: str, stores: tuple[Store, Store]):
    with pytest.raises(DefinitionError):
        await users.create(stores[0], name, None, EDITOR)


async def test_disabling_ends_the_sessions_of_who_signed_on(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    session = await sign_on(store, "a.one.x", ANN, ISSUER)
    await users.set_disabled(store, ANN.email, disabled=True)
    authenticator = Authenticator(store, SystemClock())
    try:
        assert await authenticator.check(session.text) is None
    finally:
        await authenticator.close()
    await users.set_disabled(store, ANN.email, disabled=False)
    assert (await sign_on(store, "a.two.x", ANN, ISSUER)).name == ANN.email
