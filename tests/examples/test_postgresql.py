"""The example on PostgreSQL: the program runs, and so does the first sketch of onthedot, word for word."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

import onthedot as otd
from tests.examples.loading import EXAMPLES
from tests.servers import postgres as servers
from tests.servers.postgres import PostgresServer

PROGRAM = EXAMPLES / "postgresql" / "receipts.py"
SKETCH = Path(__file__).with_name("first_sketch.txt")

CREATE = "create table orders (id serial primary key, receipted bool default false)"


@pytest.fixture
def shop(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server with a database `shop`, and environment variables for it, because the URL says only localhost."""
    url = servers.create_database(postgres_server.url(), name="shop")
    with psycopg.connect(url) as db:
        monkeypatch.setenv("PGPORT", str(db.info.port))
        monkeypatch.setenv("PGUSER", db.info.user)
        monkeypatch.setenv("PGPASSWORD", db.info.password)
    return url


@pytest.mark.slow
def test_the_program_prints_what_it_promises(shop: str, tmp_path: Path):
    ended = subprocess.run(
        [sys.executable, PROGRAM], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    expected = [line.removeprefix("# prints: ") for line in PROGRAM.read_text().splitlines() if "# prints: " in line]
    assert ended.stdout.splitlines() == expected


@pytest.mark.slow
async def test_the_first_sketch_runs_word_for_word(shop: str):
    """Only the columns of an order are filled in, which the sketch leaves open."""
    text = SKETCH.read_text()
    assert "insert into orders …" in text
    text = text.replace("insert into orders …", "insert into orders default values returning id")
    code = compile(text, str(SKETCH), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert code.co_flags & inspect.CO_COROUTINE
    async with asyncpg.create_pool(shop, min_size=1) as pool:
        await pool.execute(CREATE)
        names: dict[str, Any] = {"pool": pool}
        begun = time.monotonic()
        await eval(code, names)  # noqa: S307 - our own text
        assert 5 <= time.monotonic() - begun < 30
        assert await pool.fetchval("select receipted from orders where id = $1", names["oid"])
        async with names["sched"] as sched:
            assert await names["run"].state() is otd.RunState.SUCCEEDED
            report = await sched.trigger("nightly_report")
            assert await report.result(timeout="30s") == {"pages": 100}


@pytest.mark.slow
def test_the_program_runs_again(shop: str, tmp_path: Path):
    """Also for a user who is called like the store's schema: that schema comes first in its search path."""
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, PROGRAM], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=50,
            check=False,
        )  # fmt: skip
        assert ended.stdout.splitlines() == ["receipted: True", "reported"], ended.stderr
    with psycopg.connect(shop) as db:
        found = db.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'orders'").fetchall()
    assert found == [("public",)]
