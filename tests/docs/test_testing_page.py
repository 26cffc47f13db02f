"""docs/guides/testing.md: its test passes word for word, and it lists everything that a harness can do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot.testing import Harness

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "testing.md").read_text()


@pytest.mark.slow
def test_the_test_passes_word_for_word(tmp_path):
    shutil.copy(ROOT / "examples" / "testing" / "shop.py", tmp_path)
    [test] = re.findall(r"```python test\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_page.py").write_text(test)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "onthedot_pytest", "-p", "no:asyncio", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_page_lists_all_methods_of_a_harness():
    listed = set(re.findall(r"\bh\.(\w+)", PAGE))
    can = {name for name in dir(Harness) if not name.startswith("_")}
    called_by_the_fixture = {"start", "close"}
    inner = {"engine", "store"}
    assert listed - {"events"} <= can
    assert can - called_by_the_fixture - inner <= listed
