"""The store that a node would use: whether it answers, what it is, what it promises, and what time it has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from onthedot.clock import SECOND, Clock, Micros, SystemClock
from onthedot.doctor.findings import Finding
from onthedot.model.errors import DefinitionError, OnTheDotError
from onthedot.settings import Settings
from onthedot.stores.addresses import exposed, hosts_of, is_local, shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store
from onthedot.stores.values import About

PATIENCE = 5
"""Seconds for a store to answer."""

FAR_OFF: Micros = SECOND // 2
"""From here on a node reports that its clock is off."""


async def look_at_store(url: str, settings: Settings, *, wanted: bool) -> list[Finding]:
    """How the store is. It is only read: nothing is made or migrated. `wanted`: somebody has named it."""
    if url.startswith("memory:"):
        return [Finding("store", "ok", "memory; nothing is kept when the process ends", wanted=True)]
    shown = shown_url(url)
    path = sqlite_path(url)
    if path is not None and not (path.exists() and path.stat().st_size):
        costs = "there are no jobs and no runs yet"
        return [
            Finding("store", "missing", f"{shown}: no such file", costs, "'onthedot store migrate' makes it", wanted)
        ]
    try:
        async with asyncio.timeout(PATIENCE):
            store = await open_store(url, read_only=True)
            try:
                about, way = await store.about(), _way(url)
                return [*_told(shown, about, settings), *way, await _clock(store, SystemClock())]
            finally:
                await store.close()
    except TimeoutError:
        found, remedy = f"{shown}: no answer within {PATIENCE} s", "see that the server runs, and can be reached"
    except DefinitionError:
        raise  # the URL itself is wrong: whoever asks is told so
    except OnTheDotError as error:
        found, remedy = str(error), "do what it says"
    return [Finding("store", "broken", found, "nothing can be planned, run or looked at", remedy, wanted=True)]


def _way(url: str) -> list[Finding]:
    """How safe the way to a store on another machine is."""
    trouble = exposed(url)
    if trouble:
        found, _, remedy = trouble.partition("; ")
        return [Finding("connection", "missing", found, "what is stored can be read or changed on the way", remedy)]
    if all(map(is_local, hosts_of(url))):
        return []
    return [Finding("connection", "ok", "encrypted, and the server's certificate is checked")]


def _told(shown: str, about: About, settings: Settings) -> Iterator[Finding]:
    yield Finding("store", "ok", f"{shown}: {about.product} {about.version}, tables up to date", wanted=True)
    yield Finding("kept", "ok", about.promise)
    pools = [f"{settings.seats} seats and {settings.processes} processes execute"] if settings.works else []
    pools += (
        [f"{settings.batch} runs to a write are planned, {settings.lookahead // SECOND} s ahead"]
        if settings.plans
        else []
    )
    pools += (
        [
            f"the API takes {settings.api_rate:g} requests a second of a key, {settings.api_burst} at once, and "
            f"{settings.api_followers} followers"
        ]
        if settings.plans
        else []
    )
    pools += _connections(about, settings) if about.connections else []
    yield Finding("pools", "ok", "; ".join(pools))


def _connections(about: About, settings: Settings) -> list[str]:
    told = [f"{about.connections} connections to the store for each event loop"]
    return [*told, f"{settings.api_connections} for the API's"] if settings.api_connections else told


async def _clock(store: Store, clock: Clock) -> Finding:
    """How far this machine's clock is from the store's, which is the one that counts."""
    if store.clock is not None:
        return Finding("clock", "ok", "this machine's own is the store's")
    before = clock.now()
    told = await store.tell_time()
    after = clock.now()
    offset, unsure = told - (before + after) // 2, (after - before) // 2
    said = (
        f"{abs(offset) / SECOND:.3f} s {'behind' if offset > 0 else 'ahead of'} the store's (± {unsure / SECOND:.3f} s)"
    )
    if abs(offset) - unsure < FAR_OFF:
        return Finding("clock", "ok", said)
    return Finding(
        "clock", "broken", said, "nothing starts early, but logs of this machine are off", "let NTP set the clock"
    )
