"""Imports between packages go down only. The contracts and their reasons are in pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, VERIFY

RUN = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# One violation of each contract, and in each package one module that is missing in the layers.
VIOLATIONS = {
    "onthedot/__init__.py": "",
    "onthedot/operations.py": "",
    "onthedot/node/__init__.py": "",
    "onthedot/runners.py": "",
    "onthedot/rules.py": "from onthedot import node",
    "onthedot/node/engine.py": "from onthedot.stores import sqlite",
    "onthedot/stores/__init__.py": "",
    "onthedot/stores/connect.py": "def open_store():\n    from onthedot.stores import sqlite\n",
    "onthedot/stores/memory.py": "",
    "onthedot/stores/sql/__init__.py": "",
    "onthedot/stores/sqlite/__init__.py": "",
    "onthedot/stores/postgres/__init__.py": "",
    "onthedot/stores/redis/__init__.py": "",
    "onthedot/scheduler.py": "from onthedot.testing import harness",
    "onthedot/testing/__init__.py": "",
    "onthedot/testing/harness.py": "",
    "onthedot/stray.py": "from onthedot_verify import checker",
    "onthedot_verify/__init__.py": "",
    "onthedot_verify/checker.py": "from onthedot_verify import contract\nfrom onthedot import rules",
    "onthedot_verify/contract.py": "from onthedot.stores import memory",
    "onthedot_verify/simulation.py": "from onthedot.stores import memory\nfrom onthedot.testing import harness",
    "onthedot_verify/unplaced.py": "",
}


def lint_imports(*where: Path) -> subprocess.CompletedProcess[str]:
    """Check the packages in these folders against the contracts of this repository."""
    return subprocess.run(
        [sys.executable, "-c", RUN, "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"],
        cwd=where[0],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, where)), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.mark.slow
def test_the_packages_obey_their_layers():
    result = lint_imports(ROOT / "src", VERIFY)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_contract_protects_every_driver():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    protected = {name for contract in config["contracts"] for name in contract.get("protected_modules", ())}
    drivers = {f"onthedot.stores.{init.parent.name}" for init in PACKAGE.glob("stores/*/__init__.py")}
    missing = drivers - protected
    assert not missing, f"in pyproject.toml, add to the contract `drivers`: {', '.join(sorted(missing))}"


@pytest.fixture(scope="module")
def violated(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = tmp_path_factory.mktemp("violated")
    for name, source in VIOLATIONS.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    result = lint_imports(where)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "Imports go down only BROKEN",
        "Only stores.connect imports a driver BROKEN",
        "Nothing outside testing imports testing BROKEN",
        "Nothing in onthedot imports onthedot_verify BROKEN",
        "Imports go down only in onthedot_verify BROKEN",
        "The checker shares no code with the stores and ticks that it judges BROKEN",
        "onthedot.rules -> onthedot.node (l.1)",
        "onthedot.node.engine -> onthedot.stores.sqlite (l.1)",
        "onthedot.scheduler -> onthedot.testing.harness (l.1)",
        "stray",
        "onthedot.stray -> onthedot_verify.checker (l.1)",
        "onthedot_verify.checker -> onthedot_verify.contract (l.1)",
        "onthedot_verify.checker -> onthedot.rules (l.2)",
        "onthedot_verify.contract -> onthedot.stores.memory (l.1)",
        "unplaced",
    ],
)
def test_a_violation_is_reported(violated: str, line: str):
    assert line in violated


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "onthedot.stores.connect -> onthedot.stores.sqlite",
        "onthedot_verify.simulation -> onthedot.stores.memory",
        "onthedot_verify.simulation -> onthedot.testing.harness",
    ],
)
def test_an_allowed_importer_is_not_reported(violated: str, line: str):
    assert line not in violated
