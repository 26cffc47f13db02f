"""`onthedot completion`: a real shell is told what could come next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onthedot.cli.completion import SHELLS
from tests.cli.conftest import Call

ONTHEDOT = Path(sys.executable).with_name("onthedot")


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(call: Call, shell: str):
    result = call("completion", shell)
    assert result.exit_code == 0
    assert f"_ONTHEDOT_COMPLETE={shell}_complete" in result.output
    assert "onthedot" in result.output


def test_another_shell_is_refused_in_words(call: Call):
    result = call("completion", "tcsh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["onthedot", "do"], ["doctor"]),
        (["onthedot", "runs", "--j"], ["--job", "--json"]),
        (["onthedot", "completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes_what_was_begun(tmp_path: Path, typed: list[str], expected: list[str]):
    script = (
        'eval "$(onthedot completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
        '_onthedot_completion onthedot; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{ONTHEDOT.parent}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["bash", "-c", script, "bash", *typed], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert sorted(told.stdout.split()) == expected
