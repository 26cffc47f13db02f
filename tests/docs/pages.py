"""Reads the code blocks of the documentation. Each kind is run in its own way:

* `python`: a program of its own. `python more` continues the one before.
* `python test`: a test of the shop in `examples/testing`. `test_testing_page.py` runs it.
* `python server`: needs a server or another package. It is only compiled.
* `yaml`: a file of jobs, or a list of jobs.
* `sh`: all of a page run in one shell, in a fresh folder.
* `sh by-hand`: needs root or another machine. Its syntax is checked.

Other kinds (`text`, `json`, `ini`) are shown and not run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for folder in ("start", "guides", "operate") for page in (DOCS / folder).glob("*.md"))
RUN = ("python", "python more", "python test", "python server", "yaml", "sh", "sh by-hand")
SHOWN = (
    "text", "json", "ini", "toml", "sql", "nginx", "dockerfile", "yaml other", "crontab",
    "{toctree}", "{note}", "{warning}",
)  # fmt: skip


class Block(NamedTuple):
    """A fenced block: its kind (what follows the fence), its first line's number, and its text."""

    kind: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1].strip(), text.count("\n", 0, match.start()) + 1, match[2])
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def programs(page: Path) -> list[Block]:
    """The Python programs of a page, each with the blocks that continue it."""
    found: list[Block] = []
    for block in blocks(page):
        if block.kind == "python":
            found.append(block)
        elif block.kind == "python more":
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{block.text}")
    return found
