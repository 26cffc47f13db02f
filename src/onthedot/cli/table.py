"""Rows of text under headings, as wide as they need to be; on a terminal the widest columns are cut to fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from onthedot.observe.formats import count, plain

_BETWEEN = "  "
_LEAST = 6
"""A column is not cut below this, or its heading."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """The table as text. Cells are made harmless here; `width` is the terminal's, None for no terminal.

    >>> print(table(["RUN", "STATE"], [["1", "dead"], ["22", "succeeded"]]))
    RUN  STATE
    1    dead
    22   succeeded
    """
    cells = [[plain(cell, most=1_000) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headings, *cells, strict=True)]
    if width is not None:
        widths = _fitted(widths, [len(heading) for heading in headings], width)
    lines = [[_cut(cell, size) for cell, size in zip(row, widths, strict=True)] for row in [headings, *cells]]
    return "\n".join(
        _BETWEEN.join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip() for row in lines
    )


def _fitted(widths: list[int], headings: Sequence[int], width: int) -> list[int]:
    """The widths with the widest columns made narrower, one by one, until a line fits or nothing more can go.

    >>> _fitted([4, 30, 20], [4, 4, 4], 40)
    [4, 16, 16]
    """
    sizes = list(widths)
    least = [max(heading, min(_LEAST, size)) for heading, size in zip(headings, widths, strict=True)]
    while sum(sizes) + len(_BETWEEN) * (len(sizes) - 1) > width:
        place = max(range(len(sizes)), key=lambda number: (sizes[number] > least[number], sizes[number], number))
        if sizes[place] <= least[place]:
            break
        sizes[place] -= 1
    return sizes


def _cut(cell: str, size: int) -> str:
    return cell if len(cell) <= size else cell[: size - 1] + "…"


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


def echo_more(shown: int, noun: str, option: str, *, as_json: bool = False) -> None:
    """Say that a list was cut, and how to get the rest; beside JSON on standard error."""
    click.echo(f"showing {count(shown, noun)}, and there are more; {option}", err=as_json)


def colours_wanted() -> bool:
    """Colours only on a terminal, and not when the user has asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def can_draw() -> bool:
    """Whether standard output is a terminal on which something can be drawn in place."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown", "")
