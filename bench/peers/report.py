"""Reports medians and ratios: as a table per store, and as JSON.

A ratio is that of onthedot to another system, as the median over the rounds in which both were measured. For rates more
is better; for times less is better. The best peer is the one with the best median among those that promise no less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.peers.catalog import BARE, OURS, System
from bench.peers.driver import Measured
from bench.peers.figures import FIGURES, Figure
from bench.results import short


@dataclass(frozen=True, slots=True)
class Cell:
    """One system in one row."""

    system: System
    values: Mapping[int, float]
    notes: Mapping[str, float]
    ratio: float | None
    """Of onthedot to this system. None for onthedot itself, or without it."""

    @property
    def median(self) -> float:
        return median(self.values.values())

    @property
    def is_peer(self) -> bool:
        return self.system.name not in (OURS, BARE)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure on one store."""

    store: str
    figure: Figure
    cells: Mapping[str, Cell]

    @property
    def best(self) -> Cell | None:
        """The best peer. None if there is none."""
        peers = [cell for cell in self.cells.values() if cell.is_peer and self.store not in cell.system.keeps_less]
        if not peers:
            return None
        return (max if self.figure.more_is_better else min)(peers, key=lambda cell: cell.median)

    @property
    def title(self) -> str:
        return f"{self.figure.title}, {self.figure.unit}"


def rows_of(measured: Measured, stores: Sequence[str], systems: Sequence[System]) -> list[Row]:
    """Return a row for each figure that was measured, in the order of the catalog."""
    rows = []
    for store in stores:
        for figure in FIGURES:
            keys = {system.name: (store, figure.name, system.name) for system in systems}
            ours = measured.values.get(keys.get(OURS, ("", "", "")), {})
            cells = {
                system.name: Cell(
                    system, values, _medians(measured.notes.get(keys[system.name], {})),
                    None if system.name == OURS else _ratio(ours, values),
                )
                for system in systems
                if (values := measured.values.get(keys[system.name]))
            }  # fmt: skip
            if cells:
                rows.append(Row(store, figure, cells))
    return rows


def _ratio(ours: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    pairs = [ours[number] / other[number] for number in ours if other.get(number)]
    return median(pairs) if pairs else None


def _medians(notes: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    names = {name for one in notes.values() for name in one}
    return {name: median(one[name] for one in notes.values() if name in one) for name in sorted(names)}


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(rows: Sequence[Row], versions: Mapping[str, str]) -> str:
    """Return one table per store."""
    stores = dict.fromkeys(row.store for row in rows)
    return "\n\n".join(_table([row for row in rows if row.store == store], versions) for store in stores)


def _table(rows: Sequence[Row], versions: Mapping[str, str]) -> str:
    systems = list({name: cell.system for row in rows for name, cell in row.cells.items()}.values())
    systems.sort(key=lambda system: (system.name != OURS, system.name == BARE))
    head = (rows[0].store, *(_heading(system, versions) for system in systems), "onthedot : best peer")
    lines = [head, *((row.title, *(_cell(row, system) for system in systems), _verdict(row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = [
        "  ".join(
            part.ljust(width) if column in (0, len(head) - 1) else part.rjust(width)
            for column, (part, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*text, *_remarks(rows, systems)])


def _heading(system: System, versions: Mapping[str, str]) -> str:
    version = versions.get(system.name, "") if system.name not in (OURS, BARE) else ""
    return f"{system.title} {version}".strip()


def _cell(row: Row, system: System) -> str:
    cell = row.cells.get(system.name)
    if cell is None:
        return "-"
    ratio = "" if cell.ratio is None else f" ({short(cell.ratio)})"
    return f"{short(cell.median)}{ratio}"


def _verdict(row: Row) -> str:
    best = row.best
    if best is None or best.ratio is None:
        return "-"
    return f"{short(best.ratio)} {'of' if row.figure.more_is_better else '× as long as'} {best.system.title}"


def _remarks(rows: Sequence[Row], systems: Sequence[System]) -> list[str]:
    promises = [(one.title, one.keeps_less[rows[0].store]) for one in systems if rows[0].store in one.keeps_less]
    remarks = [f"{title}: {promise}, so it does not count as the best peer" for title, promise in promises]
    for row in rows:
        if row.figure.name == "drain1":
            cells = [row.cells[one.name] for one in systems if one.name in row.cells]
            used = ", ".join(f"{cell.system.title} {_cpu(cell)}" for cell in cells if "worker_cpu_us" in cell.notes)
            remarks.append(f"CPU per job with 1 process, worker + server, µs: {used}")
        if singly := [one.system.title for one in row.cells.values() if "one_by_one" in one.notes]:
            remarks.append(f"no bulk submit, so one by one: {', '.join(singly)}")
        early = [cell for cell in row.cells.values() if cell.notes.get("herd_first", 0) < 0]
        remarks += [f"{one.system.title} started up to {-one.notes['herd_first']:.0f} ms early" for one in early]
    return remarks


def _cpu(cell: Cell) -> str:
    return f"{cell.notes['worker_cpu_us']:.0f} + {cell.notes['server_cpu_us']:.0f}"


# ── for machines ─────────────────────────────────────────────────────────────────────────────────────────────


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return every row, with the values of all rounds."""
    return [
        {
            "store": row.store, "figure": row.figure.name, "title": row.figure.title, "unit": row.figure.unit,
            "more_is_better": row.figure.more_is_better,
            "best_peer": row.best.system.name if row.best else None, "ratio": row.best.ratio if row.best else None,
            "systems": {
                name: {
                    "median": cell.median, "rounds": [cell.values[number] for number in sorted(cell.values)],
                    "ratio": cell.ratio, "notes": dict(cell.notes),
                }
                for name, cell in row.cells.items()
            },
        }
        for row in rows
    ]  # fmt: skip
