"""A node ends with a clear error if its file is damaged, truncated, newer than the program or read-only.

It never makes the file worse. SQLite has no checksums: a changed byte inside a value is not noticed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from onthedot.model.run import RunState
from onthedot.stores.sqlite import SqliteStore
from tests.processes import disks
from tests.processes.kit import PATIENCE, cluster
from tests.processes.test_bad_disks import not_tested
from tests.stores.sqlite.working import define, finished, register, reserve, submit

pytestmark = pytest.mark.slow

RUNS, DONE = 2_000, 500


async def fill_file(path: Path) -> None:
    """Store scheduled and succeeded runs in a new file."""
    store = await SqliteStore.open(path)
    record, node = await define(store), await register(store)
    await submit(store, record, RUNS)
    leases = (await reserve(store, node, DONE)).armed
    assert all(await store.finish([finished(store, lease) for lease in leases]))
    await store.leave(node)
    await store.close()


async def check_file(path: Path) -> None:
    """Check that the runs of `fill_file` are all stored."""
    store = await SqliteStore.open(path)
    assert await store.queries.count_runs() == {RunState.SCHEDULED: RUNS - DONE, RunState.SUCCEEDED: DONE}
    await store.close()


def damage_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    quarter = len(content) // 4
    content[quarter : 3 * quarter] = bytes(byte ^ 0xFF for byte in content[quarter : 3 * quarter])
    path.write_bytes(content)


def truncate_file(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def make_newer(path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (damage_the_middle, "the database is damaged"),
        (truncate_file, "the database is damaged"),
        (make_newer, "a newer onthedot wrote it; upgrade this one"),
    ],
)
async def test_a_node_with_a_bad_file_ends_with_a_clear_error(harm: Callable[[Path], None], says, tmp_path):
    with cluster(tmp_path) as nodes:
        await fill_file(nodes.database)
        backup = shutil.copy(nodes.database, tmp_path / "backup")
        harm(nodes.database)
        harmed = nodes.database.read_bytes()
        node = nodes.boot("node", stderr=subprocess.PIPE)
        assert node.popen.stderr is not None
        with node.popen.stderr as stderr:
            text = stderr.read()
        assert node.popen.wait(PATIENCE) == 1
        assert "StoreUnusable" in text
        assert says in text
        assert "restore a backup" in text or "upgrade" in text
        if harm is make_newer:
            assert nodes.database.read_bytes() == harmed  # unchanged
        shutil.copy(backup, nodes.database)
        await check_file(nodes.database)


OPEN = """
import asyncio, os, sys
from onthedot.model.errors import StoreError
from onthedot.stores.sqlite import SqliteStore
if sys.argv[2] == "nobody" and os.getuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(SqliteStore.open(sys.argv[1]))
except StoreError as error:
    print(type(error).__name__, error)
"""


def try_to_open(path: Path, *, as_nobody: bool) -> str:
    """Open the file in a child process and return its output; `as_nobody`: without the rights of root."""
    command = [sys.executable, "-c", OPEN, str(path), "nobody" if as_nobody else ""]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_a_read_only_file_is_refused_with_a_clear_error():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "otd.db"
        await fill_file(path)
        os.chmod(path, 0o444)
        os.chmod(folder, 0o755)  # noqa: S103 - the user "nobody" may read the file, but not write it
        before = path.read_bytes()
        said = try_to_open(path, as_nobody=True)
        assert said.startswith("StoreUnusable ")
        assert "expected a file and a folder that this user may write; change their rights" in said
        assert path.read_bytes() == before
        os.chmod(path, 0o600)
        await check_file(path)


async def test_a_read_only_disk_is_refused_with_a_clear_error(tmp_path, capsys):
    with disks.own_disk(tmp_path / "disk", megabytes=24) as disk:
        if disk is None:
            not_tested(capsys, "a disk that is mounted read-only")
            return
        await fill_file(disk / "otd.db")
        disks.remount(disk, "ro")
        said = try_to_open(disk / "otd.db", as_nobody=False)
        assert said.startswith("StoreUnusable ")
        assert "expected a file and a folder that this user may write" in said
        disks.remount(disk, "rw")
        await check_file(disk / "otd.db")
