"""Attacks through the store: every text of a stored definition and every text column is read as data."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.model.job import Job
from onthedot.model.job_json import Unreadable, decode, encode
from tests.model.test_job_json import FULL, PLAIN
from tests.outside.attacks import ATTACKS, PICKLE

DATABASE = "rows.db"


def planted(value: Any, text: str) -> Iterator[Any]:
    """Copies of the JSON with this text in place of one value, or as one more key."""
    match value:
        case dict():
            for key, inner in value.items():
                for other in planted(inner, text):
                    yield value | {key: other}
            yield value | {text: text}
        case list():
            for index, inner in enumerate(value):
                for other in planted(inner, text):
                    yield [*value[:index], other, *value[index + 1 :]]
        case _:
            yield text


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("job", [PLAIN, FULL], ids=["plain", "full"])
def test_a_stored_definition_is_read_as_data(job, attack):
    tried = 0
    for data in planted(json.loads(encode(job)), ATTACKS[attack]):
        tried += 1
        try:
            read = decode(json.dumps(data))
        except Unreadable:
            continue
        assert isinstance(read, Job)
    assert tried > 3
    with pytest.raises(Unreadable):
        decode(ATTACKS[attack])


def program() -> otd.Scheduler:
    sched = otd.Scheduler(f"sqlite:///{DATABASE}", settings=otd.Settings(processes=1, grace=100_000))

    @sched.job(schedule=otd.cron("0 9 1 1 *"), retry=otd.Retry(2, delay="1h"), concurrency=otd.Limit(1))
    async def echo(ctx: otd.Context, text: str = "") -> str:
        await ctx.checkpoint(text)
        ctx.log(text)
        ctx.progress(1, of=2)
        return text if ctx.attempt == 1 and text != "fail" else str(1 // 0)

    return sched


async def fill() -> None:
    """Put rows into most tables: a run that succeeded, one in backoff, one that waits."""
    async with program() as sched:
        await (await sched.submit("echo", {"text": "done"}, key="k")).result(timeout="20s")
        await sched.submit("echo", {"text": "fail"})
        await sched.submit("echo", {"text": "later"}, delay="1h")
        await sched.skip_next("echo")


def text_columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [
            (table, column)
            for table in tables
            if not table.startswith("sqlite_")
            for _, column, kind, *_ in db.execute(f"PRAGMA table_info({table})")
            if kind == "TEXT"
        ]


async def use() -> None:
    """Run a program on this store that reads everything. It may fail only with errors about unreadable data.

    For states, notes and nodes that no store has written, the JSON parser or an enum raises a ValueError.
    """
    try:
        async with asyncio.timeout(20), program() as sched:
            await sched.submit("echo", {"text": "new"})
            for stored in await sched.list_jobs():
                await sched.get_job(stored.job.name)
            for run in await sched.list_runs():
                await sched.logs(run.id)
                await sched.history(run.id)
                await sched.result(run.id, timeout="1ms")
    except (otd.OnTheDotError, TimeoutError, ValueError):
        return


@pytest.mark.slow
@pytest.mark.parametrize("text", [ATTACKS["a dotted path"], ATTACKS["code"], PICKLE], ids=["path", "code", "pickle"])
async def test_every_text_column_is_read_as_data(text, tmp_path):
    await fill()
    whole = (tmp_path / DATABASE).read_bytes()
    columns = text_columns(tmp_path / DATABASE)
    assert len(columns) > 30
    planted_in = 0
    for table, column in columns:
        (tmp_path / DATABASE).write_bytes(whole)
        with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
            try:
                planted_in += db.execute(f"UPDATE {table} SET {column} = ?", (text,)).rowcount > 0  # noqa: S608
                db.commit()
            except sqlite3.IntegrityError:
                continue  # the schema refused it
        await use()
    assert planted_in > 15
