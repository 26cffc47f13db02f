"""Runs one command of a peer's module in the peers' environment, and returns its output."""

from __future__ import annotations

import json
import subprocess

from bench.crew import PATIENCE, ROOT
from bench.results import BenchFailed


def call(python: str, node: str, verb: str, url: str, number: int) -> list[int]:
    """Run `python -m NODE VERB URL NUMBER`, and return the numbers that it prints as JSON."""
    command = [python, "-m", node, verb, url, str(number)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise BenchFailed(f"{node}, {verb}: ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    numbers: list[int] = json.loads(done.stdout)
    return numbers
