"""The comparison of two revisions computes ratios and a verdict, and runs each side with its own sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import cpu
from bench.compare import ROOT, Comparison, Row, Side, error, judge, main, quartiles, table, take_side
from bench.results import BenchFailed
from bench.workload import Usage

TINY = ["--store", "sqlite", "--rounds", "1", "--size", "0.02"]


def took(client: float, server: float = 0.0, *, count: int = 10, wall: float = 1.0, late: float | None = None) -> Usage:
    return Usage(count, client, server, wall, late)


# ── ratios ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_ratio_is_the_median_of_cpu_time_over_rounds():
    row = Row("made up", [(took(1.0), took(1.1)), (took(4.0), took(4.0)), (took(1.0), took(9.0))])
    assert row.ratios == pytest.approx([1.1, 1.0, 9.0])
    assert row.ratio == pytest.approx(1.1)
    assert row.costs == pytest.approx((100_000, 400_000))


def test_the_cost_is_cpu_time_of_client_and_server_per_item():
    row = Row("made up", [(took(0.5, 0.5), took(0.5, 2.5, count=20))])
    assert row.ratio == pytest.approx(1.5)
    assert row.unit == "µs CPU"


def test_wall_time_is_shown_but_does_not_count():
    row = Row("made up", [(took(1.0, wall=1.0), took(1.0, wall=4.0))])
    assert (row.ratio, row.wall_ratio, row.per_second) == (1.0, 4.0, (10.0, 2.5))


def test_the_cost_of_lateness_is_its_delay():
    row = Row("made up", [(took(1.0, late=2.0), took(5.0, late=3.0))])
    assert (row.ratio, row.unit) == (1.5, "ms late")


def test_quartiles_and_standard_error_are_computed():
    assert quartiles([7]) == (7, 7)
    assert quartiles([5, 1, 3, 2, 4]) == (2, 4)
    assert error([1.0, 1.0, 1.0]) == 0
    assert error([0.9, 0.95, 1.0, 1.05, 1.1] * 20) == pytest.approx(0.0093)
    assert error([1.0, 1.0, 1.0, 1.0, 50.0]) == 0, "expected one outlier to be ignored"


# ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_verdict_has_the_geometric_mean_of_all_rows():
    verdict = judge({"twice as fast": 0.5, "as fast": 1.0, "10 % slower": 1.1})
    assert verdict.overall == pytest.approx(0.55 ** (1 / 3))
    assert verdict.passed
    assert str(verdict) == "ok: geometric mean 0.819 (limit 1.05), no row above 1.15"


@pytest.mark.parametrize(
    ("ratios", "passed"),
    [
        ({"a": 1.05, "b": 1.05}, True),
        ({"a": 1.06, "b": 1.05}, False),
        ({"a": 1.15, "b": 0.9}, True),
        ({"a": 1.151, "b": 0.2}, False),
        ({"a": 1.0}, True),
        ({}, False),
    ],
)
def test_the_verdict_obeys_both_limits(ratios, passed):
    assert judge(ratios).passed is passed


def test_a_verdict_names_slow_rows():
    verdict = judge({"drain sqlite": 1.3, "submit sqlite": 1.0})
    assert str(verdict) == (
        "FAILS: geometric mean 1.140 (limit 1.05); all rows together are too slow; drain sqlite 1.30 (limit 1.15)"
    )


def test_a_failed_turn_fails_the_comparison():
    assert str(judge({"a": 1.0}, ["b: 3 lost"])) == "FAILS: geometric mean 1.000 (limit 1.05); b: 3 lost"
    assert str(judge({}, ["b: 3 lost"])) == "FAILS: nothing was measured; b: 3 lost"


def test_the_table_marks_slow_rows_and_is_aligned():
    rows = [Row("slow", [(took(1.0), took(2.0))]), Row("late and fast", [(took(1.0, late=2.0), took(1.0, late=1.0))])]
    titles, slow, fast = table(rows).splitlines()
    assert slow.endswith("SLOW")
    assert "SLOW" not in fast
    end = titles.index("ratio") + len("ratio")
    assert (slow[:end].split()[-1], fast[:end].split()[-1]) == ("2.000", "0.500")


def test_a_slow_row_is_measured_once_more(monkeypatch, tmp_path):
    found = iter([[Row("a", [(took(1.0), took(2.0))])], [Row("a", [(took(1.0), took(1.0)), (took(1.0), took(1.0))])]])
    monkeypatch.setattr(Comparison, "measure", lambda *_: next(found))
    sides = (Side("old", tmp_path, "old"), Side("new", tmp_path, "new"))
    (row,) = Comparison(sides, tmp_path, None, 1.0).measure_twice_if_slow("a", "sqlite", 1)
    assert (len(row.rounds), row.ratio) == (3, 1.0)


# ── the measurement ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_side_is_a_copy_of_a_revision_or_of_a_folder(tmp_path):
    old, new = take_side("old", "HEAD", tmp_path), take_side("new", str(ROOT), tmp_path)
    for side in (old, new):
        assert side.sources == tmp_path / side.name
        assert (side.sources / "onthedot" / "__init__.py").is_file()
    assert new.label == str(ROOT)
    with pytest.raises(BenchFailed, match="git rev-parse"):
        take_side("none", "no-such-revision", tmp_path)


@pytest.mark.slow
def test_a_comparison_writes_all_rows_to_json(tmp_path, capsys):
    told = tmp_path / "told.json"
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    ended = main([str(ROOT), *TINY, "--only", "submit,gated one key", "--json", str(told), "--dir", str(tmp_path)])
    written = json.loads(told.read_text())
    assert [row["name"] for row in written["rows"]] == [
        "gated one key sqlite",
        "submit single sqlite",
        "submit bulk sqlite",
    ]
    assert written["failures"] == []
    assert ended == (0 if written["passed"] else 1)
    seen = capsys.readouterr()
    assert written["verdict"] in seen.out
    assert "1 of 2, sqlite: gated one key" in seen.err
    assert list(tmp_path.iterdir()) == [told], "expected all temporary folders to be removed"
    assert before is None or os.sched_getaffinity(0) == before


@pytest.mark.slow
def test_a_slow_arm_fails_the_comparison(tmp_path, capsys):
    slow = tmp_path / "slow"
    shutil.copytree(ROOT / "src", slow / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (slow / "src" / "onthedot" / "stores" / "connect.py").open("a") as source:
        source.write(SLOW_ARM)
    assert main([str(ROOT), "--new", str(slow), *TINY, "--only", "gated overlap", "--dir", str(tmp_path)]) == 1
    assert "gated overlap sqlite" in capsys.readouterr().out.splitlines()[-1]


SLOW_ARM = """

_open = open_store


async def open_store(url, **options):
    import time
    store = await _open(url, **options)
    arm = store.arm

    async def slow_arm(*arguments, **more):
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        return await arm(*arguments, **more)

    store.arm = slow_arm
    return store
"""


@pytest.mark.slow
def test_a_broken_side_is_named(tmp_path, capsys):
    broken = tmp_path / "broken"
    (broken / "src" / "onthedot").mkdir(parents=True)
    (broken / "src" / "onthedot" / "__init__.py").write_text("raise RuntimeError('broken on purpose')\n")
    assert main([str(ROOT), "--new", str(broken), *TINY, "--only", "drain", "--dir", str(tmp_path)]) == 1
    assert "drain sqlite, new: RuntimeError: broken on purpose" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="CPU time of others is read from /proc")
def test_cpu_time_of_children_counts_during_and_after_their_life():
    before, own = cpu.family_of(os.getpid()), time.process_time()
    code = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nsys.stdin.readline()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        living = cpu.family_of(os.getpid())
    ended = cpu.family_of(os.getpid())
    assert living - before >= 0.3
    assert ended - before >= 0.28, "expected the CPU time of an ended child, in steps of 10 ms"
    assert time.process_time() - own < 0.3
