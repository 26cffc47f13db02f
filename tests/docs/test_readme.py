"""README.md: its program, test and commands run word for word, and its links work."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_program_runs_word_for_word(tmp_path):
    [program] = blocks("python")
    (tmp_path / "shop.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert ended.returncode == 0, ended.stderr
    shown = re.findall(r"print\(.*\)  # (.+)", program)
    assert ended.stdout.splitlines() == shown == ["{'pages': 100, 'attempt': 1}", "succeeded"]
    assert (tmp_path / "shop.db").exists()


@pytest.mark.slow
def test_the_test_passes_word_for_word(tmp_path):
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    [test] = blocks("py")
    (tmp_path / "test_shop.py").write_text(test)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "onthedot_pytest", "-p", "no:asyncio", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_commands_run_word_for_word(tmp_path):
    shutil.copytree(README.parent / "examples", tmp_path / "examples")
    subprocess.run([BIN / "onthedot", "up", "--for", "2s"], cwd=tmp_path, check=True, capture_output=True, timeout=50)
    lines = README.read_text().splitlines()
    commands = [line.removeprefix("$ .venv/bin/") for line in lines if line.startswith("$ .venv/bin/")]
    assert len(commands) >= 3
    for command in commands:
        program, *arguments = shlex.split(command, comments=True)
        ended = subprocess.run(
            [BIN / program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
        )
        assert ended.returncode == 0, f"{command}: {ended.stderr}"
        assert ended.stdout.strip(), command


def test_its_links_work_and_name_every_example():
    links = re.findall(r"\]\(([^)]+)\)", README.read_text())
    assert [link for link in links if not (README.parent / link.partition("#")[0]).exists()] == []
    shown = {Path(link).name for link in links if link.startswith("examples/")}
    untold = {path.name for path in (README.parent / "examples").glob("*.py")} - shown - {"package_interfaces.py"}
    assert untold == set()


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (README.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
