"""Ask what every front door can be asked (`verbs.py`), of the store or the server that the command line names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from onthedot.cli.errors import BadInput
from onthedot.cli.options import INSECURE, KEY_FILE
from onthedot.stores.addresses import is_server
from onthedot.verbs import Verbs

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.events import Event

T = TypeVar("T")

MOST_KEY = 4096


def ask(
    url: str,
    work: Callable[[Verbs], Awaitable[T]],
    *,
    namespace: str = "default",
    makes: bool = False,
    tell: Callable[[Event], None] | None = None,
) -> T:
    """What comes of it. A store must be there, with the newest schema: who runs a node decides when that changes; or
    with `makes`, it is made if there is none. `tell` hears how far it is; a server does not say so."""
    if is_server(url):
        return ask_server(url, work, namespace=namespace)

    async def main() -> T:
        from onthedot.open_verbs import opened

        if not makes:
            await check_readable(url)
        async with opened(url) as there:
            verbs = there.verbs(namespace, door="command line")
            if tell is not None:
                verbs.subscribe(tell)
            return await work(verbs)

    return asyncio.run(main())


async def check_readable(url: str) -> None:
    """Refuse a store that is not there, or is not to be used by this version."""
    from onthedot.cli.reading import check_exists
    from onthedot.stores.opening import open_store

    check_exists(url)
    await (await open_store(url, read_only=True)).close()


def look(url: str, work: Callable[[Verbs], Awaitable[T]], *, namespace: str = "default") -> T:
    """The same for what only reads: a store is opened for nothing else."""
    if is_server(url):
        return ask_server(url, work, namespace=namespace)
    from onthedot.cli.reading import read_store
    from onthedot.clock import SystemClock
    from onthedot.open_verbs import OpenStore
    from onthedot.settings import Settings
    from onthedot.stores.base import Store

    async def read(store: Store) -> T:
        return await work(OpenStore(store, SystemClock(), Settings(), None).verbs(namespace))

    return read_store(url, read)


def ask_server(url: str, work: Callable[[Client], Awaitable[T]], *, namespace: str = "default") -> T:
    """The same of a server; with what it has beside the verbs."""
    from onthedot.client.client import Client

    async def main() -> T:
        async with Client(url, key=read_key(), namespace=namespace, insecure=_insecure()) as client:
            return await work(client)

    return asyncio.run(main())


def _insecure() -> bool:
    """Whether the key may go to another machine in plain text."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(INSECURE))


def read_key() -> str:
    """The key that was given: in a file, or in the environment."""
    context = click.get_current_context(silent=True)
    path = None if context is None else context.meta.get(KEY_FILE)
    if path is None:
        return os.environ.get("ONTHEDOT_KEY", "").strip()
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST_KEY + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--key-file: expected a file with a key, got {path!r}: {error}") from error
    if not text or len(text) > MOST_KEY or "\n" in text:
        raise BadInput(f"--key-file: expected one key on one line, got something else in {path!r}")
    return text
