"""Control groups are made where the operator allows it, enforce their limits, and are removed afterwards."""

import os
from pathlib import Path

import pytest

from onthedot.clock import MILLISECOND, SECOND
from onthedot.model.task import Bounds
from onthedot.runners.guard.cgroups import Group, usable
from tests.runners.guard.guarded_programs import PYTHON, GuardedPrograms, is_alive

FILES = ("cgroup.procs", "pids.max", "memory.max", "memory.events", "memory.oom.group", "cgroup.kill")


@pytest.fixture
def group(tmp_path: Path, monkeypatch) -> Group:
    """A group in a directory that has the files of version 2, as the kernel would make them."""
    mkdir = Path.mkdir

    def made(self: Path) -> None:
        mkdir(self)
        for name in FILES:
            (self / name).touch()

    monkeypatch.setattr(Path, "mkdir", made)
    return Group([str(tmp_path)], "t.1", Bounds(memory=1 << 20, processes=7))


def test_a_group_writes_its_limits_and_reads_its_members(group: Group, tmp_path: Path):
    place = tmp_path / "t.1"
    assert (place / "pids.max").read_text() == "7"
    assert (place / "memory.max").read_text() == str(1 << 20)
    assert (place / "memory.oom.group").read_text() == "1"
    (place / "cgroup.procs").write_text("12\n34\n")
    assert group.members() == {12, 34}
    assert group.procs_files == [f"{place}/cgroup.procs"]
    group.kill()
    assert (place / "cgroup.kill").read_text() == "1"


def test_out_of_memory_is_read_from_the_kernels_counter(group: Group, tmp_path: Path):
    assert not group.was_out_of_memory()
    (tmp_path / "t.1" / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")
    assert not group.was_out_of_memory()
    (tmp_path / "t.1" / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert group.was_out_of_memory()


def test_only_writable_directories_are_used(tmp_path: Path):
    assert usable([str(tmp_path), "/proc/nowhere"]) == [str(tmp_path)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_a_real_group_limits_processes_and_is_removed_afterwards(pids_group: str):
    guarded = GuardedPrograms(cgroups=(pids_group,))
    try:
        end = await guarded.run(
            "sh", "-c", "sleep 300 & echo $! > left; cat /proc/self/cgroup", bounds=Bounds(processes=20)
        )
        assert (end.code, end.stragglers) == (0, 1)
        assert f"pids:/{Path(pids_group).name}/" in guarded.output()
        assert not is_alive(guarded.pid_in("left"))
        assert not [entry for entry in os.scandir(pids_group) if entry.is_dir()]
        eight = "for i in 1 2 3 4 5 6 7 8; do sleep 300 & done"
        end = await guarded.run("sh", "-c", eight, bounds=Bounds(processes=4))
        assert end.code != 0
        assert end.stragglers < 4
    finally:
        await guarded.close()


@pytest.mark.slow
async def test_a_real_group_of_version_2_is_killed_at_once_and_removed(unified_group: str):
    guarded = GuardedPrograms(cgroups=(unified_group,))
    try:
        leaves = (
            "setsid sh -c 'echo $$ > left; exec sleep 300' & while ! test -s left; do :; done; cat /proc/self/cgroup"
        )
        end = await guarded.run("sh", "-c", leaves)
        assert (end.code, end.stragglers) == (0, 1)
        assert f"0::/{os.path.basename(unified_group)}/" in guarded.output()
        assert not is_alive(guarded.pid_in("left"))
        end = await guarded.run("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", timeout=200 * MILLISECOND)
        assert end.kind == "timed_out"
        assert not [entry for entry in os.scandir(unified_group) if entry.is_dir()]
    finally:
        await guarded.close()


async def test_a_real_group_limits_the_memory_of_all_processes_together(memory_group: str):
    """Four processes take a third of the limit each, so none of them alone is over it."""
    takes = f"{PYTHON} -c 'import time; held = bytearray(24 << 20); time.sleep(5)' & all=\"$all $!\""
    four = f"for i in 1 2 3 4; do {takes}; done; for each in $all; do wait $each || exit 1; done"
    guarded = GuardedPrograms(cgroups=(memory_group,))
    try:
        end = await guarded.run("sh", "-c", four, bounds=Bounds(memory=64 << 20), timeout=30 * SECOND)
        assert end.kind == "out_of_memory"
        end = await guarded.run("sh", "-c", "exit 3", bounds=Bounds(memory=64 << 20))
        assert (end.kind, end.code) == ("exited", 3)
        assert not [entry for entry in os.scandir(memory_group) if entry.is_dir()]
    finally:
        await guarded.close()


def test_a_group_that_cannot_be_made_in_all_directories_leaves_none(tmp_path: Path):
    with pytest.raises(OSError, match="nowhere"):
        Group([str(tmp_path), str(tmp_path / "nowhere")], "t.1", Bounds())
    assert list(tmp_path.iterdir()) == []
