"""Which tokens are believed: one in a hundred ways to be wrong is enough to be refused."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey, RSAKey

from onthedot.access.id_tokens import MOST, KeyMissing, Person, Provider, read_id_token, usable_keys
from onthedot.model.addresses import is_issuer
from onthedot.model.errors import LoginRefused
from tests.access.clocks import START
from tests.servers.issuer import CLIENT, RSA, claims, signed

ISSUER = "https://example.eu.auth0.com/"
PROVIDER = Provider(ISSUER, CLIENT)
KEYS = usable_keys({"keys": [RSA.as_dict(private=False)]})
NOW = START // 1_000_000


def said(**more: Any) -> dict[str, Any]:
    return claims(ISSUER, START, **more)


def read(text: str, now: int = START) -> Person:
    return read_id_token(text, KEYS, PROVIDER, now)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
def test_a_good_token_says_who_it_is(algorithm: str):
    assert read(signed(said(email="Ann@Example.org"), algorithm=algorithm)) == Person("auth0|ann", "ann@example.org")


def test_so_does_one_by_elliptic_curve():
    key = ECKey.generate_key("P-256", {"kid": "ec"})
    keys = usable_keys({"keys": [key.as_dict(private=False)]})
    assert read_id_token(signed(said(), key, "ES256"), keys, PROVIDER, START).subject == "auth0|ann"


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
def test_these_are_good_as_well(more: dict[str, Any]):
    assert read(signed(said(**more))).email == "ann@example.org"


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
def test_what_is_signed_and_wrong_is_refused(what: str):
    more, told = WRONG[what]
    with pytest.raises(LoginRefused, match=f"id_token: expected one that {ISSUER} has made for {CLIENT}.*{told}"):
        read(signed(said(**more)))


def unsigned(header: dict[str, Any], body: dict[str, Any], signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, body))
    return ".".join([*parts, signature])


STRANGER = RSAKey.generate_key(2048, {"kid": "one"})


def with_public_key_as_secret() -> str:
    """By hand: the library would not do it."""
    body = unsigned({"alg": "HS256", "kid": "one"}, said()).removesuffix(".")
    made = hmac.digest(RSA.as_pem(private=False), body.encode(), "sha256")
    return f"{body}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


FORGED: dict[str, str] = {
    "without a signature": unsigned({"alg": "none", "kid": "one"}, said()),
    "NONE in capitals": unsigned({"alg": "NONE", "kid": "one"}, said()),
    "an empty one": unsigned({"alg": "RS256", "kid": "one"}, said()),
    "signed with the public key": with_public_key_as_secret(),
    "by a stranger who says it was the provider": signed(said(), STRANGER),
    "with its own key in it": signed(said(), STRANGER, jwk=STRANGER.as_dict(private=False)),
    "with an address of its key": signed(said(), STRANGER, jku="https://evil.example/keys"),
    "another's body": ".".join([*signed(said()).split(".")[:1], *signed(said(sub="x")).split(".")[1:2],
                                *signed(said()).split(".")[2:]]),
    "an access token": signed(said(), typ="at+jwt"),
    "an access token of Keycloak's kind": signed(said(typ="Bearer", scope="openid email")),
    "in another way": signed(said(), algorithm="RS384"),
    "nothing": "",
    "two parts": "a.b",
    "five parts": "a.b.c.d.e",
    "not base64": "ä.b.c",
    "no JSON": "eA.eA.eA",
    "deep": base64.urlsafe_b64encode(b"[" * 5_000).decode().rstrip("=") + ".eA.eA",
    "long": "x" * (MOST + 1),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_what_was_forged_is_refused(what: str):
    with pytest.raises(LoginRefused, match="id_token: expected one that"):
        read(FORGED[what])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_token_that_was_touched_anywhere_is_refused(data: st.DataObject):
    good = signed(said())
    at = data.draw(st.integers(0, len(good) - 2))  # bits at the very end of base64 may mean nothing
    other = data.draw(st.sampled_from("ABab01-_.").filter(lambda one: one != good[at]))
    with pytest.raises((LoginRefused, KeyMissing)):
        read(good[:at] + other + good[at + 1 :])


def test_a_key_that_is_not_known_may_be_a_new_one():
    with pytest.raises(KeyMissing):
        read(signed(said(), RSAKey.generate_key(2048, {"kid": "two"})))


def test_only_public_keys_for_signatures_are_used():
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
def test_an_issuer_is_an_https_url_or_on_this_machine(text: str, good: bool):
    assert is_issuer(text) == good
