"""Rows of text under headings, as wide as they need to be; on a terminal the last column is cut to fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from onthedot.observe.text import plain

_BETWEEN = "  "
_LEAST_LAST_COLUMN = 12


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """The table as text. Cells are made harmless here; `width` is the terminal's, None for no terminal.

    >>> print(table(["RUN", "STATE"], [["1", "dead"], ["22", "succeeded"]]))
    RUN  STATE
    1    dead
    22   succeeded
    """
    cells = [[plain(cell, most=1_000) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headings, *cells, strict=True)]
    lines = [_BETWEEN.join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)) for row in cells]
    head = _BETWEEN.join(f"{heading:<{size}}" for heading, size in zip(headings, widths, strict=True))
    room = None if width is None else max(width, sum(widths[:-1]) + len(_BETWEEN) * len(widths) + _LEAST_LAST_COLUMN)
    return "\n".join(_cut(line.rstrip(), room) for line in [head, *lines])


def _cut(line: str, room: int | None) -> str:
    return line if room is None or len(line) <= room else line[: room - 1] + "…"


def terminal_width() -> int | None:
    """How wide the terminal is; None when the output goes elsewhere and need not be cut."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def echo_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the table, its headings bold on a terminal."""
    head, *lines = table(headings, rows, width=terminal_width()).split("\n")
    click.echo("\n".join([click.style(head, bold=True) if colours_wanted() else head, *lines]))


def colours_wanted() -> bool:
    """Colours only on a terminal, and not when the user has asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
