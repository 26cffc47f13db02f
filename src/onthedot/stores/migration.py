"""Loads numbered migrations: SQL files in a driver's folder `migrations/`, named `0001_what_it_does.sql`.

Each is applied once, in order, in its own transaction. The driver decides how to apply and record it. A released file
is never changed: a later file corrects its mistakes.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from onthedot.model.errors import StoreUnusable

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class Migration(NamedTuple):
    """One step of a schema."""

    number: int
    name: str
    sql: str


def check_version(where: str, found: int, newest: int, *, current: bool = False) -> None:
    """Raise `StoreUnusable` for tables of a newer onthedot. With `current`, raise it also for tables of an older one,
    and if there are no tables (version 0)."""
    if found > newest:
        raise StoreUnusable(
            f"{where}: expected schema version {newest} or older, got {found}: a newer onthedot wrote it; "
            "upgrade this one"
        )
    if current and not found:
        raise StoreUnusable(
            f"{where}: expected the tables of onthedot, found none; 'onthedot store migrate' makes them; "
            "a node does so when it starts"
        )
    if current and found < newest:
        raise StoreUnusable(
            f"{where}: expected schema version {newest}, got {found}: an older onthedot wrote it; "
            "'onthedot store migrate' brings it up to date; a node does so when it starts"
        )


def load(driver: str) -> list[Migration]:
    """Return a driver's migrations, numbered 1, 2, 3 … without a gap. `driver` is its package."""
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files(driver).joinpath("migrations").iterdir()
        if (match := _NAME.fullmatch(file.name))
    )
    numbers = [migration.number for migration in found]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise ValueError(f"{driver}: expected migrations numbered 1, 2, 3 … without a gap, got {numbers}")
    return found
