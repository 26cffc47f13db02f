"""`finds`: looks for a mutant of the SQL store with the machine and the oracle."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from onthedot.stores.protocol import Store
from onthedot.stores.sqlite import SqliteStore
from tests.contract.foci import ALL, focused
from tests.contract.machine import Machine, walk
from tests.contract.sql_mutants import Mutant, planted

FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


def finds(mutant: Mutant, empty: Path, examples: int, focus: str = ALL) -> BaseException | None:
    """The error that the machine finds in a store with this mistake, or None. The number of walks is `examples`, and
    they are the same every time. `empty` is a file with all tables and no rows."""

    class Hunt(Machine):
        def open_store(self, loop: asyncio.AbstractEventLoop) -> Store:
            self.folder = tempfile.TemporaryDirectory(dir=FAST)
            path = Path(self.folder.name) / "otd.db"
            shutil.copy(empty, path)
            return loop.run_until_complete(SqliteStore.open(path, inline=True))

        def teardown(self) -> None:
            super().teardown()
            self.folder.cleanup()

    with planted(mutant):
        try:
            walk(focused(Hunt, focus), examples, shrink=False, fixed=True)
        except Exception as error:  # noqa: BLE001 - a mutant may raise anything
            return error
    return None
