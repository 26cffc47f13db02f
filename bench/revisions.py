"""Gives modules of older revisions their present names, so that the workload of `bench.compare` runs on them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

# Present name: old name.
RENAMED = {
    "onthedot.model": "onthedot",
    "onthedot.model.job": "onthedot.job",
    "onthedot.model.run": "onthedot.run",
    "onthedot.stores.connect": "onthedot.stores.opening",
}


def _is_missing(name: str) -> bool:
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:  # its package is missing
        return True


for missing in [name for name in RENAMED if _is_missing(name)]:
    sys.modules[missing] = import_module(RENAMED[missing])
