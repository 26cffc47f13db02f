"""Draws a chaos test as one HTML file without external parts.

Each node has a lane with a bar for each execution, coloured by its outcome. Faults are vertical marks. Below, dots
show how late each start was. Every element has a tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import log10
from pathlib import Path
from statistics import quantiles

from onthedot.clock import SECOND, to_datetime
from tests.chaos.evidence import Evidence, Start
from tests.processes.kit import Fault

LEFT, RIGHT, TOP = 110, 24, 46  # the margins around the lanes
ROW, ROWS, GAP = 5, 18, 18  # pixels of a bar with its space, bars above each other in a lane, space between lanes
SCATTER = 220
WIDTH = (900, 6000)
PER_SECOND = 40
MARKS_MS = (1, 10, 100, 1_000, 10_000)

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #67728a; --line: #d7dce5; --paper: #fbfbfd;
  --succeeded: #2b8a5a; --failed: #d9822b; --lost: #c23b3b; --cancelled: #8a8f9c; --open: #4a7fd4; --fault: #8e44ad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --soft: #9aa4b8; --line: #343b4a; --paper: #14171e;
  --succeeded: #52c08a; --failed: #f0a45c; --lost: #f07575; --cancelled: #a6abb8; --open: #86b0f5; --fault: #c58be0; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 24px; color: var(--ink); background: var(--paper); }
h1 { font-size: 20px; margin: 0 0 4px; } p { margin: 0 0 12px; color: var(--soft); max-width: 70em; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
svg { display: block; font: 12px system-ui, sans-serif; } text { fill: var(--soft); } .node { fill: var(--ink); }
.grid { stroke: var(--line); } .lane { fill: none; stroke: var(--line); }
.bar:hover, .dot:hover { stroke: var(--ink); }
.succeeded { fill: var(--succeeded); } .failed { fill: var(--failed); } .lost { fill: var(--lost); }
.cancelled { fill: var(--cancelled); } .open { fill: var(--open); } .term { fill: var(--open); }
.fault { stroke: var(--fault); stroke-width: 2; stroke-dasharray: 5 3; } .outage { fill: var(--fault); opacity: .16; }
.what { fill: var(--fault); font-weight: 600; } .dot { opacity: .75; }
table { border-collapse: collapse; margin: 16px 0; } td, th { padding: 3px 14px 3px 0; text-align: left; }
th { font-weight: 600; } .swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; }
.legend span { margin-right: 16px; } .legend .swatch { margin-right: 5px; }
.legend .succeeded { background: var(--succeeded); } .legend .failed { background: var(--failed); }
.legend .lost { background: var(--lost); } .legend .cancelled { background: var(--cancelled); }
.legend .open { background: var(--open); } .broken { color: var(--lost); font-weight: 600; }
"""
KINDS = {
    "succeeded": "succeeded",
    "failed": "failed, or took too long",
    "lost": "lost with its node",
    "cancelled": "stopped",
    "open": "no end is known",
}


def write(evidence: Evidence, path: Path, title: str) -> Path:
    """Write the page to a file."""
    path.write_text(render(evidence, title), encoding="utf-8")
    return path


def render(evidence: Evidence, title: str) -> str:
    """Return the whole page."""
    legend = "".join(f'<span><i class="swatch {kind}"></i>{escape(words)}</span>' for kind, words in KINDS.items())
    picture = "\n".join(_Picture(evidence).svg())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
        "<p>One lane for each node, one bar for each execution, from the journal of the handlers. Below: how late each"
        " start was, on a logarithmic scale. Times are seconds after the beginning.</p>\n"
        f'<p class="legend">{legend}</p>\n<div class="scroll">{picture}</div>\n'
        f"{_figures(evidence)}\n{_faults(evidence)}\n{_judgement(evidence)}\n</body></html>\n"
    )


class _Picture:
    """The SVG picture of one test."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        starts = evidence.notes.starts
        instants = [start.at for start in starts] + [fault.begin for fault in evidence.faults]
        instants += [*evidence.notes.ends.values(), *evidence.notes.stops.values()]
        instants += [fault.end for fault in evidence.faults if fault.end] + [at for _, at, _ in evidence.terms]
        self._begin = min(instants, default=0) // SECOND * SECOND
        self._length = max(max(instants, default=0) - self._begin, SECOND) / SECOND
        self._width = round(min(max(self._length * PER_SECOND, WIDTH[0]), WIDTH[1]))
        self._outcomes = {
            (attempt.run_id, attempt.fence): attempt.outcome
            for attempts in evidence.attempts.values()
            for attempt in attempts
        }
        self._lane = ROW * ROWS
        self._lanes_end = TOP + len(evidence.nodes) * (self._lane + GAP)
        self._height = self._lanes_end + SCATTER + 60

    def _x(self, at: int) -> float:
        return LEFT + (at - self._begin) / SECOND / self._length * self._width

    def _lane_of(self, node: str) -> int:
        return TOP + self._evidence.nodes.index(node) * (self._lane + GAP)

    def _after(self, at: int) -> str:
        return f"{(at - self._begin) / SECOND:.3f} s"

    def svg(self) -> Iterator[str]:
        width = LEFT + self._width + RIGHT
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{self._height}" role="img"'
            f' viewBox="0 0 {width} {self._height}" aria-label="executions by node, faults, and lateness">'
        )
        yield from self._grid()
        for node in self._evidence.nodes:
            yield from self._node(node)
        yield from self._scatter()
        for fault in self._evidence.faults:
            yield from self._fault(fault)
        yield "</svg>"

    def _grid(self) -> Iterator[str]:
        step = max(1, round(self._length / 30))
        for second in range(0, int(self._length) + 1, step):
            x = self._x(self._begin + second * SECOND)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{self._height - 40}"/>'
            yield f'<text x="{x:.1f}" y="{self._height - 22}" text-anchor="middle">{second} s</text>'

    def _node(self, node: str) -> Iterator[str]:
        y = self._lane_of(node)
        yield f'<g class="node-lane" data-node="{escape(node)}">'
        yield f'<text class="node" x="12" y="{y + self._lane / 2 + 4:.0f}">{escape(node)}</text>'
        yield f'<rect class="lane" x="{LEFT}" y="{y - 4}" width="{self._width}" height="{self._lane + 8}" rx="4"/>'
        rows = [0.0] * ROWS  # the right end of the last bar in each row
        for start in sorted((s for s in self._evidence.notes.starts if s.node == node), key=lambda s: s.at):
            yield self._bar(start, y, rows)
        for _, at, number in (term for term in self._evidence.terms if term[0] == node):
            title = escape(f"{node} leads: term {number}, {self._after(at)}")
            yield f'<path class="term" d="M{self._x(at):.1f} {y - 4} l9 -5 l-9 -5 z"><title>{title}</title></path>'
        yield "</g>"

    def _end_of(self, start: Start) -> int | None:
        key = (start.run, start.fence)
        return self._evidence.notes.ends.get(key) or self._evidence.notes.stops.get(key)

    def _kind(self, start: Start) -> str:
        outcome = self._outcomes.get((start.run, start.fence))
        if outcome is None:
            return "succeeded" if (start.run, start.fence) in self._evidence.notes.ends else "open"
        return {"timed_out": "failed"}.get(str(outcome), str(outcome))

    def _bar(self, start: Start, y: int, rows: list[float]) -> str:
        end, kind = self._end_of(start), self._kind(start)
        x = self._x(start.at)
        width = max(2.0, self._x(end) - x) if end else 6.0
        row = next((number for number, taken in enumerate(rows) if taken <= x), start.run % ROWS)
        rows[row] = x + width + 0.5
        lasted = f"{(end - start.at) / SECOND:.3f} s long" if end else "no end noted"
        title = (
            f"{start.job} on {start.node}: run {start.run}, attempt {start.attempt}, fence {start.fence}; due "
            f"{self._after(start.slot)}, {start.late / 1000:.1f} ms late, {lasted}; {KINDS.get(kind, kind)}"
        )
        return (
            f'<rect class="bar {kind}" x="{x:.1f}" y="{y + row * ROW}" width="{width:.1f}" height="{ROW - 1}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def _fault(self, fault: Fault) -> Iterator[str]:
        x = self._x(fault.begin)
        title = f"{fault.kind}: {fault.node}, at {self._after(fault.begin)}"
        if fault.end > fault.begin:
            title += f", for {(fault.end - fault.begin) / SECOND:.3f} s"
            whole = fault.node not in self._evidence.nodes
            y = TOP - 8 if whole else self._lane_of(fault.node) - 4
            height = self._lanes_end - TOP if whole else self._lane + 8
            width = max(1.0, self._x(fault.end) - x)
            yield f'<rect class="outage" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"/>'
        yield '<g class="mark">'
        yield f"<title>{escape(title)}</title>"
        yield f'<line class="fault" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 14}" y2="{self._height - 40}"/>'
        yield f'<text class="what" x="{x + 4:.1f}" y="{TOP - 18}">{escape(f"{fault.kind} {fault.node}")}</text></g>'

    def _scatter(self) -> Iterator[str]:
        top = self._lanes_end + 8
        yield '<g class="lateness">'
        for mark in MARKS_MS:
            y = self._late_y(mark * 1_000, top)
            label = f"{mark} ms" if mark < 1_000 else f"{mark // 1_000} s"
            yield f'<line class="grid" x1="{LEFT}" x2="{LEFT + self._width}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label} late</text>'
        for start in self._evidence.notes.starts:
            x, y = self._x(max(start.slot, self._begin)), self._late_y(start.late, top)
            title = f"{start.job} on {start.node}, slot {self._after(start.slot)}: {start.late / 1000:.1f} ms late"
            yield (
                f'<circle class="dot {self._kind(start)}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
                f"<title>{escape(title)}</title></circle>"
            )
        yield "</g>"

    def _late_y(self, late: int, top: int) -> float:
        """Return the height of a lateness: logarithmic, from 0.1 ms at the bottom to 100 s at the top."""
        tens = log10(min(max(late, 100), 100_000_000)) - 2
        return top + SCATTER - tens / 6 * SCATTER


def _figures(evidence: Evidence) -> str:
    """Return a table of lateness before and after the first fault."""
    first = min((fault.begin for fault in evidence.faults), default=None)
    starts = [start for start in evidence.notes.starts if start.attempt == 1]
    parts = {"all first attempts": starts}
    if first is not None:
        parts["due before the first fault"] = [start for start in starts if start.slot < first]
        parts["due after it"] = [start for start in starts if start.slot >= first]
    rows = "".join(f"<tr><td>{name}</td>{_row([start.late for start in part])}</tr>" for name, part in parts.items())
    return f"<table><tr><th></th><th>starts</th><th>median</th><th>99 %</th><th>latest</th></tr>{rows}</table>"


def _row(late: list[int]) -> str:
    if len(late) < 2:
        return f"<td>{len(late)}</td><td></td><td></td><td></td>"
    cuts = quantiles(late, n=100)
    return "".join(f"<td>{text}</td>" for text in (len(late), _ms(cuts[49]), _ms(cuts[98]), _ms(max(late))))


def _ms(micros: float) -> str:
    return f"{micros / 1000:.1f} ms"


def _faults(evidence: Evidence) -> str:
    rows = "".join(
        f"<tr><td>{escape(fault.kind)}</td><td>{escape(fault.node)}</td><td>{to_datetime(fault.begin):%H:%M:%S.%f}</td>"
        f"<td>{(fault.end - fault.begin) / SECOND if fault.end else 0:.3f} s</td></tr>"
        for fault in evidence.faults
    )
    return (
        f"<table><tr><th>fault</th><th>node</th><th>begin (UTC)</th><th>duration</th></tr>{rows}</table>"
        if rows
        else ""
    )


def _judgement(evidence: Evidence) -> str:
    if not evidence.violations:
        return "<p>The checker has found no broken promise.</p>"
    found = "".join(f"<li>{escape(str(violation))}</li>" for violation in evidence.violations[:100])
    return f'<p class="broken">{len(evidence.violations)} promises are broken:</p><ul>{found}</ul>'
