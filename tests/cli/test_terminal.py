"""Tables and heat maps: tables fit the terminal, and heat maps use only characters that it can show."""

from __future__ import annotations

import io
import sys

import pytest

from onthedot.cli.terminal import HeatMap, echo_heat, table

HEADINGS = ["NODE", "STATE", "LEADS", "RUNS", "SINCE", "LEASE", "ROLES", "QUEUES", "LABELS"]
ROWS = [
    ["web-server-0017.eu", "draining", "yes", "1000/1000", "12 h 35 m ago", "in 14.0 s", "planner,worker",
     "default,mail,reports", "gpu,region=eu,arch=arm64"],
    ["b", "living", "-", "0/8", "1.0 s ago", "in 14.0 s", "worker", "default", "-"],
]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_wide_table_fits_the_terminal(width: int):
    lines = table(HEADINGS, ROWS, width=width).split("\n")
    assert max(map(len, lines)) <= width
    column = lines[0].index("STATE")
    assert [line[column : column + 6] for line in lines[1:]] == ["draini", "living"]


def test_a_table_that_fits_is_not_cut():
    assert "…" not in table(HEADINGS, ROWS)
    assert "…" not in table(HEADINGS, ROWS, width=200)


def test_narrow_columns_stay_whole():
    lines = table(["RUN", "WHY"], [["17", "x" * 100]], width=40).split("\n")
    assert lines[1] == f"17   {'x' * 34}…"


def test_a_very_narrow_terminal_gets_whole_headings():
    assert table(HEADINGS, ROWS, width=10).split("\n")[0].split() == HEADINGS


HOURS = [0.0] * 12 + [1.0, 2.0, 3.0, 4.0] + [0.0] * 8
HEAT = HeatMap([("Mon", HOURS), ("Tue", [4.0] * 24)], "starts an hour")


def test_a_heat_map_has_a_row_for_each_day_and_two_characters_for_each_hour():
    head, monday, tuesday, _, legend = HEAT.lines()
    assert head == "    0     3     6     9     12    15    18    21"
    assert monday == "Mon " + " " * 24 + "░░▒▒▓▓██"
    assert tuesday == "Tue " + "█" * 48
    assert legend == "    ░░ up to 1, ▒▒ up to 2, ▓▓ up to 3, ██ up to 4 starts an hour"


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "█"), ("ascii", "#"), ("latin-1", "#")])
def test_a_terminal_without_blocks_gets_plain_characters(monkeypatch, encoding, sign):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    echo_heat(HEAT, colours=False)
    sys.stdout.flush()
    assert f"Tue {sign * 48}" in raw.getvalue().decode(encoding)


def test_hours_without_starts_are_empty():
    assert HeatMap([("Mon", [0.0] * 24)], "starts").lines()[1] == "Mon"
