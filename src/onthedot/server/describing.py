"""The document that describes the API, for those who have no server at hand."""

from __future__ import annotations

import asyncio

from onthedot.operations.open_verbs import opened
from onthedot.server.app import make_app, openapi_of


def describe_api() -> dict[str, object]:
    """Every route of this version.

    >>> describe_api()["openapi"][:3]
    '3.1'
    """
    return asyncio.run(_describe())


async def _describe() -> dict[str, object]:
    async with opened("memory:") as there:  # an application is made for a store; nothing is asked of this one
        return openapi_of(make_app(there, None))
