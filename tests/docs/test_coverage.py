"""docs/coverage.md: every number appears once, every file exists, and every named test is collected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.coverage import NUMBERS, problems, why_not_collected

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import pytest
from contract import Elsewhere
from onthedot_verify.contract import Contract, check_later as test_later, test_shared
from onthedot_verify.everything import *

def test_plain(): ...
async def test_waiting(): ...
def helper(): ...
class TestStore:
    def test_reserve(self): ...
class TestOther(TestStore): ...
class TestSqlite(Contract): ...
class TestGone(Elsewhere): ...
class Plain:
    def test_hidden(self): ...
@pytest.mark.skip(reason="later")
def test_skipped(): ...
@pytest.mark.xfail
class TestXfail:
    def test_hoped_for(self): ...
"""
CONTRACT = """
def test_shared(): ...
def check_later(): ...
class Base:
    def test_fenced(self): ...
class Contract(Base): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository with one source file and one file of tests."""
    files = {
        "src/onthedot/rules/retry.py": "",
        "verify/onthedot_verify/__init__.py": "",
        "verify/onthedot_verify/contract.py": CONTRACT,
        "verify/onthedot_verify/everything.py": "def test_starred(): ...",
        "tests/test_a.py": TESTS,
        "tests/helpers.py": "def test_not_here(): ...",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def page(number: str = "S1-01", where: str = "open", shown: str = "open") -> str:
    """A page on which every number is open but one."""
    heads = ["# Coverage", "| number | behaviour | where it works | shown by |", "|---|---|---|---|"]
    cells = {n: f"{where} | {shown}" if n == number else "open | open" for n in NUMBERS}
    return "\n".join([*heads, *(f"| {n} | does it | {last} |" for n, last in cells.items())])


def test_the_page_has_no_problems():
    found = problems((ROOT / "docs" / "coverage.md").read_text(), ROOT)
    assert not found, "docs/coverage.md:\n  " + "\n  ".join(found)


def test_there_are_138_numbers():
    assert len(set(NUMBERS)) == 138


# ── the check itself ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_page_passes(root: Path):
    assert problems(page(), root) == []


def test_a_row_with_source_and_tests_passes(root: Path):
    shown = "`tests/test_a.py::test_plain`, `tests/test_a.py::test_waiting`"
    assert problems(page(where="`src/onthedot/rules/retry.py`", shown=shown), root) == []


def test_a_missing_number_is_found(root: Path):
    text = "\n".join(line for line in page().splitlines() if "S3-07" not in line)
    assert problems(text, root) == ["S3-07 is missing"]


def test_a_number_given_twice_is_found(root: Path):
    assert problems(page() + "\n| S3-07 | again | open | open |", root) == ["S3-07 is there 2 times"]


def test_an_unknown_number_is_found(root: Path):
    found = problems(page() + "\n| S6-01 | new | open | open |", root)
    assert found == ["S6-01 is not a number of this page"]


def test_a_row_with_too_few_cells_is_found(root: Path):
    found = problems(page().replace("| S1-01 | does it | open | open |", "| S1-01 | does it | open |"), root)
    assert found == ["line 4: 3 cells where there should be 4", "S1-01 is missing"]


@pytest.mark.parametrize(
    ("where", "shown", "problem"),
    [
        ("open", "`tests/test_a.py::test_plain`", "half open"),
        ("`src/onthedot/rules/retry.py`", "open", "half open"),
        ("`src/onthedot/rules/retry.py`", "", "names no test"),
        ("", "`tests/test_a.py::test_plain`", "names no source path"),
        ("`tests/test_a.py`", "`tests/test_a.py::test_plain`", "names no source path"),
        ("`verify/onthedot_verify/contract.py`", "`tests/test_a.py::test_plain`", "names no source path"),
        ("`src/onthedot/gone.py`", "`tests/test_a.py::test_plain`", "there is no src/onthedot/gone.py"),
        ("`src/onthedot/rules/retry.py` mostly", "`tests/test_a.py::test_plain`", "holds more than paths"),
        ("`src/onthedot/rules/retry.py`", "`tests/test_a.py::test_gone`", "no such test"),
        ("`src/onthedot/rules/retry.py`", "tests/test_a.py::test_plain", "holds more than tests"),
    ],
)
def test_a_row_that_claims_too_much_is_found(root: Path, where: str, shown: str, problem: str):
    found = problems(page("S2-05", where, shown), root)
    assert any(problem in line and "S2-05" in line for line in found), found


@pytest.mark.parametrize(
    "node",
    [
        "tests/test_a.py::test_plain",
        "tests/test_a.py::test_waiting",
        "tests/test_a.py::TestStore::test_reserve",
        "tests/test_a.py::TestOther::test_reserve",
        "tests/test_a.py::TestSqlite::test_fenced",
        "tests/test_a.py::test_shared",
        "tests/test_a.py::test_later",
        "tests/test_a.py::test_starred",
    ],
)
def test_a_collected_test_is_recognised(root: Path, node: str):
    assert why_not_collected(node, root) is None


@pytest.mark.parametrize(
    "node",
    [
        "tests/test_a.py",
        "tests/test_a.py::test_gone",
        "tests/test_a.py::test_plain[sqlite]",
        "tests/test_a.py::helper",
        "tests/test_a.py::test_hidden",
        "tests/test_a.py::TestStore",
        "tests/test_a.py::TestStore::test_gone",
        "tests/test_a.py::TestSqlite::test_gone",
        "tests/test_a.py::TestGone::test_fenced",
        "tests/test_a.py::Plain::test_hidden",
        "tests/test_a.py::test_skipped",
        "tests/test_a.py::TestXfail::test_hoped_for",
        "tests/test_b.py::test_plain",
        "tests/helpers.py::test_not_here",
        "verify/onthedot_verify/contract.py::test_shared",
    ],
)
def test_a_test_that_pytest_would_not_run_is_found(root: Path, node: str):
    assert why_not_collected(node, root)
