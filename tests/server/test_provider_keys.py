"""The keys of an identity provider: fetched over real sockets, cached, refreshed, and safe when the provider fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
from joserfc.jwk import RSAKey

from onthedot.access.sign_on import Provider
from onthedot.model.errors import LoginRefused, ProviderUnavailable
from onthedot.server.provider_keys import REFRESH, RETRY, ProviderKeys
from tests.access.clocks import ManualClock
from tests.servers.issuer import CLIENT, Issuer, claims, signed

NEW = RSAKey.generate_key(2048, {"kid": "two"})
ABOUT = "/.well-known/openid-configuration"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def keys_of(issuer: Issuer, clock: ManualClock) -> ProviderKeys:
    return ProviderKeys(Provider(issuer.url, CLIENT), clock)


def token(issuer: Issuer, clock: ManualClock, key: RSAKey | None = None) -> str:
    said = claims(issuer.url, clock.now())
    return signed(said) if key is None else signed(said, key)


async def test_concurrent_requests_fetch_the_keys_once(issuer: Issuer, clock: ManualClock):
    keys = keys_of(issuer, clock)
    people = await asyncio.gather(*(keys.read(token(issuer, clock)) for _ in range(5)))
    assert {person.email for person in people} == {"ann@example.org"}
    assert dict(issuer.asked) == {ABOUT: 1, "/keys": 1}


async def test_a_new_key_is_fetched_and_a_removed_one_is_refused(issuer: Issuer, clock: ManualClock):
    keys = keys_of(issuer, clock)
    await keys.read(token(issuer, clock))
    issuer.keys = [NEW.as_dict(private=False)]
    clock.turn(RETRY / 1_000_000)
    assert (await keys.read(token(issuer, clock, NEW))).subject == "auth0|ann"
    with pytest.raises(LoginRefused, match="a key that it has not"):
        await keys.read(token(issuer, clock))


async def test_unknown_keys_cause_one_fetch_a_minute(issuer: Issuer, clock: ManualClock):
    keys = keys_of(issuer, clock)
    await keys.read(token(issuer, clock))
    for _ in range(20):
        with pytest.raises(LoginRefused, match="a key that it has not"):
            await keys.read(token(issuer, clock, NEW))
    assert issuer.asked["/keys"] == 1
    clock.turn(RETRY / 1_000_000)
    for _ in range(20):
        with pytest.raises(LoginRefused, match="a key that it has not"):
            await keys.read(token(issuer, clock, NEW))
    assert issuer.asked["/keys"] == 2


async def test_known_keys_are_accepted_while_the_provider_is_unavailable(issuer: Issuer, clock: ManualClock, caplog):
    keys = keys_of(issuer, clock)
    await keys.read(token(issuer, clock))
    issuer.answers[ABOUT] = (503, b"")
    clock.turn(REFRESH / 1_000_000)
    with caplog.at_level(logging.WARNING, "onthedot.server"):
        assert (await keys.read(token(issuer, clock))).subject == "auth0|ann"
        await wait_for_fetch(keys)
    assert "answered 503" in caplog.text
    issuer.answers.clear()
    clock.turn(REFRESH / 1_000_000)
    await keys.read(token(issuer, clock))
    await wait_for_fetch(keys)
    assert issuer.asked["/keys"] == 2


async def wait_for_fetch(keys: ProviderKeys) -> None:
    """Wait for the end of the fetch that is under way."""
    if keys._asking is not None:
        await keys._asking


async def test_a_known_key_does_not_wait_for_a_slow_provider(issuer: Issuer, clock: ManualClock):
    keys = keys_of(issuer, clock)
    await keys.read(token(issuer, clock))
    issuer.silent.clear()
    clock.turn(REFRESH / 1_000_000)
    assert (await keys.read(token(issuer, clock))).subject == "auth0|ann"
    stranger = asyncio.create_task(keys.read(token(issuer, clock, NEW)))
    await asyncio.sleep(0)
    assert (await keys.read(token(issuer, clock))).subject == "auth0|ann"
    assert not stranger.done()
    issuer.silent.set()
    with pytest.raises(LoginRefused, match="a key that it has not"):
        await stranger


async def test_a_fetch_from_a_silent_provider_times_out(issuer: Issuer, clock: ManualClock, monkeypatch):
    monkeypatch.setattr("onthedot.server.provider_keys._TIMEOUT", 0.2)
    issuer.silent.clear()
    try:
        with pytest.raises(ProviderUnavailable):
            await keys_of(issuer, clock).read(token(issuer, clock))
    finally:
        issuer.silent.set()


async def test_a_cancelled_request_leaves_the_fetch_to_others(issuer: Issuer, clock: ManualClock):
    keys = keys_of(issuer, clock)
    issuer.silent.clear()
    first = asyncio.create_task(keys.read(token(issuer, clock)))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(keys.read(token(issuer, clock)))
    await asyncio.sleep(0)
    issuer.silent.set()
    assert (await second).subject == "auth0|ann"
    assert dict(issuer.asked) == {ABOUT: 1, "/keys": 1}


BROKEN: dict[str, tuple[int, bytes]] = {
    "not found": (404, b""),
    "sent elsewhere": (302, b""),
    "no JSON": (200, b"<html>"),
    "no object": (200, b"[]"),
    "no text": (200, b"\xff\xfe"),
    "deep": (200, b"[" * 100_000),
    "keys that are none": (200, b'{"keys": null}'),
    "too much": (200, b" " * (1 << 20) + b"{}"),
}


@pytest.mark.parametrize("where", [ABOUT, "/keys"])
@pytest.mark.parametrize("what", BROKEN)
async def test_an_unreadable_answer_of_the_provider_refuses_logins(
    what: str, where: str, issuer: Issuer, clock: ManualClock
):
    issuer.answers[where] = BROKEN[what]
    keys = keys_of(issuer, clock)
    for _ in range(3):
        with pytest.raises(ProviderUnavailable, match="try again in a minute"):
            await keys.read(token(issuer, clock))
    assert issuer.asked[where] == 1
    issuer.answers.clear()
    clock.turn(RETRY / 1_000_000)
    assert (await keys.read(token(issuer, clock))).subject == "auth0|ann"


@pytest.mark.parametrize(
    "more",
    [
        {"issuer": "https://other.example/"},
        {"jwks_uri": "http://keys.example.org/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": 7},
    ],
)
async def test_a_provider_with_invalid_metadata_is_refused(more, issuer: Issuer, clock: ManualClock):
    issuer.more = more
    with pytest.raises(ProviderUnavailable):
        await keys_of(issuer, clock).read(token(issuer, clock))
    assert issuer.asked["/keys"] == 0


async def test_the_address_of_the_keys_may_have_a_query(issuer: Issuer, clock: ManualClock):
    issuer.more = {"jwks_uri": f"{issuer.url}/keys?p=policy"}
    issuer.answers["/keys?p=policy"] = issuer.answer("/keys")
    assert (await keys_of(issuer, clock).read(token(issuer, clock))).subject == "auth0|ann"


async def test_unusable_keys_refuse_logins(issuer: Issuer, clock: ManualClock):
    issuer.answers["/keys"] = (200, json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}).encode())
    with pytest.raises(ProviderUnavailable):
        await keys_of(issuer, clock).read(token(issuer, clock))


async def test_an_unreachable_provider_is_reported(clock: ManualClock):
    with Issuer() as issuer:
        text = token(issuer, clock)
    with pytest.raises(ProviderUnavailable, match="expected http://127"):
        await keys_of(issuer, clock).read(text)
