"""The heat map, in blocks, in plain characters and in colours."""

from __future__ import annotations

import io
import sys

import pytest

from onthedot.cli.heat import HeatMap, echo_heat

HOURS = [0.0] * 12 + [1.0, 2.0, 3.0, 4.0] + [0.0] * 8
HEAT = HeatMap([("Mon", HOURS), ("Tue", [4.0] * 24)], "starts an hour")


def test_a_row_for_each_day_and_two_characters_for_each_hour():
    head, monday, tuesday, _, legend = HEAT.lines()
    assert head == "    0     3     6     9     12    15    18    21"
    assert monday == "Mon " + " " * 24 + "░░▒▒▓▓██"
    assert tuesday == "Tue " + "█" * 48
    assert legend == "    ░░ up to 1, ▒▒ up to 2, ▓▓ up to 3, ██ up to 4 starts an hour"


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "█"), ("ascii", "#"), ("latin-1", "#")])
def test_what_the_terminal_cannot_show_is_drawn_otherwise(monkeypatch, encoding, sign):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    echo_heat(HEAT, colours=False)
    sys.stdout.flush()
    assert f"Tue {sign * 48}" in raw.getvalue().decode(encoding)


def test_nothing_is_nothing():
    assert HeatMap([("Mon", [0.0] * 24)], "starts").lines()[1] == "Mon"
