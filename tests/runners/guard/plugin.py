"""Fixtures with a guard, and with what a guard needs of the machine. For `pytest_plugins`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.runners.guard.guarded_programs import GuardedPrograms
from tests.servers import setup
from tests.servers.plugin import NOT_TESTED, need

PIDS = Path("/sys/fs/cgroup/pids")
MEMORY_VARIABLE = "OTD_TEST_MEMORY_CGROUP"
UNIFIED = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedPrograms]:
    programs = GuardedPrograms()
    yield programs
    await programs.close()


@pytest.fixture
def pids_group() -> Iterator[str]:
    """A directory of the cgroup controller `pids` in which tests make groups."""
    if os.geteuid() != 0 or not PIDS.is_dir():
        pytest.skip(f"{NOT_TESTED}programs in cgroups: needs root, and cgroups of version 1 at {PIDS}")
    group = PIDS / f"onthedot-test-{os.getpid()}"
    group.mkdir()
    yield str(group)
    group.rmdir()


@pytest.fixture
def unified_group() -> Iterator[str]:
    """A directory of cgroups of version 2 in which tests make groups."""
    places = [place for place in UNIFIED if (place / "cgroup.controllers").exists()]
    if os.geteuid() != 0 or not places:
        pytest.skip(f"{NOT_TESTED}programs in cgroups of version 2: needs root and a machine with these")
    group = places[0] / f"onthedot-test-{os.getpid()}"
    group.mkdir()
    yield str(group)
    group.rmdir()


@pytest.fixture
def memory_group() -> Iterator[str]:
    """A directory of cgroups, of either version, that limit memory, in which tests make groups.

    If this process is in a group of somebody else, that group limits it. A group beside it would evade the limit, and a
    group inside it would share out memory that is not ours. So the fixture makes groups only if this process is in
    none. Otherwise set the directory in the environment.
    """
    given = os.environ.get(MEMORY_VARIABLE)
    parent = Path(given) if given else _own_memory()
    if parent is None or not os.access(parent, os.W_OK):
        needed = f"give a directory of cgroups with the controller memory in {MEMORY_VARIABLE}"
        pytest.skip(
            f"{NOT_TESTED}the memory of a whole tree bounded by cgroups: {needed}, and be allowed to write there"
        )
    group = parent / f"onthedot-test-{os.getpid()}"
    group.mkdir()
    if (group / "cgroup.subtree_control").exists():
        (group / "cgroup.subtree_control").write_text("+memory +pids")
    yield str(group)
    group.rmdir()


def _own_memory() -> Path | None:
    """Returns the root of the controller if this process is in none of its groups."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(",") and group == "/":
            return Path("/sys/fs/cgroup/memory")
    return None


@pytest.fixture
def root() -> None:
    """Only root can give programs users of their own."""
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED}isolation 'user': needs root")


@pytest.fixture
def sandbox() -> None:
    need(setup.BUBBLEWRAP)
