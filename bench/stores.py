"""Provides new stores for a bench: in memory, in files of its folder, or on a server that it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import server, valkey
from bench.nodes import Where
from bench.rounds import Plan

STORES = ("memory", "sqlite", "postgres", "redis")


@contextmanager
def places(plan: Plan, store: str) -> Iterator[Callable[[str], Where]]:
    """Yield a function that returns the place of a new store of this kind for each name."""
    if store == "memory":
        yield lambda name: None  # noqa: ARG005 - a store in memory has no name
    elif store == "sqlite":
        yield lambda name: plan.folder / f"{name}.db"
    elif store == "redis":
        with valkey.running() as redis:
            yield lambda name: redis.create()  # noqa: ARG005 - a database has a number
    else:
        with server.running() as postgres:
            yield lambda name: postgres.create()  # noqa: ARG005 - a database has one of its own
