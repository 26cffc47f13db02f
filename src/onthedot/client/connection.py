"""Sends requests to a server, and retries those that can be sent again safely."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onthedot.client.errors import error_of
from onthedot.clock import SECOND, SystemClock
from onthedot.ids import Ids, RandomIds
from onthedot.model.addresses import is_loopback
from onthedot.model.errors import DefinitionError, QuotaExceeded, StoreError, StoreUnavailable

if TYPE_CHECKING:
    import httpx2

TRIES = 5
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
PATIENCE = 20 * SECOND
"""No retry begins when this much time has passed since the first try."""
ANSWER = 30.0
"""Seconds that one answer may take."""

_LATER = (429, 502, 503, 504)
_UNTOUCHED = 429  # nothing was done, so any request may be sent again


class ServerConnection:
    """The connections of one event loop to a server. They open on the first request, and stay open."""

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        insecure: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.url = check_url(url)
        self.ids = ids or RandomIds()
        self._key = _check_key(key)
        if key and not insecure:
            check_way(self.url)
        self._transport = transport
        self._clock = SystemClock()
        self._client: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"ServerConnection({self.url!r})"  # without its key

    async def close(self) -> None:
        """Close the connections. A second call does nothing. The next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer. A refusal is raised as the library's own error. `repeat`
        allows a retry after the server may have acted (None: only for GET)."""
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        answer = await self.send(
            method,
            path,
            query=query,
            content=content,
            headers=headers,
            repeat=method == "GET" if repeat is None else repeat,
        )
        return self._read(answer)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        seconds: float = ANSWER,
    ) -> httpx2.Response:
        """Send a request, at most five times, with backoff and jitter. A request is retried if it never arrived, or if
        the server answered 429. With `repeat`, it is also retried after other transient errors. Refusals are raised."""
        began = self._clock.steady()
        tries = 0
        while True:
            tries += 1
            try:
                answer = await self._once(method, path, query, content, kind, headers, seconds)
            except _Transient as trouble:
                last = tries >= TRIES or self._clock.steady() - began > PATIENCE
                if last or not (repeat or trouble.untouched):
                    raise trouble.error from trouble.__cause__
                await self.pause(tries, trouble.after)
            else:
                return answer

    async def pause(self, tries: int, after: float | None = None) -> None:
        """Wait before the next try. `tries` is the number of tries so far."""
        await asyncio.sleep(self._delay(tries, after))

    def _delay(self, tries: int, after: float | None) -> float:
        """Return the delay before the next try. It doubles each time, and half of it is random. A longer Retry-After of
        the server replaces it."""
        longest: float = min(FIRST_DELAY * 2.0**tries, LONGEST_DELAY)
        delay = longest * (0.5 + self.ids.fraction() / 2)
        return delay if after is None else min(max(delay, after), LONGEST_DELAY)

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        content: bytes | None,
        kind: str,
        headers: Mapping[str, str] | None,
        seconds: float,
    ) -> httpx2.Response:
        import httpx2

        sent = {**self._headers(), **(headers or {}), **({} if content is None else {"Content-Type": kind})}
        try:
            answer = await self._open().request(
                method, path, params=_said(query), content=content, headers=sent, timeout=_timeout(seconds)
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise _Transient(self._unreached(error), untouched=True) from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _Transient(self._unreached(error), untouched=False) from error
        if answer.status_code < 300:
            return answer
        refusal = self._refusal(answer)
        if answer.status_code in _LATER and not isinstance(
            refusal, QuotaExceeded
        ):  # a retry within seconds does not help
            trouble = _Transient(refusal, untouched=answer.status_code == _UNTOUCHED)
            trouble.after = _seconds(answer.headers.get("retry-after"))
            raise trouble
        if _is_line_by_line(answer):  # the caller reads the result of each line
            return answer
        raise refusal

    @asynccontextmanager
    async def stream(self, path: str, *, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """Open an answer that is read as it arrives, such as server-sent events."""
        import httpx2

        try:
            async with self._open().stream(
                "GET", path, headers={**self._headers(), **headers}, timeout=_timeout(60.0)
            ) as answer:
                if answer.status_code >= 300:
                    await answer.aread()
                    raise self._refusal(answer)
                yield answer
        except httpx2.TransportError as error:
            raise self._unreached(error) from error

    # ── the parts ────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> httpx2.AsyncClient:
        import httpx2  # loaded when it is needed

        if self._client is None:
            self._client = httpx2.AsyncClient(
                base_url=self.url,
                transport=self._transport,
                follow_redirects=False,
                trust_env=not _stays_here(self.url),  # a proxy is another machine, and could read the key
            )
        return self._client

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _read(self, answer: httpx2.Response) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise StoreError(
                f"{self.url}: expected the answer of an onthedot server, got something else; check the address"
            ) from None

    def _refusal(self, answer: httpx2.Response) -> Exception:
        try:
            told = json.loads(answer.text.splitlines()[-1])["problem"] if _is_line_by_line(answer) else answer.json()
        except (ValueError, LookupError, TypeError):
            told = None
        return error_of(answer.status_code, told, server=self.url)

    def _unreached(self, error: Exception) -> StoreUnavailable:
        what = str(error) or type(error).__name__
        return StoreUnavailable(f"{self.url}: expected an answer, got none ({what}); is the server running?")


class _Transient(Exception):
    """A failure that a retry may avoid."""

    def __init__(self, error: Exception, *, untouched: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.untouched = untouched  # the server has done nothing
        self.after: float | None = None


def check_url(url: str) -> str:
    """Return a server's address without a slash at its end. Raises `DefinitionError` if it is not an address.

    >>> check_url("https://jobs.example.org/")
    'https://jobs.example.org'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise DefinitionError(f"url: expected one like http://127.0.0.1:7411, but {error}") from None
    del port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DefinitionError(f"url: expected one like http://127.0.0.1:7411, got {url[:80]!r}")
    if "@" in parts.netloc:
        raise DefinitionError("url: expected no name and password in it; give the key as key=…, or in ONTHEDOT_KEY")
    if parts.query or parts.fragment:
        raise DefinitionError("url: expected an address without '?' and '#', got one with them")
    return url.rstrip("/")


def _check_key(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise DefinitionError(
            "key: expected one like otd_….…, as 'onthedot keys create NAME' has shown it, got other text"
        )
    return key


def check_way(url: str) -> None:
    """Refuse to send a key over plain HTTP to another machine."""
    if urlsplit(url).scheme == "http" and not _stays_here(url):
        raise DefinitionError(
            f"url: expected https:// for a key that goes to another machine, got {url[:80]!r}, where others on the "
            "network can read it; put TLS before the server, or allow it with insecure=True (--insecure, or "
            "ONTHEDOT_INSECURE=1)"
        )


def _stays_here(url: str) -> bool:
    """True if this is plain HTTP to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def _said(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _is_line_by_line(answer: httpx2.Response) -> bool:
    return answer.headers.get("content-type", "").startswith("application/x-ndjson")


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _timeout(seconds: float) -> Any:
    import httpx2

    return httpx2.Timeout(seconds, connect=5.0)
