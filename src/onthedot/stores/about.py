"""The part of the store protocol about the store itself."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class About(NamedTuple):
    """What a store is, and what it promises. For people: nothing is decided by it."""

    product: str  # such as PostgreSQL
    version: str
    promise: str  # what is left of what was acknowledged, when the machine that keeps it dies
    connections: int = 0  # that one event loop of a node may have open at the most; 0: none are counted


class AboutSlice(Protocol):
    """What the store says of itself."""

    async def about(self) -> About:
        """Which product and version it is, as it is reached now, and what it keeps."""
        ...
