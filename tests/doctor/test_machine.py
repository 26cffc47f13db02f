"""What a machine offers: told with its cost and its cure, and a fault only where it is asked for."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import pytest

import onthedot as otd
from onthedot.doctor import machine
from onthedot.doctor.findings import Finding
from onthedot.doctor.looking import wants_of
from onthedot.doctor.machine import Wants, look_at_machine
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Source, Step, Steps
from onthedot.runners import probes
from onthedot.runners.probes import Cgroups, Probe
from onthedot.runners.program.workspace import spool_of


@pytest.fixture
def nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bubblewrap", "git", "user_level", "container_engine"):
        monkeypatch.setattr(probes, name, lambda: Probe("missing", "not there"))
    monkeypatch.setattr(probes, "cgroups", lambda: Cgroups(0))


def by_name(wants: Wants) -> dict[str, Finding]:
    return {finding.name: finding for finding in look_at_machine(otd.Settings(), wants)}


def test_what_is_missing_is_told_with_its_cost_and_its_cure(nothing_works: None):
    found = by_name(Wants())
    for name in ("bubblewrap", "user", "cgroups", "containers", "git"):
        assert found[name].state == "missing"
        assert found[name].costs
        assert found[name].remedy
        assert not found[name].is_fault


def test_it_is_a_fault_where_it_is_asked_for(nothing_works: None):
    found = by_name(Wants(sandbox=True, user=True, containers=True, git=True))
    faults = {name for name, finding in found.items() if finding.is_fault}
    assert faults == {"bubblewrap", "user", "containers", "git"}


def test_what_works_costs_nothing(monkeypatch: pytest.MonkeyPatch, nothing_works: None):
    monkeypatch.setattr(probes, "git", lambda: Probe("ok", "git version 2"))
    assert by_name(Wants(git=True))["git"] == Finding("git", "ok", "git version 2", wanted=True)


def test_what_a_configuration_asks_for():
    jobs = [
        Job(name="a", task=Command(argv=("true",)), isolation="sandbox"),
        Job(name="b", task=Container(image="alpine")),
        Job(
            name="c",
            task=Steps(steps=(Step(name="s", script="make"),), source=Source(git="https://x/y")),
            isolation="user",
        ),
    ]
    assert wants_of(otd.Settings(), jobs) == Wants(True, True, True, True, True)
    assert wants_of(otd.Settings(), jobs[1:2]) == Wants(containers=True)
    assert wants_of(otd.Settings(), []) == Wants()


def test_too_few_open_files_are_a_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    found = machine.open_files(otd.Settings(seats=64))
    assert (found.state, found.found, found.remedy, found.is_fault) == ("broken", "256", "ulimit -n 4096", True)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert machine.open_files(otd.Settings(seats=64)).state == "ok"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert machine.open_files(otd.Settings()).found == "any number"


def test_room_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = machine.spool(tmp_path / "not" / "yet" / "there", wanted=True)
    assert (found.state, found.is_fault) == ("ok", False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(machine, "LEAST_DISK", 1 << 62)
    assert machine.spool(tmp_path, wanted=True).is_fault
    assert not machine.spool(tmp_path, wanted=False).is_fault


def test_a_spool_that_programs_users_cannot_reach():
    with tempfile.TemporaryDirectory() as home:
        spool = Path(home, "spool")
        found = machine.spool(spool, wanted=True, passed=True)
        assert (found.state, found.remedy) == ("broken", f"chmod o+x {home}")
        assert machine.spool(spool, wanted=True).state == "ok"
        Path(home).chmod(0o711)
        assert machine.spool(spool, wanted=True, passed=True).state == "ok"


def test_a_spool_that_may_not_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = machine.spool(tmp_path, wanted=True)
    assert (found.state, found.found) == ("broken", f"{tmp_path}: may not be written to")


def test_the_spool_is_in_the_folder_for_state(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert spool_of(otd.Settings()) == Path("/state/onthedot/spool")


@pytest.mark.parametrize(
    ("groups", "state", "words"),
    [
        (Cgroups(2, frozenset({"memory", "pids", "cpu"}), writable=True), "ok", "v2, cpu, memory, pids; writable"),
        (Cgroups(2, frozenset({"memory", "pids"})), "broken", "v2, memory, pids; not writable"),
        (Cgroups(2, frozenset({"cpu"}), writable=True), "broken", "v2, cpu; without memory and pids"),
        (Cgroups(1, frozenset(), writable=True), "broken", "v1, no controllers; without memory and pids"),
        (Cgroups(0), "missing", "no control groups"),
    ],
)
def test_control_groups(groups: Cgroups, state: str, words: str):
    found = machine.control_groups(groups)
    assert (found.state, found.found) == (state, words)


def test_zone_data(monkeypatch: pytest.MonkeyPatch):
    assert machine.zones().state == "ok"
    monkeypatch.setattr(machine, "tzdata_version", lambda: "unknown")
    assert (machine.zones().state, machine.zones().is_fault) == ("broken", False)

    def missing(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(machine, "ZoneInfo", missing)
    assert (machine.zones().state, machine.zones().is_fault) == ("missing", True)
