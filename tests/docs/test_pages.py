"""Code blocks in docs/start, docs/guides and docs/operate: each runs, compiles or parses, in a fresh folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot.define.job_reader import read_jobs
from tests.docs.pages import PAGES, RUN, SHOWN, blocks, programs

PRELUDE = "import asyncio\nfrom datetime import datetime, timedelta\nimport onthedot as otd\n"
"""Imports put before each program, so that a guide need not repeat them."""

RUNNER = """
import sys, traceback
from pathlib import Path
failed = 0
for path in sys.argv[1:]:
    names = {"__name__": "__main__", "__file__": path}
    try:
        exec(compile(Path(path).read_text(), path, "exec"), names)
    except Exception:
        traceback.print_exc()
        failed += 1
sys.exit(failed)
"""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")


def environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "OTD_STATE_DIR": str(folder / "state"), "TZ": "UTC"}


@each_page
def test_every_block_has_a_known_kind(page: Path):
    unknown = {f"line {block.line}: {block.kind!r}" for block in blocks(page) if block.kind not in (*RUN, *SHOWN)}
    assert not unknown, f"use one of the kinds in tests/docs/pages.py: {sorted(unknown)}"


@pytest.mark.slow
@pytest.mark.timeout(180)
@each_page
def test_python_programs_of_a_page_run(page: Path, tmp_path: Path):
    paths = []
    for block in programs(page):
        path = tmp_path / f"{page.stem}_line_{block.line}.py"
        path.write_text(PRELUDE + block.text)
        paths.append(str(path))
    if not paths:
        return
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, *paths], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@each_page
def test_python_that_needs_a_server_compiles(page: Path):
    for block in blocks(page):
        if block.kind == "python server":
            compile(block.text, f"{page}:{block.line}", "exec")


@each_page
def test_yaml_blocks_are_files_of_jobs(page: Path):
    for block in blocks(page):
        if block.kind == "yaml":
            listed = block.text.lstrip().startswith("- ")
            assert read_jobs(f"jobs:\n{block.text}" if listed else block.text), f"line {block.line}: no job"


@pytest.mark.slow
@pytest.mark.timeout(180)
@each_page
def test_shell_blocks_of_a_page_run(page: Path, tmp_path: Path):
    script = "\n".join(block.text for block in blocks(page) if block.kind == "sh")
    if not script:
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@each_page
def test_shell_by_hand_has_valid_syntax(page: Path):
    for block in blocks(page):
        if block.kind == "sh by-hand":
            done = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"line {block.line}: {done.stderr}"
