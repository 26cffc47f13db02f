"""Opens the store or the server that the command line names, and calls its operations (`operations/verbs.py`).

    call          change something, on a store or a server
    query         read, on a store or a server
    read_store    read what only the store has
    write_store   change what only the store has

No node runs in these processes. Running nodes notice a write. The client and the verbs of a store are imported in the
functions: each takes 60 ms, and a command needs one of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

import onthedot as otd
from onthedot.cli.errors import BadInput
from onthedot.cli.options import INSECURE, KEY_FILE
from onthedot.clock import Micros, SystemClock
from onthedot.model.addresses import is_server
from onthedot.model.errors import KeyRefused
from onthedot.settings import Settings
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.model.events import Event
    from onthedot.operations.job_lookup import FindsQueues
    from onthedot.operations.verbs import Verbs


T = TypeVar("T")


def call(
    url: str,
    work: Callable[[Verbs], Awaitable[T]],
    *,
    namespace: str = "default",
    makes: bool = False,
    tell: Callable[[Event], None] | None = None,
) -> T:
    """Call `work` with the verbs of a store or a server, for commands that change something. The store must
    exist and have the newest schema; with `makes` it is created. `tell` receives events about progress; a server sends
    none."""
    if is_server(url):
        return call_server(url, work, namespace=namespace)

    async def main() -> T:
        from onthedot.operations.open_verbs import opened

        if not makes:
            await check_readable(url)
        async with opened(url) as there:
            verbs = there.verbs(namespace, door="command line")
            if tell is not None:
                verbs.subscribe(tell)
            return await work(verbs)

    return asyncio.run(main())


async def check_readable(url: str) -> None:
    """Refuse a store that does not exist, or that this version cannot use."""
    check_exists(url)
    await (await open_store(url, read_only=True)).close()


def query(url: str, work: Callable[[Verbs], Awaitable[T]], *, namespace: str = "default") -> T:
    """Call `work` with the verbs of a store or a server, for commands that only read."""
    if is_server(url):
        return call_server(url, work, namespace=namespace)
    from onthedot.operations.open_verbs import OpenStore

    async def read(store: Store) -> T:
        return await work(OpenStore(store, SystemClock(), Settings(), None).verbs(namespace))

    return read_store(url, read)


def call_server(url: str, work: Callable[[Client], Awaitable[T]], *, namespace: str = "default") -> T:
    """Call `work` with the client of a server."""
    given = find_key(url)

    async def main() -> T:
        async with otd.Client(url, key=given.key, namespace=namespace, insecure=is_insecure()) as client:
            return await work(client)

    try:
        return asyncio.run(main())
    except KeyRefused as error:
        raise KeyRefused(f"{error}; {given.advice}" if given.advice else str(error)) from error


def queries_of(verbs: Verbs) -> FindsQueues:
    """The queries of the store or the server behind these verbs."""
    from onthedot.operations.open_verbs import OpenVerbs

    if isinstance(verbs, OpenVerbs):
        return verbs.there.store.queries
    if isinstance(verbs, otd.Client):
        from onthedot.client.views import ServerQueries

        return ServerQueries(verbs.server)
    raise TypeError(f"expected verbs of a store or a server, got {verbs!r}")


# ── the store itself, without a server ───────────────────────────────────────────────────────────────────────────────


def read_store(url: str, read: Callable[[Store], Awaitable[T]]) -> T:
    """Call `read` with the store, which must exist. Nothing in it is changed."""
    check_exists(url)
    return asyncio.run(_read(url, read))


async def has_living_node(store: Store, now: Micros) -> bool:
    """Return whether a node of this store is living."""
    return bool(await store.queries.list_nodes(living=True, limit=1, now=now))


def check_exists(url: str) -> None:
    """Refuse a store that does not exist, or that other processes cannot see."""
    if is_server(url):
        raise click.UsageError(
            f"store: expected the store itself, got a server, {shown_url(url)!r}; this cannot be asked over HTTP"
        )
    if url.startswith("memory:"):
        raise click.UsageError(
            "store: expected one that other processes can read, got 'memory:', which lives inside one; "
            "use sqlite:///FILE"
        )
    path = sqlite_path(url)
    if path is not None and not (path.exists() and path.stat().st_size):
        raise click.UsageError(
            f"store: expected a database at '{path}', found none; "
            f"go to the folder that has it, or name it with --db; 'onthedot store migrate --db {path}' makes a new one"
        )


async def _read(url: str, read: Callable[[Store], Awaitable[T]]) -> T:
    store = await open_store(url, read_only=True)
    try:
        return await read(store)
    finally:
        await store.close()


def write_store(url: str, write: Callable[[Store], Awaitable[T]]) -> T:
    """Call `write` with the store, which must exist and have the newest schema. Only nodes and 'onthedot store migrate'
    migrate it."""
    check_exists(url)
    return asyncio.run(_write(url, write))


async def _write(url: str, write: Callable[[Store], Awaitable[T]]) -> T:
    looked_at = await open_store(url, read_only=True)
    await looked_at.close()
    store = await open_store(url)
    try:
        return await write(store)
    finally:
        await store.close()


# ── the key for a server ─────────────────────────────────────────────────────────────────────────────────────────────


MOST_KEY = 4096
"""The longest key that is read, in characters."""


def is_insecure() -> bool:
    """Return whether `--insecure` allows sending the key to another machine in plain text."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(INSECURE))


class GivenKey(NamedTuple):
    """A key, its source, and what to do if the server refuses it. `repr` hides the key."""

    key: str
    source: str
    advice: str = ""

    def __repr__(self) -> str:
        return f"GivenKey(from {self.source})"


def find_key(url: str) -> GivenKey:
    """Return the key for this server: from `--key-file`, else from ONTHEDOT_KEY, else from `onthedot login`."""
    context = click.get_current_context(silent=True)
    path = None if context is None else context.meta.get(KEY_FILE)
    if path is not None:
        return GivenKey(_read_file(path), f"--key-file {path}")
    if key := os.environ.get("ONTHEDOT_KEY", "").strip():
        return GivenKey(key, "ONTHEDOT_KEY")

    from onthedot.cli.logins import address_of, logins_file, read_logins

    address = address_of(url)
    login = read_logins().get(address)
    if login is None:
        return GivenKey("", "nowhere", f"sign in with 'onthedot login {address}', or give a key in ONTHEDOT_KEY")
    ended = f"the {login.kind} of {login.name} has ended" if login.kind == "session" else "the key has ended"
    return GivenKey(login.key, f"onthedot login ({logins_file()})", f"{ended}: run 'onthedot login {address}' again")


def _read_file(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST_KEY + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--key-file: expected a file with a key, got {path!r}: {error}") from error
    if not text or len(text) > MOST_KEY or "\n" in text:
        raise BadInput(f"--key-file: expected one key on one line, got something else in {path!r}")
    return text
