"""Draws bar charts as SVG, for the documentation: one sheet per store, with a panel per figure.

The colours follow the light or dark mode of the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.peers.catalog import BARE, OURS, STORES
from bench.peers.report import Cell, Row
from bench.results import short

TITLES = dict(zip(STORES, ("memory", "SQLite", "PostgreSQL", "Redis"), strict=True))

COLUMNS = 2
WIDTH, LABEL, VALUE = 420, 118, 62
BAR, STEP, HEAD, GAP = 14, 20, 34, 18

STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #333 }
.title { font-weight: 600 } .note { fill: #777 }
.peer { fill: #b8bec8 } .ours { fill: #2f6fde } .bare { fill: none; stroke: #999; stroke-dasharray: 3 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .note { fill: #999 } .peer { fill: #5d6470 } .ours { fill: #5b93f5 } .bare { stroke: #888 }
}
"""


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write one file per store, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for store in dict.fromkeys(row.store for row in rows):
        file = folder / f"peers-{store}.svg"
        file.write_text(sheet([row for row in rows if row.store == store]))
        files.append(file)
    return files


def sheet(rows: Sequence[Row]) -> str:
    """Draw all figures of one store, in two columns."""
    heights = [_height(row) for row in rows]
    lines = [max(heights[first : first + COLUMNS]) for first in range(0, len(rows), COLUMNS)]
    promises = sorted({promise for row in rows for cell in row.cells.values() if (promise := _keeps_less(row, cell))})
    width, height = WIDTH * min(COLUMNS, len(rows)), sum(lines) + STEP * len(promises)
    title = escape(f"onthedot and others on {TITLES[rows[0].store]}")
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
    ]
    for number, row in enumerate(rows):
        line, column = divmod(number, COLUMNS)
        drawn += _panel(row, column * WIDTH, sum(lines[:line]))
    for number, promise in enumerate(promises):
        drawn.append(f'<text class="note" x="8" y="{sum(lines) + 8 + number * STEP}">* {escape(promise)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def _height(row: Row) -> int:
    return HEAD + STEP * len(row.cells) + GAP


def _panel(row: Row, left: int, top: int) -> list[str]:
    """Draw one figure: a bar per system, the best one first."""
    better = "more is better" if row.figure.more_is_better else "less is better"
    drawn = [
        f'<g transform="translate({left} {top})">',
        f'<text class="title" x="8" y="18">{escape(row.title)}</text>',
        f'<text class="note" x="{WIDTH - 8}" y="18" text-anchor="end">{better}</text>',
    ]
    most = max(cell.median for cell in row.cells.values())
    room = WIDTH - LABEL - VALUE - 8
    for number, cell in enumerate(_ordered(row)):
        y = HEAD + number * STEP
        title = cell.system.title + (" *" if _keeps_less(row, cell) else "")
        length = max(1.0, round(room * max(0.0, cell.median) / most, 1)) if most > 0 else 1.0
        drawn += [
            f'<text x="{LABEL - 8}" y="{y + 11}" text-anchor="end">{escape(title)}</text>',
            f'<rect class="{_class(cell)}" x="{LABEL}" y="{y}" width="{length:g}" height="{BAR}" rx="2"/>',
            f'<text x="{LABEL + length + 6:g}" y="{y + 11}">{short(cell.median)}</text>',
        ]
    return [*drawn, "</g>"]


def _keeps_less(row: Row, cell: Cell) -> str:
    return cell.system.keeps_less.get(row.store, "")


def _ordered(row: Row) -> list[Cell]:
    return sorted(row.cells.values(), key=lambda cell: cell.median, reverse=row.figure.more_is_better)


def _class(cell: Cell) -> str:
    return {OURS: "ours", BARE: "bare"}.get(cell.system.name, "peer")
