"""A server without a socket: the real application on a real store, called in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastapi import FastAPI

from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Principal, Role
from onthedot.model.host_port import Listen
from onthedot.operations.open_verbs import OpenStore, opened
from onthedot.server.app import make_app
from onthedot.settings import Settings


class MadeUpKeys:
    """Keys that tests make up: each text stands for one principal."""

    def __init__(self) -> None:
        self.known: dict[str, Principal] = {}

    def add(self, role: Role, **more: Any) -> dict[str, str]:
        """Add a key with this role, and return the headers of its requests."""
        text = f"key{len(self.known)}"
        self.known[text] = Principal(kind="key", id=text, name=f"{role} {text}", role=role, **more)
        return {"Authorization": f"Bearer {text}"}

    async def check(self, text: str) -> Principal | None:
        return self.known.get(text)

    async def check_page(self, cookie: str, csrf: str | None) -> Principal | None:
        del cookie, csrf
        return None  # only `real` keys have cookies of pages

    async def close(self) -> None:
        self.known.clear()


class Served:
    """A server in this process: a client of it, the keys that it knows, and the store behind it."""

    def __init__(self, client: httpx2.AsyncClient, keys: MadeUpKeys, there: OpenStore, app: FastAPI) -> None:
        self.client = client
        self.app = app
        self.keys = keys
        self.there = there


@asynccontextmanager
async def real_keys(there: OpenStore) -> AsyncGenerator[Authenticator]:
    """An authenticator for keys in the store."""
    authenticator = Authenticator(there.store, there.clock)
    try:
        yield authenticator
    finally:
        await authenticator.close()


@asynccontextmanager
async def served(
    url: str = "memory:", *, real: bool = False, settings: Settings | None = None, **options: Any
) -> AsyncGenerator[Served]:
    """A server on this store. It knows the keys that the test makes up, or, with `real`, those in the store. Its client
    sends no key of its own."""
    keys = MadeUpKeys()
    async with opened(url, settings) as there, real_keys(there) as authenticator:
        options.setdefault("listen", Listen("server"))  # the name that its client asks for
        app = make_app(there, authenticator if real else keys, **options)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://server") as client:
            yield Served(client, keys, there, app)
