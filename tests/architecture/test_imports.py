"""`import onthedot` is cheap: it loads no store, web framework or parser before they are used."""

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

# Modules that the interpreter loads at its start do not count.
PROBE = """
import json, sys
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(statement: str) -> list[str]:
    """Return the modules that a new interpreter loads for one statement."""
    probe = subprocess.run([sys.executable, "-I", "-c", PROBE, statement], capture_output=True, text=True, timeout=30)
    assert probe.returncode == 0, probe.stderr
    modules: list[str] = json.loads(probe.stdout)
    return modules


def unwanted(modules: list[str]) -> list[str]:
    return [
        f"{module} (to be loaded {when})"
        for name, when in NOT_LOADED.items()
        for module in modules
        if module == name or module.startswith(f"{name}.")
    ]


def test_importing_the_package_loads_no_optional_module():
    modules = loaded_by("import onthedot")
    assert "onthedot" in modules
    found = unwanted(modules)
    assert not found, "`import onthedot` loads " + ", ".join(found)


def test_an_unwanted_module_is_reported():
    assert "sqlite3 (to be loaded by onthedot.stores.sqlite)" in unwanted(loaded_by("import sqlite3"))
    assert unwanted(["onthedot.cli.main", "clicker", "onthedot.testings"]) == [
        "onthedot.cli.main (to be loaded by the command)"
    ]
