"""What a server keeps when it dies, and what it must not do: let keys go to make room for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onthedot.model.errors import StoreUnusable

OLDEST = (7, 0)
"""Scripts lean on what Redis 7 does. Valkey began after it."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """What the server's settings promise. `lost` is what a crash of its machine may take, in words; empty: nothing."""

    lost: str
    kept: str
    is_weak: bool = False  # more than moments may be lost

    def __str__(self) -> str:
        return f"{self.kept}; a crash of the server's machine may lose {self.lost or 'nothing'}"


def check_server(info: Mapping[str, Any], shown: str) -> None:
    """`StoreUnusable` for a server that is too old, or that would let our keys go when its memory is full."""
    version = str(info.get("redis_version", "0"))
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if number < OLDEST:
        raise StoreUnusable(f"{shown}: expected Redis 7 or Valkey, or a later one, got {version}; use a newer server")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StoreUnusable(
            f"{shown}: expected a server that keeps what it has (maxmemory-policy noeviction), got {policy}, which "
            "would forget jobs when its memory is full; run: CONFIG SET maxmemory-policy noeviction"
        )


def read_persistence(info: Mapping[str, Any], settings: Mapping[str, str]) -> Persistence:
    """
    >>> str(read_persistence({"aof_enabled": "1"}, {"appendfsync": "everysec"}))
    "append-only file, synced every second; a crash of the server's machine may lose the last one or two seconds"
    """
    if str(info.get("aof_enabled", "0")) == "1":
        sync = settings.get("appendfsync", "unknown")
        if sync == "always":
            return Persistence("", "append-only file, synced with every write")
        if sync == "everysec":
            return Persistence("the last one or two seconds", "append-only file, synced every second")
        return Persistence("what the system had not written yet", f"append-only file, appendfsync {sync}")
    if settings.get("save"):
        return Persistence("all since the last snapshot", f"snapshots ({settings['save']})", is_weak=True)
    if "save" not in settings:
        return Persistence("all since the last snapshot, if there are any", "no append-only file", is_weak=True)
    return Persistence("everything", "memory only", is_weak=True)


def read_info(text: str) -> dict[str, str]:
    """The answer of INFO as names and values."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
