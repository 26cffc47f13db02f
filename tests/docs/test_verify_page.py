"""verify/README.md: its examples run word for word, with the memory store in place of the reader's own store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "verify" / "README.md"
STORE = "from onthedot.stores.memory import MemoryStore as MyStore\n"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store of the reader's own."""
    (tmp_path / "my_store.py").write_text(STORE)
    return tmp_path


def run(folder: Path, *command: str | Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_contract_runs_word_for_word(folder: Path):
    [test] = blocks("py")
    (folder / "test_my_store.py").write_text(test)
    [conftest] = re.findall(r"`(pytest\.register_assert_rewrite\(.*?\))`", PAGE.read_text())
    (folder / "conftest.py").write_text(f"import pytest\n\n{conftest}\n")
    told = run(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "submit or terms")
    assert re.search(r"^\d\d passed", told, re.MULTILINE), told


@pytest.mark.slow
def test_the_simulation_runs_word_for_word(folder: Path):
    [program] = blocks("python")
    (folder / "simulated.py").write_text(program)
    assert run(folder, sys.executable, "simulated.py") == ""


@pytest.mark.slow
def test_the_commands_run_word_for_word(folder: Path):
    simulated, checked = (run(folder, "bash", "-euc", script) for script in blocks("sh"))
    assert simulated.endswith("0 seeds failed\n"), simulated
    assert checked == "1 histories, 0 violations\n"


def test_its_links_exist():
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text())
    assert links
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
