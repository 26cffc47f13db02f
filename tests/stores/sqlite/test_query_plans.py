"""The frequent queries of the engine read only their own range of an index, however many other rows there are.

This is checked twice: in EXPLAIN QUERY PLAN, and by the number of steps that SQLite executes when there are ten times
as many other rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from onthedot.clock import NEVER
from onthedot.model.route import LEADER_ROUTES, PLACED_ROUTES
from onthedot.stores.queries import FIRST
from onthedot.stores.sql import (
    after,
    arm,
    checkpoints,
    documents,
    find,
    finish,
    gates,
    history,
    jobs,
    plan,
    prune,
    queues,
    reap,
    reserve,
    submit,
)
from onthedot.stores.sql.port import Statement
from onthedot.stores.sqlite import fast_finish, schema
from onthedot.stores.sqlite.connection import connect, create_file

NOW = 1_000_000
JOB_OF_ROW = "SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"  # one job: BETWEEN x AND x
BY_ID = "SEARCH history USING INTEGER PRIMARY KEY (rowid=?)"

FOUND = (None, None, None, None, None, '["scheduled", "succeeded"]', None, None)  # no filter except states

DUE_RANGE = "SEARCH s USING INDEX schedules_due (<expr>=? AND (next_at,job_id,schedule_id)>(?,?,?) AND next_at<?)"

QUESTIONS = {
    # name: (statement, values, the index ranges that answer it)
    "due schedules": (
        plan.list_due_in(range(1024)).sqlite,
        (NOW, 0, 1024, FIRST, 0, "", 100),
        [
            "MERGE (UNION ALL)",
            DUE_RANGE,
            JOB_OF_ROW,
        ],
    ),
    "due schedules of one shard of many": (
        plan.list_due_in(range(16)).sqlite,
        (NOW, 0, 16, FIRST, 0, "", 100),
        [DUE_RANGE, JOB_OF_ROW],
    ),
    "schedules that hang on a zone": (
        plan.LIST_ZONED.sqlite,
        (1, "zoned", 0, 1024, 100),
        [
            "SEARCH s USING INDEX schedules_zoned ((job_id,schedule_id)>(?,?))",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "reserve what is due": (
        reserve.LIST_DUE.sqlite,
        (NOW, '["call:work"]', "[]", 64, "default", 1, 0),
        ["SEARCH r USING INDEX runs_ready (route=? AND priority=? AND ready_at<?)"],
    ),
    "reserve ahead": (
        reserve.LIST_AHEAD.sqlite,
        (NOW, '["call:work"]', "[]", 64, NOW + 10, "default", 1),
        ["SEARCH r USING INDEX runs_ready (route=? AND priority=? AND ready_at>? AND ready_at<?)"],
    ),
    "reserve, when runs with ranks are ready": (
        reserve.LIST_RANKED_LATER.sqlite,
        ('["ranked"]', NOW, "alive"),
        ["SEARCH r USING INDEX runs_ranked (route=? AND rank>?)"],
    ),
    "lines with a run in them": (
        reserve.LIST_LINES.sqlite,
        ('["default"]', "\n"),
        [
            "SEARCH r USING INDEX runs_ready (route>? AND route<?)",
            "SEARCH r USING INDEX runs_ready (route=? AND priority=?)",
        ],
    ),
    "expire": (
        prune.LIST_MISSED.sqlite,
        (NOW, 100),
        ["SEARCH runs USING INDEX runs_expiring (expires_at<?)"],
    ),
    "orphans, who is dead": (
        reap.LIST_DEAD.sqlite,
        (NOW,),
        [
            "SEARCH r USING COVERING INDEX runs_held (incarnation>?)",
            "SEARCH n USING INDEX sqlite_autoindex_nodes_1 (incarnation=?)",
        ],
    ),
    "orphans": (
        reap.LIST_ORPHANS.sqlite,
        ('["dead"]', 100),
        ["SEARCH r USING INDEX runs_held (incarnation=?)"],
    ),
    "held": (reserve.LIST_HELD.sqlite, ("dead",), ["SEARCH r USING INDEX runs_held (incarnation=?)"]),
    "submit, asked again": (
        submit.ENDED.sqlite,
        (1, NOW, "submit:x"),
        ["SEARCH r USING COVERING INDEX history_submitted (slot_at=? AND job_id=? AND trigger=?)"],
    ),
    "submit, asked again while it waits": (
        submit.LIVE.sqlite,
        (1, 0, "submit:due"),
        ["SEARCH r USING COVERING INDEX runs_key (job_id=? AND slot_at=? AND trigger=? AND target=?)"],
    ),
    "finish, who runs after a job": (
        after.LIST_CHILDREN.sqlite,
        ("[1]",),
        [
            "SEARCH parent USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH d USING PRIMARY KEY (namespace=? AND parent=?)",
        ],
    ),
    "finish, whether a set is complete": (
        after.IS_INCOMPLETE.sqlite,
        (2,),
        ["SEARCH dependencies USING COVERING INDEX dependencies_child (child_id=? AND run_id=?)"],
    ),
    "the exceptions of a schedule": (
        plan.LIST_EXCEPTIONS.sqlite,
        ("[1]", '["s"]'),
        ["SEARCH e USING PRIMARY KEY (job_id=? AND schedule_id=?)"],
    ),
    "plan, where schedules stand": (
        plan.LOCK_SCHEDULES.sqlite,
        ("[1, 2]", '["due", "due"]'),
        [
            "SEARCH others USING AUTOMATIC COVERING INDEX (key=?)",
            "SEARCH s USING PRIMARY KEY (job_id=? AND schedule_id=?)",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        ],
    ),
    "the edge of an edit": (
        jobs.FIND_EDGE.sqlite,
        (1, "s", "schedule:s", NOW),
        [
            "SEARCH runs USING INDEX runs_key (job_id=? AND slot_at>?)",
            "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)",
            "SEARCH history USING INDEX history_job_ended (job_id=? AND ended_at>?)",
        ],
    ),
    "the ended slots of an edit": (
        plan.LIST_ENDED_SLOTS.sqlite,
        (1, NOW - 1, "schedule:s", 1),
        ["SEARCH history USING INDEX history_job_ended (job_id=? AND ended_at>?)"],
    ),
    "history of a job": (
        find.ENDED_OF_JOB_LINE.list.sqlite,
        (*FOUND, NOW, 10**9, 7, 0, 1, 1),
        [
            "MERGE (UNION ALL)",
            "SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>? AND rowid<?)",
            "SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at>? AND ended_at<?)",
            "SEARCH h USING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>?)",
            "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH a USING PRIMARY KEY (run_id=? AND attempt=?)",
        ],
    ),
    "where to stop in the history of a job": (
        find.ENDED_OF_JOB_LINE.stop.sqlite,
        (7, NOW, 7, 0, 1, 1),
        ["SEARCH h USING COVERING INDEX history_job_ended (job_id=? AND ended_at=? AND rowid>? AND rowid<?)"],
    ),
    "history of all": (
        find.ENDED_LINE.list.sqlite,
        (*FOUND, NOW, 10**9, 0, 0, 1),
        ["SEARCH h USING INDEX history_ended (ended_at>? AND ended_at<?)"],
    ),
    "live runs": (
        find.LIVE_LINE.list.sqlite,
        (*FOUND, NOW, 10**9, NEVER, 0, 1),
        ["SEARCH r USING INDEX runs_due (due_at>? AND due_at<?)", JOB_OF_ROW],
    ),
    "live runs of a job": (
        find.LIST_LIVE_OF_JOBS.sqlite,
        (*FOUND, 0, 0, NEVER, 0, 1, "[1]"),
        ["SEARCH r USING INDEX runs_key (job_id=?)", JOB_OF_ROW],
    ),
    "jobs of a name": (
        find.FIND_JOBS_BY["job"].sqlite,
        (None, None, None, "1", None, 21),
        ["SEARCH j USING INDEX jobs_named (name=?)"],
    ),
    "jobs of an owner": (
        find.JOB_OF_OWNER_LINE.list.sqlite,
        (None, "", None, None, None, None, "", "", "z", "", 1),
        ["SEARCH j USING INDEX jobs_owner (owner=? AND (namespace,name)>(?,?)"],
    ),
}
SORTED_BY_HAND = {
    "orphans",
    "held",
    "live runs of a job",
    "finish, who runs after a job",
}  # few rows, of several holders or in the order of their ids


def fill(db: sqlite3.Connection, beside: int) -> None:
    """Insert five matching rows for each query, and `beside` rows that match none."""
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
    for number in range(beside):  # planned for later, or running on a living node
        at = NOW + 100 + number
        rows.append((1000 + 2 * number, 2, "scheduled", at, at, at, at, 0, None, f"submit:{number}"))
        rows.append((1001 + 2 * number, 3, "running", number, number, number, None, 0, "alive", f"submit:{number}"))
    for number in range(5):  # due, soon due, missed, or running on a dead node
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
    db.executemany(insert_history, [*old, (1, 1, NOW, 7, "submit:x"), (2, 1, NOW, NOW, "schedule:s")])
    given = [(n % 20 + 1, f"s{n}", n) for n in range(beside)]
    insert_exception = "INSERT INTO exceptions VALUES (?, ?, ?, 'moved', 0, NULL)"
    db.executemany(insert_exception, [*given, *((1, "s", NOW + number) for number in range(5))])
    insert_dependency = "INSERT INTO dependencies VALUES ('default', ?, ?, 0, 'success', NULL, NULL)"
    apart = [(f"p{n}", n % 16 + 5) for n in range(beside)]
    db.executemany(insert_dependency, [*apart, *(("1", child_id) for child_id in range(2, 5))])
    db.execute("COMMIT")


NEVER_ANALYSED = "never analysed"
ANALYSED_EMPTY = "analysed when empty"
ANALYSED_FULL = "analysed now"
STATES = [NEVER_ANALYSED, ANALYSED_EMPTY, ANALYSED_FULL, "analysed when full, nearly empty now"]


def drain(db: sqlite3.Connection) -> None:
    """Delete everything except the matching rows."""
    db.execute("DELETE FROM runs WHERE id >= 1000")
    db.execute("DELETE FROM history WHERE id >= 10000000")
    db.execute("DELETE FROM schedules WHERE next_at > ? AND schedule_id <> 'zoned'", (NOW,))
    db.execute("DELETE FROM exceptions WHERE schedule_id <> 's'")
    db.execute("DELETE FROM dependencies WHERE parent <> '1'")


@pytest.fixture(scope="module", params=STATES)
def databases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[sqlite3.Connection]]:
    """The same data with 2,000 and with 20,000 other rows. Plans depend on statistics, which may be old."""
    opened = []
    for beside in (2_000, 20_000):
        path = str(tmp_path_factory.mktemp("plans") / Path(f"{beside}.db"))
        create_file(path)
        db = connect(path, writing=True)
        schema.prepare(db, path)
        if request.param == ANALYSED_EMPTY:
            db.execute("ANALYZE")
        fill(db, beside)
        if request.param not in (NEVER_ANALYSED, ANALYSED_EMPTY):
            db.execute("ANALYZE")
        if request.param not in (NEVER_ANALYSED, ANALYSED_EMPTY, ANALYSED_FULL):
            drain(db)
        opened.append(db)
    yield opened
    for db in opened:
        db.close()


def plan_of(db: sqlite3.Connection, statement: str, values: object) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]  # type: ignore[arg-type]


def tables_read(db: sqlite3.Connection, statement: str, values: object) -> list[str]:
    """Returns the lines of a plan without those about lists of values."""
    lists = ("LIST SUBQUERY", "CORRELATED SCALAR SUBQUERY", "SCAN json_each")
    lines = plan_of(db, statement, values)
    return [line.removesuffix(" LEFT-JOIN") for line in lines if not line.startswith(lists)]


def steps_of(db: sqlite3.Connection, statement: str, values: object) -> int:
    """Returns how many instructions SQLite executes for a query."""
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
def test_a_query_reads_only_its_range(name, databases):
    statement, values, ranges = QUESTIONS[name]
    for db in databases:
        found = plan_of(db, statement, values)
        assert [wanted for wanted in ranges if not any(wanted in line for line in found)] == [], found
        assert not [
            line for line in found if line.startswith(("SCAN runs", "SCAN r", "SCAN s", "SCAN h ", "SCAN n"))
        ], found
        assert not [
            line for line in found if ("BLOOM FILTER" in line or "AUTOMATIC" in line) and " others " not in line
        ], found
        if name not in SORTED_BY_HAND:
            assert not [line for line in found if "TEMP B-TREE" in line], found


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_costs_no_more_with_more_other_rows(name, databases):
    statement, values, _ = QUESTIONS[name]
    few, many = (steps_of(db, statement, values) for db in databases)
    assert many <= few * 1.1


def test_runs_that_wait_at_a_gate_cost_nothing_in_the_search_for_the_next_run(tmp_path):
    """Thousands of runs may wait at one gate, and each reserve computes when to look again."""
    path = str(tmp_path / "waiting.db")
    create_file(path)
    db = connect(path, writing=True)
    schema.prepare(db, path)
    fill(db, 10)
    values = (NOW, NOW, "alive", '["call:work"]', "[]", "default", 1)
    few = steps_of(db, reserve.LIST_LATER.sqlite, values)
    insert = (
        "INSERT INTO runs (id, job_id, state, queue, route, share, priority, slot_at, due_at, ready_at, attempt,"
        " failures, recoveries, delayed, created_at, trigger, target, reason, blocked_on, blocked_capacity,"
        " blocked_until_end)"
        " VALUES (?, 1, 'scheduled', 'default', 'default', '', 1, 1, 1, ?, 0, 0, 0, 0, 0, ?, '', '', 'gate', 1, 0)"
    )
    db.execute("BEGIN")
    db.executemany(insert, [(100_000 + number, NEVER, f"submit:w{number}") for number in range(2_000)])
    db.execute("COMMIT")
    many = steps_of(db, reserve.LIST_LATER.sqlite, values)
    db.close()
    assert many <= few * 1.1


def test_a_list_of_dead_letters_reads_no_other_history(databases):
    """However many other runs have ended: few steps for five dead letters, and no sort."""
    few, many = databases
    listed, values = history.LIST_DEAD.sqlite, (0, NEVER, 0, "default", None, 100)
    for db in databases:
        db.execute("BEGIN")
        db.execute("UPDATE history SET state = 'dead' WHERE id IN (SELECT id FROM history ORDER BY id LIMIT 5)")
        found = plan_of(db, listed, values)
        assert any("SEARCH h USING INDEX history_dead (ended_at>? AND ended_at<?)" in line for line in found), found
        assert not [line for line in found if "TEMP B-TREE" in line or line.startswith("SCAN")], found
    assert steps_of(many, listed, values) <= steps_of(few, listed, values) * 1.1
    assert plan_of(few, history.SETTLE.sqlite, (1, "discarded")) == [BY_ID]
    assert tables_read(few, history.LOCK_DEAD.sqlite, ("[1, 2]",)) == [BY_ID]
    for db in databases:
        db.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "values", "keys"),
    [
        (documents.FIND_KEYS, ("audit", '["a", "b"]'), ["SEARCH entries USING INDEX entries_key (kind=? AND key=?)"]),
        (checkpoints.HOLD_RUNNING, ("[1, 2]", '["a", "b"]'), ["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"]),
        (checkpoints.FIND_CHECKPOINTS, ("[1, 2]",), ["SEARCH checkpoints USING INTEGER PRIMARY KEY (rowid=?)"]),
        (
            history.SHOW_LIVE,
            ("[1, 2]",),
            [
                "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
                JOB_OF_ROW,
                "SEARCH a USING PRIMARY KEY (run_id=? AND attempt=?)",
                "SEARCH n USING INDEX sqlite_autoindex_notes_1 (run_id=?)",
                "SEARCH o USING INDEX sqlite_autoindex_nodes_1 (incarnation=?)",
            ],
        ),
        (
            history.SHOW_FINISHED,
            ("[1, 2]",),
            [
                "SEARCH h USING INTEGER PRIMARY KEY (rowid=?)",
                "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
                "SEARCH a USING PRIMARY KEY (run_id=? AND attempt=?)",
                "SEARCH n USING INDEX sqlite_autoindex_notes_1 (run_id=?)",
            ],
        ),
    ],
)
def test_a_list_of_keys_is_looked_up_key_by_key(statement, values, keys, databases):
    for db in databases:
        assert tables_read(db, statement.sqlite, values) == keys


@pytest.mark.parametrize(
    ("statement", "values", "key"),
    [
        (fast_finish.END_RUN, (1, "l"), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (reserve.ARM_NOW.sqlite, (1, "l", 1, "i", 1, 1), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (reserve.HOLD.sqlite, (1, "l", 1, "i", 1, 1), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (arm.ARM.sqlite, (1, "l", 1, 1), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (arm.BLOCK.sqlite, (1, "l", "g", 1, 1, ""), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (arm.DELAY.sqlite, (1, "l", 1, "r", ""), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (finish.TRY_AGAIN.sqlite, (1, "l", 1, 1, 0, 0, ""), "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"),
        (after.CLEAR_SET.sqlite, (2,), "SEARCH dependencies USING COVERING INDEX dependencies_child (child_id=?)"),
        (
            jobs.WITHDRAW.sqlite,
            (1, NOW, "schedule:s"),
            "SEARCH runs USING INDEX runs_key (job_id=? AND slot_at>?)",
        ),
        (
            plan.MOVE_WATERMARK.sqlite,
            (1, "s", 1, 1),
            "SEARCH schedules USING PRIMARY KEY (job_id=? AND schedule_id=?)",
        ),
    ],
)
def test_a_write_finds_its_row_by_key(statement, values, key, databases):
    assert plan_of(databases[0], statement, values) == [key]


def test_runs_that_wait_for_a_node_are_found_by_their_routes(databases):
    values = (*LEADER_ROUTES, *PLACED_ROUTES, NOW)
    steps = plan_of(databases[0], queues.LIST_WAITING.sqlite, values)
    assert [step for step in steps if "SCAN" in step] == []
    assert len([step for step in steps if "SEARCH r USING INDEX runs_ready (route>? AND route<?)" in step]) == 2


def test_runs_are_released_by_key(databases):
    steps = plan_of(databases[0], reserve.RELEASE.sqlite, ("[1, 2]", '["a", "b"]'))
    assert [step for step in steps if "runs" in step] == ["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"]


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (arm.LOCK_ARMABLE, ("[1]",)),
        (arm.LOOK, ('["a"]', "[1]", '["a"]', "[1]", "[1]", NOW)),
        (arm.LOOK_AGAIN, ('["a"]',)),
        (arm.LOOK_AT_RUNS, ("[]", "[1]")),
        (gates.FIND_OLDER, (1, NOW)),
        (gates.LIST_HEIRS, (16, "a")),
        (gates.LIST_IDLE, ('["a"]', NOW)),
        (gates.LIST_PLACES, ("[1]", 1)),
        (gates.LIST_WAITING, ("a",)),
        (finish.LOCK_RUNS, ("[1]",)),
        (finish.INTO_HISTORY, (1, "l", "", 0, 0, 1, 1, "", "", "")),
        (finish.RECORD_ATTEMPT, (1, "", "", "", 1, 1)),
        (finish.DELETE_ENDED, ("[1]", '["l"]')),
        (finish.END_WAITING, (1, "", "", NOW, None)),
    ],
)
def test_a_write_of_runs_scans_no_table(statement: Statement[object], values, databases):
    """Only its arguments and the newest 1,000 rows of `ended` are scanned."""
    steps = plan_of(databases[0], statement.sqlite, values)
    scans = [step for step in steps if "SCAN" in step and not re.search(r"SCAN (json_each|gate|CONSTANT|ended)", step)]
    assert scans == [], steps


def test_idle_rates_are_found_by_their_tat(databases):
    steps = plan_of(databases[0], gates.FORGET_IDLE_RATES.sqlite, (NOW,))
    assert [step for step in steps if "SCAN" in step] == []
    assert [step for step in steps if "rates_tat (tat<?)" in step]
