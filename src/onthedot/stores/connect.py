"""Opens a store by its URL. Only this module imports drivers, each when a URL needs it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from onthedot.clock import Clock
from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.stores.addresses import refuse_url, shown_url
from onthedot.stores.protocol import Store

SCHEMES = ("memory", "sqlite", "postgresql", "postgres", "redis", "rediss")
_WITHOUT_TRANSACTIONS = ("sqlite", "redis", "rediss")


def has_transactions(store: str | Store) -> bool:
    """Return whether the store supports jobs under exactly_once, without opening the store. An unknown URL is not
    judged."""
    if isinstance(store, str):
        return store.partition(":")[0] not in _WITHOUT_TRANSACTIONS
    return store.transactions is not None


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL: `sqlite:///relative.db`, `sqlite:////absolute.db`. None for other stores."""
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        return None
    if not rest.startswith("///") or len(rest) == len("///"):
        expected = "'sqlite:///file.db' (or 'sqlite:////absolute/file.db')"
        refuse_url(url, expected, todo="write three slashes and the file's name")
    return Path(rest.removeprefix("///"))


async def open_store(url: str, *, clock: Clock | None = None, read_only: bool = False) -> Store:
    """Open the store that the URL names: `memory:`, `sqlite:///file.db`, `postgresql://…` or `redis://…`.

    `read_only`: nothing is created or migrated."""
    scheme, colon, rest = url.partition(":")
    if scheme not in SCHEMES or not colon:
        raise DefinitionError(
            "store URL: expected 'memory:', 'sqlite:///file.db', 'postgresql://host/database' or 'redis://host/0', "
            f"got {shown_url(url)!r}{did_you_mean(scheme, SCHEMES)}"
        )
    if scheme in ("postgresql", "postgres"):
        _check_installed("asyncpg", "PostgreSQL", "postgres")
        from onthedot.stores.postgres import PostgresStore

        return await PostgresStore.open(url, read_only=read_only)
    if scheme in ("redis", "rediss"):
        _check_installed("redis", "Redis", "redis")
        from onthedot.stores.redis import RedisStore

        return await RedisStore.open(url, read_only=read_only)
    path = sqlite_path(url)
    if path is None:
        if rest:
            refuse_url(url, "'memory:' and nothing after it", todo="leave out what follows")
        from onthedot.stores.memory import MemoryStore

        return MemoryStore(clock)
    from onthedot.stores.sqlite import SqliteStore

    return await SqliteStore.open(path, clock=clock, read_only=read_only)


def _check_installed(library: str, product: str, extra: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise DefinitionError(
            f"store URL: expected the library for {product} to be installed, which it is not; "
            f"run: pip install 'onthedot[{extra}]'"
        ) from error
