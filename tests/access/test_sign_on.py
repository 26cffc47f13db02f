"""Sign-on with an identity provider: only valid ID tokens are accepted, and each token signs in one user once."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey, RSAKey

from onthedot.access import users
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.access.sign_on import (
    LONGEST_TOKEN,
    USED,
    KeyMissing,
    Person,
    Provider,
    read_id_token,
    sign_on,
    usable_keys,
)
from onthedot.access.users import Logins
from onthedot.clock import SystemClock
from onthedot.model.addresses import is_issuer
from onthedot.model.errors import DefinitionError, DuplicateUser, LoginRefused
from onthedot.stores.protocol import Store
from tests.access.clocks import START
from tests.access.test_users import CHEAP
from tests.servers.issuer import CLIENT, RSA, claims, signed

ISSUER = "https://example.eu.auth0.com/"
PROVIDER = Provider(ISSUER, CLIENT)
KEYS = usable_keys({"keys": [RSA.as_dict(private=False)]})
NOW = START // 1_000_000


def ann_claims(**more: Any) -> dict[str, Any]:
    return claims(ISSUER, START, **more)


def read(text: str, now: int = START) -> Person:
    return read_id_token(text, KEYS, PROVIDER, now)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
def test_a_valid_token_names_its_user(algorithm: str):
    assert read(signed(ann_claims(email="Ann@Example.org"), algorithm=algorithm)) == Person(
        "auth0|ann", "ann@example.org"
    )


def test_a_token_signed_with_an_elliptic_curve_is_valid():
    key = ECKey.generate_key("P-256", {"kid": "ec"})
    keys = usable_keys({"keys": [key.as_dict(private=False)]})
    assert read_id_token(signed(ann_claims(), key, "ES256"), keys, PROVIDER, START).subject == "auth0|ann"


@pytest.mark.parametrize(
    "more",
    [
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "another"], "azp": CLIENT},
        {"nbf": NOW},
        {"typ": "ID"},
        {"exp": NOW - 59},
        {"iat": NOW + 59},
        {"iat": NOW - 3_600},
        {"iat": NOW + 0.5},
    ],
)
def test_optional_claims_are_accepted(more: dict[str, Any]):
    assert read(signed(ann_claims(**more))).email == "ann@example.org"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"iss": "https://example.eu.auth0.com"}, "another issuer's"),
    "no issuer": ({"iss": None}, "another issuer's"),
    "another audience": ({"aud": "another"}, "for another client"),
    "no audience": ({"aud": None}, "for another client"),
    "an audience of parts": ({"aud": CLIENT + " more"}, "for another client"),
    "an odd audience": ({"aud": {CLIENT: 1}}, "for another client"),
    "several audiences": ({"aud": [CLIENT, "another"]}, "for several clients"),
    "made for another": ({"azp": "another"}, "for another client"),
    "over": ({"exp": NOW - 60}, "too old"),
    "of yesterday": ({"iat": NOW - 3_601}, "too old"),
    "of tomorrow": ({"iat": NOW + 61}, "not good yet"),
    "not yet": ({"nbf": NOW + 61}, "not good yet"),
    "for ever": ({"exp": None}, "until when"),
    "since ever": ({"iat": None}, "until when"),
    "until true": ({"exp": True}, "until when"),
    "until text": ({"exp": str(NOW + 60)}, "until when"),
    "until infinity": ({"exp": 1e300}, "until when"),
    "from nowhere": ({"nbf": "soon"}, "until when"),
    "nobody": ({"sub": None}, "names nobody"),
    "nobody at all": ({"sub": ""}, "names nobody"),
    "a number": ({"sub": 7}, "names nobody"),
    "too long a name": ({"sub": "x" * 256}, "names nobody"),
    "no address": ({"email": None}, "no e-mail address that was verified"),
    "an address that was not verified": ({"email_verified": False}, "no e-mail address that was verified"),
    "one that is said to be": ({"email_verified": "true"}, "no e-mail address that was verified"),
    "an address that is none": ({"email": "../admin"}, "no user can be called by"),
    "two lines": ({"email": "ann@example.org\n"}, "no user can be called by"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_signed_token_with_wrong_claims_is_refused(what: str):
    more, told = WRONG[what]
    with pytest.raises(LoginRefused, match=f"id_token: expected one that {ISSUER} has made for {CLIENT}.*{told}"):
        read(signed(ann_claims(**more)))


def unsigned(header: dict[str, Any], body: dict[str, Any], signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, body))
    return ".".join([*parts, signature])


STRANGER = RSAKey.generate_key(2048, {"kid": "one"})


def with_public_key_as_secret() -> str:
    """A token signed with the public key as an HMAC secret. The library refuses to make one."""
    body = unsigned({"alg": "HS256", "kid": "one"}, ann_claims()).removesuffix(".")
    made = hmac.digest(RSA.as_pem(private=False), body.encode(), "sha256")
    return f"{body}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


FORGED: dict[str, str] = {
    "without a signature": unsigned({"alg": "none", "kid": "one"}, ann_claims()),
    "NONE in capitals": unsigned({"alg": "NONE", "kid": "one"}, ann_claims()),
    "an empty one": unsigned({"alg": "RS256", "kid": "one"}, ann_claims()),
    "signed with the public key": with_public_key_as_secret(),
    "by a stranger who says it was the provider": signed(ann_claims(), STRANGER),
    "with its own key in it": signed(ann_claims(), STRANGER, jwk=STRANGER.as_dict(private=False)),
    "with an address of its key": signed(ann_claims(), STRANGER, jku="https://evil.example/keys"),
    "another's body": ".".join([*signed(ann_claims()).split(".")[:1], *signed(ann_claims(sub="x")).split(".")[1:2],
                                *signed(ann_claims()).split(".")[2:]]),
    "an access token": signed(ann_claims(), typ="at+jwt"),
    "an access token of Keycloak's kind": signed(ann_claims(typ="Bearer", scope="openid email")),
    "in another way": signed(ann_claims(), algorithm="RS384"),
    "nothing": "",
    "two parts": "a.b",
    "five parts": "a.b.c.d.e",
    "not base64": "ä.b.c",
    "no JSON": "eA.eA.eA",
    "deep": base64.urlsafe_b64encode(b"[" * 5_000).decode().rstrip("=") + ".eA.eA",
    "long": "x" * (LONGEST_TOKEN + 1),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_token_is_refused(what: str):
    with pytest.raises(LoginRefused, match="id_token: expected one that"):
        read(FORGED[what])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_token_changed_at_any_place_is_refused(data: st.DataObject):
    good = signed(ann_claims())
    at = data.draw(st.integers(0, len(good) - 2))  # bits at the very end of base64 may mean nothing
    other = data.draw(st.sampled_from("ABab01-_.").filter(lambda one: one != good[at]))
    with pytest.raises((LoginRefused, KeyMissing)):
        read(good[:at] + other + good[at + 1 :])


def test_an_unknown_key_is_reported_as_missing():
    with pytest.raises(KeyMissing):
        read(signed(ann_claims(), RSAKey.generate_key(2048, {"kid": "two"})))


def test_only_strong_public_signature_keys_are_used():
    weak = RSAKey.generate_key(2048, {"kid": "weak"}).as_dict(private=False)
    unfit = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
        {**weak, "n": weak["n"][:171]},
        {**weak, "use": "enc"},
        {**weak, "alg": "RS1"},
        {**weak, "n": 7},
        {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        "text",
    ]
    assert [key.kid for key in usable_keys({"keys": [*unfit, RSA.as_dict(private=False)]}).keys] == ["one"]
    nothing: list[Any] = [{"keys": unfit}, {"keys": []}, {"keys": None}, {"keys": 7}, {}, [], None]
    for none in nothing:
        with pytest.raises(ValueError, match="expected at least one key"):
            usable_keys(none)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://example.eu.auth0.com/", True),
        ("https://login.example.org/realms/main", True),
        ("http://localhost:8080", True),
        ("http://[::1]:8080", True),
        ("http://login.example.org", False),
        ("https://user:password@example.org/", False),
        ("https://example.org/?a=b", False),
        ("https://example.org/#a", False),
        ("https://example.org:port/", False),
        ("https://exa mple.org/", False),
        ("https://", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_an_issuer_must_be_an_https_url_or_local(text: str, good: bool):
    assert is_issuer(text) == good


ANN_ISSUER = "https://example.auth0.com/"
ANN = Person("auth0|ann", "ann@example.org")
EDITOR = Grant(role=Role.EDITOR)


async def test_a_person_signs_in_as_the_user_with_the_same_address(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, "Ann@Example.org", None, EDITOR)
    session = await sign_on(one, "one.token.x", ANN, ANN_ISSUER)
    authenticator = Authenticator(other, SystemClock())
    try:
        who = await authenticator.check(session.text)
        assert who is not None
        assert (who.name, who.role) == ("ann@example.org", Role.EDITOR)
    finally:
        await authenticator.close()
    assert (await users.get_user(other, "ann@example.org")).subject == "auth0|ann"


async def test_a_token_works_once_on_all_servers_together(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    tried = [sign_on(store, "the.same.token", ANN, ANN_ISSUER) for store in (one, other, one, other)]
    came = await asyncio.gather(*tried, return_exceptions=True)
    assert [type(one) for one in came if isinstance(one, Exception)] == [LoginRefused] * 3
    assert "not used yet" in str(next(one for one in came if isinstance(one, LoginRefused)))


async def test_a_token_with_another_valid_signature_counts_as_used(stores: tuple[Store, Store]):
    """With elliptic curves, (r, s) and (r, n - s) are both valid, and each can be computed from the other."""
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    await sign_on(store, "header.claims.one", ANN, ANN_ISSUER)
    with pytest.raises(LoginRefused, match="not used yet"):
        await sign_on(store, "header.claims.other", ANN, ANN_ISSUER)


async def test_a_new_holder_of_an_address_cannot_sign_in_as_its_user(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    await sign_on(one, "a.first.x", ANN, ANN_ISSUER)
    for stranger, issuer in ((Person("auth0|eve", ANN.email), ANN_ISSUER), (ANN, "https://other.example/")):
        with pytest.raises(LoginRefused, match="found none that may sign in"):
            await sign_on(other, f"of {stranger}.{issuer}.x", stranger, issuer)
    assert (await sign_on(other, "a.second.x", ANN, ANN_ISSUER)).name == ANN.email


async def test_of_several_people_with_one_new_address_one_gets_the_user(stores: tuple[Store, Store]):
    one, other = stores
    await users.create(one, ANN.email, None, EDITOR)
    people = [Person(f"auth0|{number}", ANN.email) for number in range(4)]
    tried = [sign_on((one, other)[n % 2], f"a.token {n}.x", person, ANN_ISSUER) for n, person in enumerate(people)]
    came = await asyncio.gather(*tried, return_exceptions=True)
    [winner] = [n for n, found in enumerate(came) if not isinstance(found, BaseException)]
    assert all(isinstance(found, LoginRefused) for n, found in enumerate(came) if n != winner)
    assert (await users.get_user(other, ANN.email)).subject == people[winner].subject


async def test_users_with_a_password_disabled_and_unknown_users_cannot_sign_on(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, "with@password.org", "correct horse", EDITOR, passwords=CHEAP)
    await users.create(store, "bob@example.org", None, EDITOR)
    await users.set_disabled(store, "bob@example.org", disabled=True)
    for email in ("with@password.org", "bob@example.org", "nobody@example.org"):
        with pytest.raises(LoginRefused):
            await sign_on(store, f"a.token for {email}.x", Person("auth0|x", email), ANN_ISSUER)
    assert await store.documents.list_documents(USED) == [], "a refused token is not marked as used"


async def test_a_user_who_signs_on_has_no_password(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    logins = Logins(SystemClock())
    for password in ("", "correct horse"):
        with pytest.raises(LoginRefused):
            await users.login(store, ANN.email, password, logins=logins, passwords=CHEAP)
    assert logins.dummy_hash, "the check must take as long as for other users"
    with pytest.raises(DefinitionError, match=r"password: expected none for ann@example\.org"):
        await users.set_password(store, ANN.email, "correct horse", passwords=CHEAP)
    with pytest.raises(DuplicateUser):
        await users.create(store, "ANN@example.org", None, EDITOR)


@pytest.mark.parametrize("name", ["ann", "@example.org", "ann@", "ann@localhost", "ann@b@example.org"])
async def test_a_user_who_signs_on_needs_an_address_as_name(name: str, stores: tuple[Store, Store]):
    with pytest.raises(DefinitionError):
        await users.create(stores[0], name, None, EDITOR)


async def test_disabling_a_user_ends_its_sessions(stores: tuple[Store, Store]):
    store, _ = stores
    await users.create(store, ANN.email, None, EDITOR)
    session = await sign_on(store, "a.one.x", ANN, ANN_ISSUER)
    await users.set_disabled(store, ANN.email, disabled=True)
    authenticator = Authenticator(store, SystemClock())
    try:
        assert await authenticator.check(session.text) is None
    finally:
        await authenticator.close()
    await users.set_disabled(store, ANN.email, disabled=False)
    assert (await sign_on(store, "a.two.x", ANN, ANN_ISSUER)).name == ANN.email
