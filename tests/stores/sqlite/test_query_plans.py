"""What the engine asks all the time touches only its own range of an index, however much there is beside it.

Read twice: from EXPLAIN QUERY PLAN, and from the number of steps SQLite takes when there is ten times as much of
what does not concern the question.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.clock import NEVER
from onthedot.stores.sqlite import (
    dependencies,
    excepting,
    exceptions,
    finding,
    finish,
    jobs,
    letters,
    plan,
    rates,
    reserve,
    runs,
    schema,
    shards,
    upkeep,
)
from onthedot.stores.sqlite.connection import connect, create_file

NOW = 1_000_000

FOUND: dict[str, object] = {
    "namespaces": None, "owner": None, "job": None, "job_id": None, "label": None, "queue": None, "node": None,
    "live": '["scheduled"]', "ended": '["succeeded"]',
}  # fmt: skip

QUESTIONS = {
    # what is asked: (statement, values, the index ranges that answer it)
    "due schedules": (
        *plan.in_buckets(range(1024), NOW),
        [
            "MERGE (UNION ALL)",
            "SEARCH s USING INDEX schedules_due (<expr>=? AND next_at<?)",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "due schedules of one shard of many": (
        *plan.in_buckets(range(16), NOW),
        ["SEARCH s USING INDEX schedules_due (<expr>=? AND next_at<?)", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    "schedules that hang on a zone": (
        shards.LIST_ZONED,
        {"job_id": 1, "schedule_id": "zoned", "low": 0, "high": 1024},
        [
            "SEARCH s USING INDEX schedules_zoned ((job_id,schedule_id)>(?,?))",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "reserve what is due": (
        reserve.LIST_DUE_RUNS,
        {"route": "default", "priority": 1, "bonus": 0, "now": NOW, "tasks": '["call:work"]'},
        ["SEARCH r USING INDEX runs_ready (route=? AND priority=? AND ready_at<?)"],
    ),
    "reserve ahead": (
        reserve.LIST_AHEAD,
        {"route": "default", "priority": 1, "bonus": 0, "now": NOW, "until": NOW + 10, "tasks": '["call:work"]'},
        ["SEARCH r USING INDEX runs_ready (route=? AND priority=? AND ready_at>? AND ready_at<?)"],
    ),
    "the next line with a run in it": (
        reserve.NEXT_LINE,
        {"route": "default", "priority": -1, "end": "default\n"},
        [
            "SEARCH runs USING INDEX runs_ready (route=? AND priority>?)",
            "SEARCH runs USING INDEX runs_ready (route>? AND route<?)",
        ],
    ),
    "expire": (
        upkeep.LIST_MISSED,
        {"now": NOW, "limit": 100},
        ["SEARCH runs USING INDEX runs_expiring (expires_at<?)"],
    ),
    "orphans": (
        upkeep.LIST_ORPHANS,
        {"now": NOW, "limit": 100},
        [
            "SEARCH r USING COVERING INDEX runs_held (incarnation>?)",
            "SEARCH n USING INDEX sqlite_autoindex_nodes_1 (incarnation=?)",
            "SEARCH r USING INDEX runs_held (incarnation=?)",
        ],
    ),
    "held": (runs.LIST_HELD, ("dead",), ["SEARCH r USING INDEX runs_held (incarnation=?)"]),
    "finish, fixed delays": (
        finish.LIST_DELAYED,
        ("dead",),
        ["SEARCH runs USING INDEX runs_held (incarnation=? AND delayed=?)"],
    ),
    "submit, asked again": (
        runs.LIST_ENDED,
        {"runs": json.dumps([(1, NOW, "submit:x")])},
        ["SEARCH h USING COVERING INDEX history_submitted (slot_at=? AND job_id=? AND trigger=?)"],
    ),
    "finish, who runs after a job": (
        dependencies.LIST_CHILDREN,
        {"jobs": "[1]"},
        [
            "SEARCH parent USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH d USING PRIMARY KEY (namespace=? AND parent=?)",
            "SEARCH child USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "finish, whether a set is complete": (
        dependencies.IS_INCOMPLETE,
        (2,),
        ["SEARCH dependencies USING COVERING INDEX dependencies_child (child_id=? AND run_id=?)"],
    ),
    "the parents of a job, by name": (
        dependencies.LIST_PARENT_NAMES,
        ("default", "2"),
        ["SEARCH d USING COVERING INDEX dependencies_child (child_id=?)"],
    ),
    "the exceptions of a schedule": (
        exceptions.LIST_EXCEPTIONS,
        (1, "s"),
        ["SEARCH exceptions USING PRIMARY KEY (job_id=? AND schedule_id=?)"],
    ),
    "the run in a slot's place, asked again": (
        excepting.FIND_ASKED,
        {"job_id": 1, "slot_at": NOW, "trigger": "submit:x"},
        [
            "SEARCH runs USING COVERING INDEX runs_key (job_id=? AND slot_at=? AND trigger=? AND target=?)",
            "SEARCH history USING COVERING INDEX history_submitted (slot_at=? AND job_id=? AND trigger=?)",
        ],
    ),
    "the edge of an edit": (
        jobs.FIND_EDGE,
        {"now": NOW, "job_id": 1, "schedule_id": "s", "trigger": "schedule:s"},
        [
            "SEARCH runs USING INDEX runs_key (job_id=? AND slot_at>?)",
            "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)",
            "SEARCH history USING INDEX history_job_ended (job_id=? AND ended_at>?)",
        ],
    ),
    "history of a job": (
        finding.ENDED_OF_JOB_LINE.behind,
        FOUND | {"line_job": 1, "at": NOW, "stop": 0, "limit": 1},
        [
            "SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at>? AND ended_at<?)",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH a USING PRIMARY KEY (run_id=? AND attempt=?)",
        ],
    ),
    "history of a job, in one instant": (
        finding.ENDED_OF_JOB_LINE.rest,
        FOUND | {"line_job": 1, "at": 7, "id": NOW, "stop": 0, "limit": 1},
        ["SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>? AND rowid<?)"],
    ),
    "history of all": (
        finding.ENDED_LINE.behind,
        FOUND | {"at": NOW, "stop": 0, "limit": 1},
        ["SEARCH h USING INDEX history_ended (ended_at>? AND ended_at<?)"],
    ),
    "live runs": (
        finding.LIVE_LINE.behind,
        FOUND | {"at": NOW, "stop": NEVER, "limit": 1},
        ["SEARCH r USING INDEX runs_due (due_at>? AND due_at<?)", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    "jobs of a name": (
        finding.FIND_JOBS_BY["job"],
        FOUND | {"job": "1", "lines": 21},
        ["SEARCH j USING INDEX jobs_named (name=?)"],
    ),
    "jobs of an owner": (
        finding.LIST_JOBS_OF_OWNER,
        FOUND
        | {"owner": "", "states": None, "name_contains": None, "namespace": "", "name": "", "limit": 1}
        | {"stop_namespace": "z", "stop_name": ""},
        ["SEARCH j USING INDEX jobs_owner (owner=? AND (namespace,name)>(?,?)"],
    ),
}
SORTED_BY_HAND = {
    "orphans",
    "held",
    "finish, who runs after a job",
}  # few rows, from several holders or in the order of their ids


def fill(db: sqlite3.Connection, beside: int) -> None:
    """Five rows of interest to each question, and `beside` that are none of its business."""
    db.execute("BEGIN")
    insert_job = (
        "INSERT INTO jobs VALUES (?, 'default', ?, '', 'active', 1, 'call:work', 'default', 'default', 1, '', 0,"
        " '', 0, 0, '', NULL)"
    )
    db.executemany(insert_job, [(number, str(number)) for number in range(1, 21)])
    insert_schedule = (
        "INSERT INTO schedules (job_id, schedule_id, bucket, origin, watermark, next_at) VALUES (?,?,0,0,0,?)"
    )
    later = [(number % 20 + 1, f"s{number}", NOW + 1 + number) for number in range(beside)]
    db.executemany(insert_schedule, [*later, *((number, "due", number) for number in range(1, 6))])
    db.executemany(insert_schedule, [(number, "zoned", NOW + 1) for number in range(1, 6)])
    db.execute("UPDATE schedules SET zoned = 1 WHERE schedule_id = 'zoned'")
    db.execute("INSERT INTO nodes VALUES (1, 'dead', 'n', '', 0, '[]', '{}', 0, 0, 5, 5, NULL, 0, 0, 0, '')")
    db.execute(
        "INSERT INTO nodes VALUES (2, 'alive', 'n', '', 0, '[]', '{}', 0, 0, 5, ?, NULL, 0, 0, 0, '')", (NOW * 10,)
    )
    insert_run = (
        "INSERT INTO runs (id, job_id, state, queue, route, share, priority, slot_at, due_at, ready_at, expires_at, "
        "attempt, failures, recoveries, delayed, incarnation, lease_id, created_at, trigger, target, reason, revision) "
        "VALUES (?, ?, ?, 'default', 'default', '', 1, ?, ?, ?, ?, 0, 0, 0, ?, ?, 'l', 0, ?, '', '', 1)"
    )
    rows: list[tuple[object, ...]] = []
    for number in range(beside):  # planned for later, running on a living node
        at = NOW + 100 + number
        rows.append((1000 + 2 * number, 2, "scheduled", at, at, at, at, 0, None, f"submit:{number}"))
        rows.append((1001 + 2 * number, 3, "running", number, number, number, None, 0, "alive", f"submit:{number}"))
    for number in range(5):  # due, about to be due, missed, running on a dead node
        rows.append((10 + number, 1, "scheduled", number, number, number, None, 0, None, "submit:due"))
        soon = NOW + 1 + number
        rows.append((20 + number, 1, "scheduled", soon, soon, soon, None, 0, None, "submit:soon"))
        rows.append((30 + number, 1, "scheduled", number, number, number, number, 0, None, "schedule:s"))
        rows.append((40 + number, 1, "running", number, number, number, None, 1, "dead", "submit:run"))
    db.executemany(insert_run, rows)
    insert_history = (
        "INSERT INTO history (id, job_id, state, slot_at, due_at, attempts, failures, recoveries, created_at, ended_at,"
        " queue, priority, trigger, target, reason) "
        "VALUES (?, ?, 'succeeded', ?, 0, 1, 0, 0, 0, ?, 'default', 1, ?, '', '')"
    )
    old = [(10_000_000 + n, n % 20 + 1, n, n % 1000, f"submit:{n}") for n in range(beside)]
    db.executemany(insert_history, [*old, (1, 1, NOW, 7, "submit:x")])
    given = [(n % 20 + 1, f"s{n}", n) for n in range(beside)]
    insert_exception = "INSERT INTO exceptions VALUES (?, ?, ?, 'moved', 0, NULL)"
    db.executemany(insert_exception, [*given, *((1, "s", NOW + number) for number in range(5))])
    insert_dependency = "INSERT INTO dependencies VALUES ('default', ?, ?, 0, 'success', NULL, NULL)"
    apart = [(f"p{n}", n % 16 + 5) for n in range(beside)]
    db.executemany(insert_dependency, [*apart, *(("1", child_id) for child_id in range(2, 5))])
    db.execute("COMMIT")


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    """The same with 2,000 and with 20,000 rows beside."""
    opened = []
    for beside in (2_000, 20_000):
        path = str(tmp_path_factory.mktemp("plans") / Path(f"{beside}.db"))
        create_file(path)
        db = connect(path, writing=True)
        schema.prepare(db, path)
        fill(db, beside)
        opened.append(db)
    yield opened
    for db in opened:
        db.close()


def plan_of(db: sqlite3.Connection, statement: str, values: object) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]  # type: ignore[arg-type]


def steps_of(db: sqlite3.Connection, statement: str, values: object) -> int:
    """How many instructions SQLite executes for a question."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 1)
    rows = db.execute(statement, values).fetchall()  # type: ignore[arg-type]
    db.set_progress_handler(None, 1)
    assert rows
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_its_range(name, databases):
    statement, values, ranges = QUESTIONS[name]
    for db in databases:
        found = plan_of(db, statement, values)
        assert [wanted for wanted in ranges if not any(wanted in line for line in found)] == [], found
        assert not [
            line for line in found if line.startswith(("SCAN runs", "SCAN r", "SCAN s", "SCAN h ", "SCAN n"))
        ], found
        if name not in SORTED_BY_HAND:
            assert not [line for line in found if "TEMP B-TREE" in line], found


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_does_not_concern_it_costs_nothing(name, databases):
    statement, values, _ = QUESTIONS[name]
    few, many = (steps_of(db, statement, values) for db in databases)
    assert many <= few * 1.1


def test_who_waits_at_a_gate_costs_nothing_when_the_next_run_is_looked_for(tmp_path):
    """Thousands may wait at one gate, and every look for work asks when to look again."""
    path = str(tmp_path / "waiting.db")
    create_file(path)
    db = connect(path, writing=True)
    schema.prepare(db, path)
    fill(db, 10)
    values = {"route": "default", "priority": 1, "now": NOW, "never": NEVER}
    few = steps_of(db, reserve.LIST_LATER, values)
    insert = (
        "INSERT INTO runs (id, job_id, state, queue, route, share, priority, slot_at, due_at, ready_at, attempt,"
        " failures, recoveries, delayed, created_at, trigger, target, reason, blocked_on, blocked_capacity,"
        " blocked_until_end)"
        " VALUES (?, 1, 'scheduled', 'default', 'default', '', 1, 1, 1, ?, 0, 0, 0, 0, 0, ?, '', '', 'gate', 1, 0)"
    )
    db.execute("BEGIN")
    db.executemany(insert, [(100_000 + number, NEVER, f"submit:w{number}") for number in range(2_000)])
    db.execute("COMMIT")
    many = steps_of(db, reserve.LIST_LATER, values)
    db.close()
    assert many <= few * 1.1


def test_the_box_of_dead_letters_is_all_that_is_read(databases):
    """However much has ended beside it: few steps for five letters, and none to put them in order."""
    few, many = databases
    values = {"job": None, "namespace": "default", "since": 0, "ended": NEVER, "run_id": 0, "limit": 100}
    for db in databases:
        db.execute("BEGIN")
        db.execute("UPDATE history SET state = 'dead' WHERE id IN (SELECT id FROM history ORDER BY id LIMIT 5)")
        found = plan_of(db, letters.LIST_DEAD, values)
        assert any("SEARCH h USING INDEX history_dead (ended_at>? AND ended_at<?)" in line for line in found), found
        assert not [line for line in found if "TEMP B-TREE" in line or line.startswith("SCAN")], found
    assert steps_of(many, letters.LIST_DEAD, values) <= steps_of(few, letters.LIST_DEAD, values) * 1.1
    assert plan_of(few, letters.SETTLE, ("discarded", 1)) == ["SEARCH history USING INTEGER PRIMARY KEY (rowid=?)"]
    for db in databases:
        db.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "values", "key"),
    [
        (finish.END_RUN, (1, "l"), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (reserve.ARM_NOW, ("l", 1, "i", 1, 1, 1, 1, 1), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (runs.ARM, (1, 1, 1, "l"), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (runs.RELEASE, (1, "l"), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (
            rates.DELAY,
            {"until": 1, "key": "r", "reason": "", "id": 1, "lease_id": "l"},
            "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)",
        ),
        (dependencies.CLEAR_SET, (2,), "SEARCH dependencies USING COVERING INDEX dependencies_child (child_id=?)"),
        (rates.FIND_TAT, ("r",), "SEARCH rates USING PRIMARY KEY (key=?)"),
        (rates.FIND_GRANT, (1, "r"), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (
            jobs.WITHDRAW,
            {"job_id": 1, "edge": NOW, "trigger": "schedule:s"},
            "SEARCH runs USING INDEX runs_key (job_id=? AND slot_at>?)",
        ),
        (
            plan.MOVE_WATERMARK,
            (1, 1, 1, "s"),
            "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)",
        ),
    ],
)
def test_a_write_finds_its_row_by_key(statement, values, key, databases):
    assert plan_of(databases[0], statement, values) == [key]


def test_idle_rates_are_found_by_their_tat(databases):
    steps = plan_of(databases[0], rates.FORGET_IDLE, (NOW,))
    assert [step for step in steps if "SCAN" in step] == []
    assert [step for step in steps if "rates_tat (tat<?)" in step]


def test_a_retry_finds_its_row_and_its_job_by_key(databases):
    """Two look-ups by key: the run, and whether its job is paused."""
    steps = plan_of(databases[0], finish.TRY_AGAIN, (1, 0, 0, "", NEVER, 1, 1, "l"))
    assert [step for step in steps if "SCAN" in step] == []
    assert len([step for step in steps if "INTEGER PRIMARY KEY" in step]) == 2
