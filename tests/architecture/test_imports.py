"""`import onthedot` is cheap: nobody pays for a store, a web framework or a parser they do not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

NOT_LOADED = {
    "asyncpg": "only when a postgresql: store is opened",
    "click": "by onthedot.cli",
    "fastapi": "by the server",
    "onthedot.cli": "by the command",
    "onthedot.stores.sqlite": "by onthedot.stores.connect, for a sqlite: URL",
    "onthedot.testing": "by tests",
    "onthedot_verify": "by tests of stores",
    "pydantic": "where definitions are read",
    "redis": "only when a redis: store is opened",
    "rich": "where something is drawn on a terminal",
    "ruamel": "where a YAML file is read",
    "sqlite3": "by onthedot.stores.sqlite",
    "yaml": "never; YAML files are read with ruamel.yaml",
}

# What the interpreter loaded by itself, at its own start, is not counted.
PROBE = """
import json, sys
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(statement: str) -> list[str]:
    """The modules a fresh interpreter loads for one statement."""
    probe = subprocess.run([sys.executable, "-I", "-c", PROBE, statement], capture_output=True, text=True, timeout=30)
    assert probe.returncode == 0, probe.stderr
    modules: list[str] = json.loads(probe.stdout)
    return modules


def offenders(modules: list[str]) -> list[str]:
    return [
        f"{module} (to be loaded {when})"
        for name, when in NOT_LOADED.items()
        for module in modules
        if module == name or module.startswith(f"{name}.")
    ]


def test_importing_the_package_loads_only_what_everyone_needs():
    modules = loaded_by("import onthedot")
    assert "onthedot" in modules
    found = offenders(modules)
    assert not found, "`import onthedot` loads " + ", ".join(found)


def test_an_offender_is_named():
    assert "sqlite3 (to be loaded by onthedot.stores.sqlite)" in offenders(loaded_by("import sqlite3"))
    assert offenders(["onthedot.cli.main", "clicker", "onthedot.testings"]) == [
        "onthedot.cli.main (to be loaded by the command)"
    ]
