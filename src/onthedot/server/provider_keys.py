"""The keys of an identity provider: found where it says, kept in mind, and asked for again when it has new ones."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from onthedot.access.id_tokens import KeyMissing, Person, Provider, read_id_token, usable_keys
from onthedot.addresses import is_issuer
from onthedot.clock import SECOND, Clock, Micros
from onthedot.errors import LoginRefused, ProviderUnavailable

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

logger = logging.getLogger("onthedot.server")

REFRESH: Micros = 3_600 * SECOND
"""After this time keys are asked for again; until there is an answer, those that are known are good."""
AGAIN: Micros = 60 * SECOND
"""How often they are asked for at the most, whatever tokens name."""
_PATIENCE = 5.0  # seconds for each of the two questions
_MOST = 1 << 20  # bytes of an answer


class ProviderKeys:
    """Reads tokens of one provider, on one event loop. Nobody else is asked for anything, and no answer is followed
    elsewhere: where its keys are is what the provider says at its own address."""

    def __init__(self, provider: Provider, clock: Clock) -> None:
        self.provider = provider
        self._clock = clock
        self._keys: KeySet | None = None
        self._asked_at: Micros | None = None
        self._asking = asyncio.Lock()

    async def read(self, text: str) -> Person:
        """Who a token speaks of. `LoginRefused` if it is not good; `ProviderUnavailable` if that cannot be known."""
        keys = await self._known(REFRESH)
        try:
            return read_id_token(text, keys, self.provider, self._clock.now())
        except KeyMissing:
            keys = await self._known(AGAIN)
        try:
            return read_id_token(text, keys, self.provider, self._clock.now())
        except KeyMissing:
            told = f"id_token: expected one that {self.provider.issuer} has signed, got one with a key that it has not"
            raise LoginRefused(told) from None

    async def _known(self, age: Micros) -> KeySet:
        """The keys; asked for again if that was longer ago than this."""
        async with self._asking:
            now = self._clock.steady()
            if self._asked_at is None or now - self._asked_at >= (AGAIN if self._keys is None else age):
                self._asked_at = now
                await self._ask()
        if self._keys is None:
            raise ProviderUnavailable(
                f"sign-on: expected {self.provider.issuer} to tell its keys, got none; try again in a minute"
            )
        return self._keys

    async def _ask(self) -> None:
        from httpx2 import AsyncClient, HTTPError, InvalidURL

        issuer = self.provider.issuer
        try:
            async with AsyncClient(timeout=_PATIENCE, follow_redirects=False) as client:
                told = await _get(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if told.get("issuer") != issuer:
                    raise ValueError(f"expected the issuer {issuer!r}, got {told.get('issuer')!r}")
                place = told.get("jwks_uri")
                if not isinstance(place, str) or not is_issuer(place):
                    raise ValueError(f"expected an https address of its keys, got {place!r}")
                self._keys = usable_keys(await _get(client, place))
        except (HTTPError, InvalidURL, ValueError, RecursionError) as error:
            logger.warning("sign-on: the keys of %s could not be read: %s", issuer, str(error) or type(error).__name__)


async def _get(client: Any, url: str) -> dict[str, Any]:
    """A JSON object from there; `ValueError` for anything else."""
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        if answer.status_code != 200:
            raise ValueError(f"{url} answered {answer.status_code}")
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MOST:
                raise ValueError(f"{url} answered with more than {_MOST} bytes")
    read = json.loads(body)
    if not isinstance(read, dict):
        raise ValueError(f"{url} answered with {type(read).__name__}, not with an object")
    return read
