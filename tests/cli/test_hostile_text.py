"""Hostile text in a store: no command prints control characters of it, and no CSV cell becomes a formula."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.access.audit import Entry, record_all
from onthedot.access.permissions import Principal, Role
from onthedot.model.run import Progress
from onthedot.model.task import Command, Param, Step, Steps
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import Node, Note
from onthedot_verify.contract import Workbench
from onthedot_verify.contract.workbench import DEAD, SUCCESS
from tests.cli.conftest import Call

EVIL = "e\x1b[2J\x1b]0;title\x07\x9b31m\r\nforged\u202eline\u2028\x7f\t"
"""Clears the screen, sets the title, forges a line, and reverses the writing direction."""
FORMULA = "=HYPERLINK(0)"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def jobs() -> list[otd.Job]:
    """Jobs as any writer of the database may store them: definitions are not checked here."""
    steps = Steps(steps=(Step(name=EVIL, argv=("ssh", EVIL, "${{ params.x }}")),))
    return [
        otd.Job(name=EVIL, owner=EVIL, task=Command(argv=(EVIL, EVIL)), overlap=otd.Overlap("allow"),
                schedules=(replace(otd.every("1h"), id=EVIL),)),
        otd.Job(name=FORMULA, owner="+1", task=steps, params=(Param(name="x"),), queue=EVIL,
                labels=frozenset({EVIL})),
        otd.Job(name="-1+1", namespace="@team", task=otd.Sleep(duration=timedelta(0))),
        otd.Job(name="valid", task=Command(argv=("ls", EVIL), env={"A": "\x9b31m\u202e\x85"})),
    ]  # fmt: skip


async def fill(path: Path) -> None:
    store = await SqliteStore.open(path)
    bench = Workbench(store)
    evil, formula, *_ = [(await store.put_job(job, now=bench.now)).record for job in jobs()]
    for _ in range(3):
        await bench.submit(evil, args=json.dumps({EVIL: EVIL}))
    node = "incarnation"
    offered = Node(EVIL, node, host=EVIL, queues=(EVIL,), labels=(EVIL,), tasks=("command",), seats=4)
    await store.register(offered, ttl=10**12, now=bench.now)
    dead, done = (await bench.reserve(node, seats=2, tasks=frozenset({"command"}))).armed
    await store.note([Note(dead, 1, Progress(1, 2), EVIL)])
    await bench.finish(dead, DEAD._replace(error=f"{EVIL}: {EVIL}", reason=EVIL))
    await bench.finish(done, SUCCESS._replace(result=json.dumps({EVIL: EVIL})))
    await store.pause_job(formula.id, reason=EVIL)
    await store.pause_queue(EVIL, reason=EVIL)
    who = Principal(kind="key", id=EVIL, name=EVIL, role=Role.ADMIN)
    await record_all(store, [Entry(who=who, verb=EVIL, object=EVIL, before={EVIL: EVIL}, request_id=EVIL, source=EVIL)])
    await store.close()


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    asyncio.run(fill(tmp_path / "it.db"))
    return str(tmp_path / "it.db")


COMMANDS = """
jobs | jobs --json | runs | runs --json | show 1 | show 2 | show 3 | show 1 --json | logs 1 | dead list
dead list --json | dead show 6740abfb54dc | nodes --all | nodes --all --json | queues | queues --json | store check
lint | lint --json
export | export --format json | export --format csv | audit | audit --json | audit --check | secret list | keys list
users list | resume =HYPERLINK(0) --dry-run | dead replay --all --dry-run | trigger =HYPERLINK(0) | cancel 3 | retry 1
pause =HYPERLINK(0) | resume =HYPERLINK(0) | rm =HYPERLINK(0) --yes | dead replay 1 | dead discard 1
trigger =HYPERLINC | backfill =HYPERLINK(0) --start -1h --end now --dry-run
node drain e | queue resume e | edit e | show 99 | runs --job e
"""


@pytest.mark.parametrize("line", [line.strip() for line in re.split("[|\n]", COMMANDS.strip())])
def test_no_command_prints_control_characters(call: Call, hostile: str, line: str):
    result = call(*line.split(), "--db", hostile)
    assert "Traceback" not in result.output
    shown = COLOURS.sub("", result.stdout) + result.stderr
    allowed = "\n\t" if line.startswith("logs") else "\n"
    assert [char for char in shown if not char.isprintable() and char not in allowed] == []
    if not line.startswith("logs"):  # the output of a program may have any lines
        assert not any(text.startswith("forged") for text in shown.splitlines())


def test_no_cell_of_csv_is_a_formula(call: Call, hostile: str):
    rows = {
        row["name"]: row
        for row in csv.DictReader(io.StringIO(call("export", "--format", "csv", "--db", hostile).stdout))
    }
    assert all(cell[:1] not in ("=", "+", "-", "@", "\t", "\r") for row in rows.values() for cell in row.values())
    assert {"'=HYPERLINK(0)", "'-1+1", "valid"} < rows.keys()
    assert (rows["'=HYPERLINK(0)"]["owner"], rows["'-1+1"]["namespace"]) == ("'+1", "'@team")


def test_hostile_text_is_exported_unchanged(call: Call, hostile: str):
    text = call("export", "valid", "--format", "json", "--db", hostile).stdout
    [job] = json.loads(text)["jobs"]
    assert job["argv"] == ["ls", EVIL]
    assert job["env"] == {"A": "\x9b31m\u202e\x85"}
    assert "forged" in call("export", "valid", "--db", hostile).stdout
