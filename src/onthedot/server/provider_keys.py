"""Fetches and caches the public keys of an identity provider, and checks ID tokens with them."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from onthedot.access.sign_on import KeyMissing, Person, Provider, read_id_token, usable_keys
from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.addresses import is_safe
from onthedot.model.errors import LoginRefused, ProviderUnavailable

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from joserfc.jwk import KeySet

logger = logging.getLogger("onthedot.server")

REFRESH: Micros = 3_600 * SECOND
"""Age after which keys are fetched again. Until then, and while they are fetched, the cached keys are used."""
RETRY: Micros = 60 * SECOND
"""The least time between two fetches, whatever keys the tokens name."""
_TIMEOUT = 10.0  # seconds for both requests together
_MOST = 1 << 20  # bytes of an answer


class ProviderKeys:
    """Checks tokens of one provider, on one event loop. The address of the keys comes from the provider's own
    configuration document. No redirect is followed."""

    def __init__(self, provider: Provider, clock: Clock) -> None:
        self.provider = provider
        self._clock = clock
        self._keys: KeySet | None = None
        self._asked_at: Micros | None = None
        self._asking: asyncio.Task[None] | None = None  # a task that survives a cancelled request

    async def read(self, text: str) -> Person:
        """Return the person of a token. Raise `LoginRefused` if the token is not valid, and `ProviderUnavailable` if
        the token cannot be checked. A token with a known key does not wait for the provider."""
        if self._keys is None:
            await self._ask(RETRY)
        else:
            self._begin(REFRESH)
        try:
            return self._read(text)
        except KeyMissing:
            await self._ask(RETRY)
        try:
            return self._read(text)
        except KeyMissing:
            told = f"id_token: expected one that {self.provider.issuer} has signed, got one with a key that it has not"
            raise LoginRefused(told) from None

    def _read(self, text: str) -> Person:
        if self._keys is None:
            raise ProviderUnavailable(
                f"sign-on: expected {self.provider.issuer} to tell its keys, got none; try again in a minute"
            )
        return read_id_token(text, self._keys, self.provider, self._clock.now())

    async def _ask(self, age: Micros) -> None:
        """Fetch the keys if the last fetch is older than this. If a fetch is running, wait for it."""
        self._begin(age)
        if self._asking is not None:
            await asyncio.shield(self._asking)

    def _begin(self, age: Micros) -> None:
        """Start a fetch of the keys if the last fetch is older than this and none is running."""
        now = self._clock.steady()
        if self._asking is None and (self._asked_at is None or now - self._asked_at >= age):
            self._asked_at = now
            self._asking = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            client = await asyncio.to_thread(_make_client)  # certificates are read from files
            async with asyncio.timeout(_TIMEOUT), client:
                self._keys = await self._found(client)
        except (OSError, ValueError, RecursionError) as error:
            told = str(error) or type(error).__name__
            logger.warning("sign-on: the keys of %s could not be read: %s", self.provider.issuer, told)
        finally:
            self._asking = None

    async def _found(self, client: AsyncClient) -> KeySet:
        issuer = self.provider.issuer
        told = await _get(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if told.get("issuer") != issuer:
            raise ValueError(f"expected the issuer {issuer!r}, got {told.get('issuer')!r}")
        place = told.get("jwks_uri")
        if not isinstance(place, str) or not is_safe(place):
            raise ValueError(f"expected an https address of its keys, got {place!r}")
        return usable_keys(await _get(client, place))


def _make_client() -> AsyncClient:
    from httpx2 import AsyncClient

    return AsyncClient(timeout=_TIMEOUT, follow_redirects=False)


async def _get(client: AsyncClient, url: str) -> dict[str, Any]:
    """Get a JSON object. Raise `ValueError` for any other answer, and if the request fails."""
    from httpx2 import HTTPError, InvalidURL

    try:
        body = await _body(client, url)
    except (HTTPError, InvalidURL) as error:
        raise ValueError(f"{url}: {str(error) or type(error).__name__}") from error
    read = json.loads(body)
    if not isinstance(read, dict):
        raise ValueError(f"{url} answered with {type(read).__name__}, not with an object")
    return read


async def _body(client: AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        if answer.status_code != 200:
            raise ValueError(f"{url} answered {answer.status_code}")
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MOST:
                raise ValueError(f"{url} answered with more than {_MOST} bytes")
    return body
