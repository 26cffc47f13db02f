"""Lets the workload of `bench.compare` run on older revisions: gives modules their present names."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

# The name now, and the name before.
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
