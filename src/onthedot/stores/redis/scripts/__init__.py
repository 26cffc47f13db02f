"""Loads the Lua scripts: one file per operation, each atomic on the server.

Every file says in its head what it is asked and what it answers, and which files of `lib/` it uses: those are put
before it, because a script on the server cannot load another. `lib/base.lua` comes first in all of them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_ORDER = (
    "lines",
    "runs",
    "gates",
    "finish",
    "windows",
    "nodes",
    "idle_places",
    "rates",
    "leases",
    "gate_checks",
    "rows",
    "entries",
    "filters",
    "queues",
    "sweeps",
    "retention",
)
"""Of the files in `lib/`: each may use those before it."""


class Script(NamedTuple):
    """A script as the server gets it, and what it is called there."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of this name, with all that it uses."""
    body = _read(f"{name}.lua")
    [used] = [line.removeprefix("-- Uses:").split() for line in body.splitlines() if line.startswith("-- Uses:")]
    parts = [_read(f"lib/{part}.lua") for part in ("base", *(one for one in _ORDER if one in used))]
    text = "\n".join([*parts, "local function main()", body, "end", "return answer(main())", ""])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def names() -> list[str]:
    """Every script that there is."""
    found = [entry.name for entry in files(__package__).iterdir()]
    return sorted(name.removesuffix(".lua") for name in found if name.endswith(".lua"))


def _read(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")
