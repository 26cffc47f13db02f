"""Draws tables and heat maps on the terminal, with the width and colours that it has."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from onthedot.observe.formats import count, plain

_BETWEEN = "  "
_LEAST = 6
"""A column is not cut below this, or its heading."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """The table as text. Control characters are removed from cells. `width` is the terminal's width; None: no limit.

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
    """Make the widest columns narrower, one by one, until a line fits.

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
    """The width of the terminal; None if the output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def echo_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the table; on a terminal with bold headings."""
    head, *lines = table(headings, rows, width=terminal_width()).split("\n")
    click.echo("\n".join([click.style(head, bold=True) if colours_wanted() else head, *lines]))


def echo_more(shown: int, noun: str, option: str, *, as_json: bool = False) -> None:
    """Print that a list was cut, and which option shows more; with JSON on standard error."""
    click.echo(f"showing {count(shown, noun)}, and there are more; {option}", err=as_json)


def colours_wanted() -> bool:
    """Whether to use colours: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def can_draw() -> bool:
    """Whether standard output is a terminal that can redraw lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown", "")


_BLOCKS, _PLAIN = " ░▒▓█", " .:+#"
_STYLES = ("default", "#5fafff", "#5fd75f", "#ffd75f", "#ff5f5f")
_CELL = 2


@dataclass(frozen=True)
class HeatMap:
    """A row for each day or weekday, with a number for each of 24 hours."""

    rows: Sequence[tuple[str, Sequence[float]]]
    unit: str

    @property
    def most(self) -> float:
        return max((value for _, hours in self.rows for value in hours), default=0.0)

    def level(self, value: float) -> int:
        """0: nothing; 4: the highest.

        >>> heat = HeatMap([("Mon", [0.0, 1.0, 30.0, 100.0])], "starts")
        >>> [heat.level(value) for value in heat.rows[0][1]]
        [0, 1, 2, 4]
        """
        return 0 if not value else max(1, -(-int(value * 4_000 / self.most) // 1_000))

    def lines(self, *, blocks: bool = True) -> list[str]:
        """The map as text, with hours above and a legend below."""
        signs = _BLOCKS if blocks else _PLAIN
        width = max((len(name) for name, _ in self.rows), default=0)
        head = " " * width + " " + "".join(f"{hour:<{3 * _CELL}}" for hour in range(0, 24, 3)).rstrip()
        body = [f"{name:<{width}} {''.join(signs[self.level(value)] * _CELL for value in hours)}".rstrip()
                for name, hours in self.rows]  # fmt: skip
        return [head, *body, "", f"{' ' * width} {self._legend(signs)}"]

    def _legend(self, signs: str) -> str:
        steps = [f"{signs[level] * _CELL} up to {_number(self.most * level / 4)}" for level in range(1, 5)]
        return f"{', '.join(steps)} {self.unit}"


def _number(value: float) -> str:
    """A number for the legend.

    >>> _number(1050.0), _number(2.25)
    ('1,050', '2.25')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def echo_heat(heat: HeatMap, *, colours: bool) -> None:
    """Print the map; with colours, each block has the colour of its level."""
    lines = heat.lines(blocks=can_show(_BLOCKS))
    if not colours:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(line)
        for level in range(1, 5):
            text.highlight_regex(f"[{_BLOCKS[level]}]+", _STYLES[level])
        console.print(text)


def can_show(text: str) -> bool:
    """Whether the encoding of standard output has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
