"""Tables: aligned, and never wider than the terminal as long as there is something to cut."""

from __future__ import annotations

import pytest

from onthedot.cli.table import table

HEADINGS = ["NODE", "STATE", "LEADS", "RUNS", "SINCE", "LEASE", "ROLES", "QUEUES", "LABELS"]
ROWS = [
    ["web-server-0017.eu", "draining", "yes", "1000/1000", "12 h 35 m ago", "in 14.0 s", "planner,worker",
     "default,mail,reports", "gpu,region=eu,arch=arm64"],
    ["b", "living", "-", "0/8", "1.0 s ago", "in 14.0 s", "worker", "default", "-"],
]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_wide_table_fits(width: int):
    lines = table(HEADINGS, ROWS, width=width).split("\n")
    assert max(map(len, lines)) <= width
    column = lines[0].index("STATE")
    assert [line[column : column + 6] for line in lines[1:]] == ["draini", "living"]


def test_nothing_is_cut_without_need():
    assert "…" not in table(HEADINGS, ROWS)
    assert "…" not in table(HEADINGS, ROWS, width=200)


def test_narrow_columns_stay_whole():
    lines = table(["RUN", "WHY"], [["17", "x" * 100]], width=40).split("\n")
    assert lines[1] == f"17   {'x' * 34}…"


def test_a_terminal_that_is_too_narrow_for_anything_gets_whole_headings():
    assert table(HEADINGS, ROWS, width=10).split("\n")[0].split() == HEADINGS
