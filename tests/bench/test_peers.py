"""The comparison with peers: what is chosen, the order of measurements, and what the report says."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.peers import driver as driver_module
from bench.peers import plots
from bench.peers.__main__ import Choice, machine
from bench.peers.catalog import BARE, OURS, STORES, SYSTEMS, System
from bench.peers.child import Lacking
from bench.peers.driver import Driver, Measured
from bench.peers.environments import Environments
from bench.peers.figures import FIGURES, MEASUREMENTS, Scene, check, measures
from bench.peers.interruption import Interruption
from bench.peers.report import Row, as_json, rows_of, tables
from bench.results import BenchFailed
from bench.rounds import Plan

ROOT = Path(__file__).parents[2]


def system(name: str, *stores: str, keeps_less: str = "") -> System:
    return System(
        name=name, title=name.capitalize(), node=name, environment="", stores=dict.fromkeys(stores or ("memory",), 10),
        keeps_less={"memory": keeps_less} if keeps_less else {},
    )  # fmt: skip


# ── what is chosen ───────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_measured_without_a_choice():
    assert Choice.read("") == Choice() == Choice(STORES, SYSTEMS, tuple(MEASUREMENTS))


def test_a_choice_keeps_onthedot_and_the_order_of_the_catalog():
    choice = Choice.read("peer=pgqueuer,store=postgres,figure=submit")
    assert choice.stores == ("postgres",)
    assert [one.name for one in choice.systems] == [OURS, "pgqueuer"]
    assert choice.measurements == ("submit",)
    several = Choice.read("store=redis, store=sqlite, figure=first, figure=drain, peer=huey, peer=bare")
    assert several.stores == ("sqlite", "redis")
    assert [one.name for one in several.systems] == [OURS, BARE, "huey"]
    assert several.measurements == ("drain1", "drain2", "drain4", "first")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store=oracle", "store= one of memory, sqlite, postgres, redis; got 'oracle'"),
        ("pgqueuer", "expected store=, peer= or figure=, got 'pgqueuer'"),
        ("figure=speed", "figure= one of submit, "),
    ],
)
def test_a_wrong_choice_is_refused_with_what_is_known(text, message):
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        Choice.read(text)


def test_systems_that_do_not_work_are_left_out_and_stores_that_nobody_else_is_on():
    choice = Choice().limited([OURS, "pgqueuer", "apscheduler3"])
    assert [one.name for one in choice.systems] == [OURS, "apscheduler3", "pgqueuer"]
    assert choice.stores == ("memory", "sqlite", "postgres")


# ── the catalog ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_system_has_a_program_and_an_environment_that_is_locked():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    makefile = (ROOT / "Makefile").read_text()
    for one in SYSTEMS:
        assert (ROOT / "bench" / "peers" / "nodes" / f"{one.node}.py").is_file()
        assert set(one.stores) <= set(STORES)
        if one.environment:
            assert one.environment in groups
            assert f"--group pyproject.toml:{one.environment} " in makefile
            assert f"requirements-{one.environment}.txt" in makefile
    names = [one.name for one in SYSTEMS]
    assert len(set(names)) == len(names)
    assert all(any(store in one.stores for one in SYSTEMS if one.name not in (OURS, BARE)) for store in STORES)


def test_a_single_process_is_not_measured_as_several():
    [ours] = [one for one in SYSTEMS if one.name == OURS]
    assert [name for name in MEASUREMENTS if not measures(ours, "memory", name)] == ["drain2", "drain4"]
    assert all(measures(ours, "postgres", name) for name in MEASUREMENTS)
    [bare] = [one for one in SYSTEMS if one.name == BARE]
    assert [name for name in MEASUREMENTS if measures(bare, "sqlite", name)] == ["drain1", "drain2", "drain4"]
    [pgqueuer] = [one for one in SYSTEMS if one.name == "pgqueuer"]
    assert not measures(pgqueuer, "redis", "submit")


def test_every_figure_comes_from_one_measurement():
    assert [figure.name for figure in FIGURES] == [name for figures, _ in MEASUREMENTS.values() for name in figures]


@pytest.mark.parametrize(
    ("numbers", "message"), [([0, 1], "1 lost, 0 doubled"), ([0, 1, 1, 2], "0 lost, 1 doubled"), ([], "3 lost")]
)
def test_lost_and_doubled_jobs_fail_a_measurement(numbers, message, tmp_path):
    scene = Scene(system("made-up"), "memory", Place(), Plan(folder=tmp_path), ["made", "up"])
    check(scene, 3, [2, 0, 1])
    with pytest.raises(BenchFailed, match=f"made-up on memory: of 3 jobs {message}"):
        check(scene, 3, numbers)


# ── the order of measurements ────────────────────────────────────────────────────────────────────────────────


class Place:
    """A place that needs no server, and counts its stores."""

    def __init__(self) -> None:
        self.stores: list[str] = []

    def create(self) -> str:
        self.stores.append(f"store {len(self.stores)}")
        return self.stores[-1]

    def drop(self, url: str) -> None:
        self.stores.remove(url)

    def settle(self, url: str) -> None: ...

    def cpu_seconds(self) -> float:
        return 0.0


class Bench:
    """A driver whose measurements are made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *, rounds: int = 3) -> None:
        self.place = Place()
        self.order: list[str] = []
        self.raised: dict[str, Exception] = {}
        self.interruption = Interruption()
        self.interrupted_by = ""
        self.ends_at = time.monotonic() + 60
        self._folder = folder
        self._rounds = rounds
        monkeypatch.setattr(driver_module, "place_of", self._place_of)
        monkeypatch.setattr(driver_module, "MEASUREMENTS", {"submit": (("submit",), self._measure)})

    def _place_of(self, store: str, folder: Path) -> Bench:
        return self

    def __enter__(self) -> Place:
        return self.place

    def __exit__(self, *_: object) -> None:
        assert not self.place.stores, "stores that were not removed"

    async def _measure(self, scene: Scene) -> dict[str, float]:
        self.order.append(scene.system.name)
        if scene.system.name in self.raised:
            raise self.raised[scene.system.name]
        if scene.system.name == self.interrupted_by:
            self.interruption()
            self.interruption()
            await asyncio.sleep(60)
        scene.notes["seed"] = scene.plan.seed
        return {"submit": float(len(self.order))}

    def run(self, *systems: System) -> Measured:
        plan = Plan(folder=self._folder, rounds=self._rounds)
        driver = Driver(plan, Environments(self._folder), self.interruption, self.ends_at)
        driver.run(["memory"], systems, ["submit"])
        return driver.measured


@pytest.fixture
def bench(monkeypatch, tmp_path) -> Bench:
    return Bench(monkeypatch, tmp_path)


@pytest.mark.slow  # garbage is collected before each measurement
def test_systems_take_turns_in_each_round_and_another_one_begins(bench):
    measured = bench.run(system(OURS), system("a"), system("b"))
    assert bench.order == [OURS, "a", "b", "a", "b", OURS, "b", OURS, "a"]
    assert measured.values["memory", "submit", OURS] == {0: 1.0, 1: 6.0, 2: 8.0}
    assert [notes["seed"] for notes in measured.notes["memory", "submit", "a"].values()] == [1, 2, 3]
    assert not measured.failures
    assert not measured.has_failed


@pytest.mark.slow
def test_a_system_that_fails_twice_is_left_out(bench):
    bench.raised["a"] = BenchFailed("a on memory: 3 lost")
    measured = bench.run(system(OURS), system("a"))
    assert bench.order.count("a") == 2
    assert bench.order.count(OURS) == 3
    assert measured.failures == ["submit, a on memory: 3 lost"] * 2
    assert not measured.has_failed


@pytest.mark.slow
def test_a_system_that_lacks_a_figure_is_asked_once(bench):
    bench.raised["a"] = Lacking("submit: this system does not have it")
    measured = bench.run(system(OURS), system("a"))
    assert bench.order.count("a") == 1
    assert measured.failures == []


@pytest.mark.slow
def test_a_measurement_that_hangs_is_a_failure(bench):
    bench.raised["a"] = TimeoutError()
    assert bench.run(system("a")).failures == ["submit, a on memory: not done after 120 s"] * 2


@pytest.mark.slow
def test_a_failure_of_onthedot_fails_the_bench(bench):
    bench.raised[OURS] = BenchFailed("onthedot on memory: 1 doubled")
    assert bench.run(system(OURS), system("a")).has_failed


def test_nothing_begins_when_the_time_is_over(bench):
    bench.ends_at = time.monotonic() - 1
    measured = bench.run(system(OURS))
    assert (bench.order, measured.stopped, measured.is_interrupted) == ([], "the time was over", False)


@pytest.mark.slow
def test_what_was_measured_before_a_signal_is_kept(bench):
    bench.interrupted_by = "b"
    measured = bench.run(system(OURS), system("a"), system("b"))
    assert (measured.stopped, measured.is_interrupted) == ("it was stopped", True)
    assert set(measured.values) == {("memory", "submit", OURS), ("memory", "submit", "a")}


@pytest.mark.slow
def test_nothing_is_measured_after_a_signal(bench):
    bench.interruption()
    assert bench.run(system(OURS)).is_interrupted
    assert bench.order == []


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────

OURS_AND_OTHERS = (system(OURS), system(BARE), system("a"), system("b"), system("c", keeps_less="it forgets"))


def rows() -> list[Row]:
    """Rates of five systems, and times of two."""
    measured = Measured()
    rates = {OURS: (50, 10, 100), BARE: (200, 100, 200), "a": (100, 100, 100), "b": (70, 80, 90), "c": (900, 900, 900)}
    for name, values in rates.items():
        measured.values["memory", "submit", name] = dict(enumerate(map(float, values)))
    measured.values["memory", "drain1", OURS] = {0: 100.0}
    measured.notes["memory", "drain1", OURS] = {0: {"worker_cpu_us": 12.0, "server_cpu_us": 3.0}}
    measured.values["memory", "herd", OURS] = {0: 3.0, 1: 5.0}
    measured.values["memory", "herd", "a"] = {1: 10.0}
    measured.notes["memory", "herd", "a"] = {1: {"herd_first": -20.0}}
    return rows_of(measured, STORES, OURS_AND_OTHERS)


def test_a_ratio_is_the_median_over_rounds_that_both_have():
    submit, drain, herd = rows()
    assert {name: cell.ratio for name, cell in submit.cells.items()} == {
        OURS: None, BARE: 0.25, "a": 0.5, "b": pytest.approx(50 / 70), "c": pytest.approx(50 / 900),
    }  # fmt: skip
    assert herd.cells["a"].ratio == 0.5
    assert list(drain.cells) == [OURS]


def test_the_best_peer_is_neither_a_limit_nor_one_that_promises_less():
    submit, drain, herd = rows()
    assert submit.best is submit.cells["a"]
    assert herd.best is herd.cells["a"]
    assert drain.best is None


def test_the_table_has_a_row_for_each_figure_and_the_remarks():
    titles, submit, drain, herd, *remarks = tables(rows(), {OURS: "1.0", "a": "2.0"}).splitlines()
    assert titles.split("  ")[0] == "memory"
    assert [" ".join(part.split()) for part in titles.split("  ") if part.strip()] == [
        "memory", "Onthedot", "A 2.0", "B", "C", "Bare", "onthedot : best peer",
    ]  # fmt: skip
    assert submit.split("  ")[0] == "single submit, /s"
    assert "100 (0.50)" in submit
    assert submit.endswith("0.50 of A")
    assert drain.endswith("  -")
    assert herd.endswith("0.50 × as long as A")
    assert remarks == [
        "C: it forgets, so it does not count as the best peer",
        "CPU per job with 1 process, worker + server, µs: Onthedot 12 + 3",
        "A started up to 20 ms early",
    ]


def test_json_has_every_round():
    submit, _, herd = json.loads(json.dumps(as_json(rows())))
    assert submit["best_peer"] == "a"
    assert submit["ratio"] == 0.5
    assert submit["systems"][OURS] == {"median": 50.0, "rounds": [50.0, 10.0, 100.0], "ratio": None, "notes": {}}
    assert herd["systems"]["a"]["notes"] == {"herd_first": -20.0}
    assert not herd["more_is_better"]


# ── plots ────────────────────────────────────────────────────────────────────────────────────────────────────

SVG = "{http://www.w3.org/2000/svg}"


def test_a_sheet_has_a_bar_for_each_value_and_the_best_is_first(tmp_path):
    [file] = plots.write(rows(), tmp_path / "new")
    assert file == tmp_path / "new" / "peers-memory.svg"
    sheet = ElementTree.fromstring(file.read_text())  # noqa: S314 - our own
    submit, drain, herd = sheet.findall(f"{SVG}g")
    bars = submit.findall(f"{SVG}rect")
    assert [bar.get("class") for bar in bars] == ["peer", "bare", "peer", "peer", "ours"]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert widths == sorted(widths, reverse=True)
    assert [float(bar.get("width", "")) for bar in herd.findall(f"{SVG}rect")] == sorted(
        float(bar.get("width", "")) for bar in herd.findall(f"{SVG}rect")
    )
    assert len(drain.findall(f"{SVG}rect")) == 1
    assert "C *" in [text.text for text in submit.findall(f"{SVG}text")]
    assert [text.text for text in sheet.findall(f"{SVG}text")] == ["* it forgets"]


def test_names_are_escaped():
    measured = Measured()
    measured.values["memory", "submit", "a<b"] = {0: 1.0}
    sheet = plots.sheet(rows_of(measured, STORES, [system("a<b")]))
    assert "A<b" not in sheet
    assert "A&lt;b" in sheet


def test_a_value_of_zero_still_has_a_bar():
    measured = Measured()
    measured.values["memory", "herd", "a"] = {0: 0.0}
    assert 'width="1"' in plots.sheet(rows_of(measured, STORES, [system("a")]))


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_header_names_what_figures_depend_on(tmp_path):
    header = machine(Plan(folder=tmp_path))
    assert header.startswith("onthedot bench-peers: size 1, rounds 5, seed 1, Python 3.")
    assert str(tmp_path) not in header


@pytest.mark.slow
@pytest.mark.parametrize(
    "store", ["memory", "redis", *(pytest.param(store, marks=pytest.mark.soak) for store in ("sqlite", "postgres"))]
)
def test_onthedot_is_compared_with_its_bare_limit_without_any_peer(store, tmp_path):
    told, some = tmp_path / "told.json", f"store={store},peer=bare,peer=pgqueuer,figure=submit,figure=drain1"
    command = [
        sys.executable, "-m", "bench.peers", "--only", some,
        "--size", "0.01", "--rounds", "1", "--json", str(told), "--plots", str(tmp_path / "plots"),
        "--dir", str(tmp_path), "--environments", str(tmp_path / "none"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped: pgqueuer: there is no environment in none; `make bench-peers` makes it" in done.stderr
    written = json.loads(told.read_text())
    assert written["failures"] == []
    assert {row["figure"]: set(row["systems"]) for row in written["rows"]} == {
        "submit": {OURS, BARE} if store in ("postgres", "redis") else {OURS},
        "drain1": {OURS, BARE},
    }
    assert [file.name for file in (tmp_path / "plots").iterdir()] == [f"peers-{store}.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plots", "told.json"], "its folders are gone"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_a_signal_ends_all_processes_and_what_was_measured_is_printed(tmp_path):
    some = "store=sqlite,peer=bare,figure=drain1"
    command = [
        sys.executable, "-m", "bench.peers", "--only", some, "--size", "0.01", "--rounds", "100",
        "--dir", str(tmp_path),
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stderr is not None
        assert driver.stderr.readline().startswith("sqlite, drain1, round 1: bare ")
        driver.terminate()
        driver.terminate()
        told, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "throughput, 1 process, /s" in told
    assert "not everything was measured: it was stopped" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == [], "its folders are gone"
    assert not [line for line in command_lines() if str(tmp_path) in line]


def command_lines() -> Iterator[str]:
    """Yield those of all processes."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended since
            yield file.read_text(errors="replace").replace("\0", " ")
