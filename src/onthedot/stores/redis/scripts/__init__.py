"""Loads the Lua scripts: one file per operation, each atomic on the server.

The head of each file describes the request and the answer, and names the files of `lib/` that it uses. The loader puts
those before it, because a script on the server cannot load another. `lib/base.lua` comes first in every script.
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
"""The order of the files in `lib/`. Each may use those before it."""


class Script(NamedTuple):
    """The text of a script, and the hash by which the server knows it."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of this name, with the files that it uses."""
    body = _read(f"{name}.lua")
    [used] = [line.removeprefix("-- Uses:").split() for line in body.splitlines() if line.startswith("-- Uses:")]
    parts = [_read(f"lib/{part}.lua") for part in ("base", *(part for part in _ORDER if part in used))]
    text = "\n".join([*parts, "local function main()", body, "end", "return answer(main())", ""])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def names() -> list[str]:
    """The names of all scripts."""
    found = [entry.name for entry in files(__package__).iterdir()]
    return sorted(name.removesuffix(".lua") for name in found if name.endswith(".lua"))


def _read(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")
