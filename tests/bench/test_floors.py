"""Ratios have their floors in one committed file, which the command reads and writes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import floors
from bench.results import BenchFailed, Result, above, ratio
from bench.rounds import Plan
from tests.bench.test_bench import LINES


def line(name: str, measured: float) -> Result:
    return ratio(name, [(1.0, measured)], unit="runs/s")


def difference(name: str, measured: float) -> Result:
    return above(name, [(0.0, measured)], unit="ms", floor=3.0)


def measure(found: Result, plan: Plan) -> list[Result]:
    return [found]


Measure = Callable[..., int]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measure:
    """Run the command with floors of its own. Every bench measures the ratio 1.0, `drain` what the test gives."""
    file = tmp_path / "floors.json"
    file.write_text(json.dumps({"drain memory": 0.5, "gated memory": 0.9, "gone": 0.7}))
    monkeypatch.setattr(floors, "FILE", file)

    def run(*arguments: str, drain: float = 1.0) -> int:
        for name in command.BENCHES:
            found = line(f"{name} memory", drain if name == "drain" else 1.0)
            monkeypatch.setitem(command.BENCHES, name, partial(measure, found))
        return command.main(arguments)

    return run


def committed() -> dict[str, float]:
    return floors.read(floors.FILE)


# ── the committed file ───────────────────────────────────────────────────────────────────────────────────────


def test_each_committed_floor_is_of_a_line_that_a_bench_has():
    lines = [name for bench in floors.WITH_RATIOS for name in LINES[bench]]
    assert set(committed()) <= set(lines)
    assert all(floor > 0 for floor in committed().values())


def test_benches_cannot_give_a_ratio_another_floor():
    assert "floor" not in inspect.signature(ratio).parameters


def test_only_ratios_take_their_floors_from_the_file():
    of_file, without, fixed = floors.apply(
        [line("a", 1.0), line("b", 1.0), difference("a", 1.0)], {"a": 0.5, "other": 0.1}
    )
    assert (of_file.floor, without.floor, fixed.floor) == (0.5, None, 3.0)
    assert without.verdict == "printed"


# ── make bench ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ratio_below_its_floor_fails_and_the_message_has_the_command(bench, capsys):
    assert bench("--only", "drain,gated", drain=0.49) == 1
    (message,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("floor missed")]
    assert message == (
        'floor missed: drain memory: ratio 0.49, floor 0.50; to see it again: make bench ARGS="--only drain"'
    )


def test_a_ratio_at_its_floor_passes(bench):
    assert bench("--only", "drain,gated", drain=0.5) == 0


def test_floors_do_not_count_at_a_smaller_size(bench, capsys):
    assert bench("--only", "drain", "--size", "0.5", drain=0.1) == 0
    assert "floor missed" not in capsys.readouterr().err


def test_a_floor_without_a_line_is_reported_if_everything_was_measured(bench, capsys):
    assert bench() == 0
    assert "floors.json has a floor for 'gone', and no bench has that line" in capsys.readouterr().err
    assert bench("--only", "drain") == 0
    assert "'gone'" not in capsys.readouterr().err


# ── --write-floors ───────────────────────────────────────────────────────────────────────────────────────────


def test_floors_are_written_as_a_share_of_the_medians(bench, capsys):
    assert bench("--write-floors", drain=0.612345) == 0
    assert committed() == {f"{name} memory": 0.8 for name in floors.WITH_RATIOS} | {"drain memory": 0.49}
    told = capsys.readouterr().err
    assert "floor of drain memory: 0.50 before, 0.49 now" in told
    assert "floor of gone: 0.70 before, - now" in told


def test_floors_that_were_not_measured_stay(bench):
    assert bench("--write-floors", "--only", "drain", drain=1.0) == 0
    assert committed() == {"drain memory": 0.8, "gated memory": 0.9, "gone": 0.7}


def test_a_missed_floor_does_not_keep_new_ones_from_being_written(bench):
    assert bench("--write-floors", "--only", "drain", drain=0.1) == 0
    assert committed()["drain memory"] == 0.08


@pytest.mark.parametrize("arguments", [["--rounds", "4"], ["--size", "0.9"], ["--large"]])
def test_floors_are_not_written_after_too_little_work(bench, capsys, arguments):
    before = committed()
    assert bench("--write-floors", *arguments) == 2
    assert committed() == before
    assert "expected at least 5 rounds of size 1, without --large; got" in capsys.readouterr().err


def test_floors_are_not_written_after_lost_work(bench, capsys, monkeypatch):
    def broken(plan: Plan) -> list[Result]:
        raise BenchFailed("drain: 3 lost")

    before = committed()
    monkeypatch.setattr(command, "BENCHES", {"drain": broken})
    assert command.main(["--write-floors", "--only", "drain"]) == 1
    assert committed() == before
    assert "floors.json is not changed" in capsys.readouterr().err
