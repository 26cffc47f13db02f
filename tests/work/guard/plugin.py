"""Fixtures with a guard. For `pytest_plugins`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers import setup
from tests.servers.plugin import NOT_TESTED, need
from tests.work.guard.yard import Yard

PIDS = Path("/sys/fs/cgroup/pids")
UNIFIED = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    there = Yard()
    yield there
    await there.close()


@pytest.fixture
def pids_group() -> Iterator[str]:
    """A directory of the cgroup controller `pids` to make groups in."""
    if os.geteuid() != 0 or not PIDS.is_dir():
        pytest.skip(f"{NOT_TESTED}programs in cgroups: needs root, and cgroups of version 1 at {PIDS}")
    group = PIDS / f"onthedot-test-{os.getpid()}"
    group.mkdir()
    yield str(group)
    group.rmdir()


@pytest.fixture
def unified_group() -> Iterator[str]:
    """A directory of cgroups of version 2 to make groups in."""
    places = [place for place in UNIFIED if (place / "cgroup.controllers").exists()]
    if os.geteuid() != 0 or not places:
        pytest.skip(f"{NOT_TESTED}programs in cgroups of version 2: needs root, and them")
    group = places[0] / f"onthedot-test-{os.getpid()}"
    group.mkdir()
    yield str(group)
    group.rmdir()


@pytest.fixture
def root() -> None:
    """Only root can give programs users of their own."""
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED}isolation 'user': needs root")


@pytest.fixture
def sandbox() -> None:
    need(setup.BUBBLEWRAP)
