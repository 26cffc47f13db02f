"""Floors and aims give each line its verdict; a missed floor or lost work gives exit code 1."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from bench import __main__ as command
from bench.lateness import STEP
from bench.nodes import Start, check_executions, check_starts
from bench.results import BenchFailed, Result, above, exit_code, missed, ratio, short, table
from bench.rounds import Plan, alternate, percentile


def line(measured: float, *, more: bool = True, floor: float | None = 0.35, aim: float | None = 0.6) -> Result:
    return Result(
        name="made up", ours=measured, bare=1.0, measured=measured, spread=(measured, measured), unit="runs/s",
        measure="ratio", floor=floor, aim=aim, more_is_better=more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "verdict"), [(0.34, "FAILS"), (0.35, "ok"), (0.59, "ok"), (0.6, "aim"), (2.0, "aim")]
)
def test_a_ratio_reaches_its_floor_and_aim_from_below(measured, verdict):
    assert line(measured).verdict == verdict


@pytest.mark.parametrize(("measured", "verdict"), [(5.1, "FAILS"), (5.0, "ok"), (2.1, "ok"), (2.0, "aim"), (-1, "aim")])
def test_a_difference_reaches_its_floor_and_aim_from_above(measured, verdict):
    assert line(measured, more=False, floor=5.0, aim=2.0).verdict == verdict


def test_a_line_without_a_floor_is_only_printed():
    assert line(0.01, floor=None, aim=None).verdict == "printed"
    assert line(0.01, floor=None).verdict == "printed"
    assert line(0.9, floor=None).verdict == "aim"
    assert line(0.9, aim=None).verdict == "ok"


def test_a_missed_floor_gives_exit_code_1_and_is_named():
    results = [line(0.9), line(0.2)]
    assert exit_code(results, [], size=1) == 1
    assert missed(results) == ["made up: ratio 0.20, floor 0.35"]


def test_floors_do_not_count_at_a_smaller_size():
    assert exit_code([line(0.2)], [], size=0.01) == 0


def test_lost_work_counts_at_any_size():
    assert exit_code([line(0.9)], ["drain: 3 lost"], size=0.01) == 1


def test_reached_floors_give_exit_code_0():
    assert exit_code([line(0.9), line(0.1, floor=None)], [], size=1) == 0


def test_the_command_ends_with_1_and_names_the_floor(monkeypatch, capsys):
    monkeypatch.setitem(command.BENCHES, "drain", lambda plan: [line(0.2)])
    assert command.main(["--only", "drain"]) == 1
    seen = capsys.readouterr()
    assert "FAILS" in seen.out
    assert "floor missed: made up: ratio 0.20, floor 0.35" in seen.err


def test_the_command_ends_with_1_when_work_was_lost(monkeypatch, capsys):
    def broken(plan: Plan) -> list[Result]:
        check_executions("made up", [1, 2, 3], [1, 3, 3, 4])
        return [line(0.9)]

    monkeypatch.setitem(command.BENCHES, "drain", broken)
    assert command.main(["--only", "drain", "--size", "0.01"]) == 1
    assert "failed: made up: of 3 runs 1 lost, 1 duplicated, 1 unknown" in capsys.readouterr().err


def test_bad_arguments_of_the_command_are_refused(capsys):
    for arguments in (["--only", "drane"], ["--size", "0"], ["--rounds", "0"]):
        with pytest.raises(SystemExit) as ended:
            command.main(arguments)
        assert ended.value.code == 2
    assert "drane" in capsys.readouterr().err


def test_a_ratio_is_the_median_over_pairs():
    found = ratio("r", [(100, 50), (10, 9), (200, 100)], unit="runs/s", aim=0.6)
    assert (found.measured, found.spread, found.ours, found.bare) == (0.5, (0.5, 0.9), 50, 100)
    assert replace(found, floor=0.35).verdict == "ok"


def test_a_difference_is_the_median_over_pairs():
    found = above("d", [(1, 2), (1, 7), (1, 1)], unit="ms", floor=1, aim=0.5)
    assert (found.measured, found.spread) == (1, (0, 6))
    assert found.verdict == "ok"


def test_the_table_is_aligned():
    titles, *lines = table([line(0.2), line(12345.0)]).splitlines()
    assert [text.index(verdict) for text, verdict in zip(lines, ("FAILS", "aim"), strict=True)] == (
        [titles.index("verdict")] * 2
    )
    assert [text.index("runs/s") for text in lines] == [titles.index("unit")] * 2


def test_figures_have_few_digits():
    assert [short(value) for value in (36541.2, 12.34, 0.3512, -0.5, None)] == ["36,541", "12.3", "0.35", "-0.50", "-"]


def test_percentiles_are_computed():
    assert percentile([7], 0.99) == 7
    assert percentile([4, 1, 3, 2], 0.5) == 2
    assert percentile(list(range(1, 1001)), 0.99) == 990


@pytest.mark.slow
def test_sides_take_turns(tmp_path):
    turns = count()
    pairs = alternate(Plan(folder=tmp_path, rounds=3), lambda n: (n, next(turns)), lambda n: (n, next(turns)))
    assert pairs == [((0, 0), (0, 1)), ((1, 2), (1, 3)), ((2, 4), (2, 5))]


def test_early_duplicated_and_missing_starts_fail_the_bench():
    good = [Start(STEP * n, STEP * n + 700) for n in range(10, 20)]
    check_starts("made up", good, STEP)
    with pytest.raises(BenchFailed, match="1 of 11 starts were early, by up to 1 µs"):
        check_starts("made up", [*good, Start(STEP * 20, STEP * 20 - 1)], STEP)
    for bad in ([*good, good[3]], good[:4] + good[5:], []):
        with pytest.raises(BenchFailed, match="every slot once"):
            check_starts("made up", bad, STEP)
