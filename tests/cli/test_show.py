"""`onthedot show`: one run with all that is known of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

import onthedot as otd
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual

Call = Callable[..., Result]
NOON = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)

DETAIL = r"""
run       4 of broken
state     dead: failed 2 times
trigger   schedule:b66e461d0c
slot      2026-03-28 12:00:05 +01:00
due       2026-03-28 12:00:06 +01:00, 21.0 s ago
created   2026-03-28 12:00:00 +01:00
queue     default, priority normal
took      0.0 ms
attempts  2 (2 failed, 0 lost with their node)
error     ValueError: line one\nline two
result    -
"""


def facts(call: Call, run: int, database: Path) -> dict[str, list[str]]:
    """What is told of a run, before its attempts, by its name; several lines of one name are one entry."""
    result = call("show", run, "--db", database)
    assert result.exit_code == 0, result.output
    found: dict[str, list[str]] = {}
    name = ""
    for line in result.output.partition("\n\n")[0].splitlines():
        name = line[:10].strip() or name
        found.setdefault(name, []).append(line[10:])
    return found


def test_a_run_that_has_ended_with_its_attempts(call: Call, database: Path):
    told, table, log = call("show", "4", "--db", database).output.rstrip().split("\n\n")
    assert told == DETAIL.strip()
    head, first, second = (re.split(r" {2,}", line) for line in table.splitlines())
    assert head == ["TRY", "OUTCOME", "NODE", "DUE (CET)", "RESERVED", "ARMED", "STARTED", "ENDED", "ERROR"]
    assert first[:2] == ["1", "failed"]
    assert second[3:] == ["12:00:06", "-1.0 s", "-5.0 ms", "+0.0 ms", "+0.0 ms", r"ValueError: line one\nline two"]
    assert log.startswith("log of attempt 2:\n  ValueError came from (last frame last):\n")
    assert log.endswith('in broken\n      raise ValueError("line one\\nline two")')


def test_the_attempt_that_is_going_on(call: Call, cluster: Path):
    table = call("show", "1", "--db", cluster).output.rstrip().split("\n\n")[1]
    row = re.split(r" {2,}", table.splitlines()[1])
    assert row == ["1", "running", "web-1", "11:59:55", "+4.0 s", "+4.0 s", "+4.0 s", "-"]


def test_how_far_an_attempt_is_that_runs(call: Call, cluster: Path):
    told = facts(call, 1, cluster)
    assert told["started"] == ["2026-03-28 11:59:59 +01:00, 1.0 s ago, +4.0 s after it was due"]
    assert told["progress"] == ["30 of 120 (25 %)"]
    run = json.loads(call("show", "1", "--db", cluster, "--json").output)
    assert run["progress"] == {"done": 30, "of": 120}
    assert (run["running_since"], run["late_ms"]) == ("2026-03-28T10:59:59.000000Z", 4_000)
    row = next(line for line in call("runs", "--db", cluster).output.splitlines() if line.startswith("1 "))
    assert re.split(r" {2,}", row)[3:] == ["11:59:55", "4.0 s", "1.0 s …", "1", "30 of 120 (25 %)"]


@pytest.mark.parametrize(
    ("run", "reasons"),
    [
        (1, []),
        (2, ["the gate limit:mail, which is held by run 1"]),
        (3, ["its instant, 2026-03-28T11:00:03+00:00"]),
        (4, ["a living worker to serve queue 'default' with what the job needs: there is none"]),
        (5, ["the leader to find a place for it"]),
    ],
)
def test_it_tells_what_a_run_waits_for(call: Call, cluster: Path, run: int, reasons: list[str]):
    assert facts(call, run, cluster).get("waits for", []) == reasons
    assert json.loads(call("show", run, "--db", cluster, "--json").output)["waits_for"] == reasons


def test_it_tells_what_people_have_stopped(call: Call, cluster: Path):
    call("pause", "mail", "--db", cluster, "--reason", "moving")
    call("queue", "pause", "mail", "--db", cluster, "--reason", "lunch")
    assert facts(call, 3, cluster)["waits for"] == [
        "its job, which is paused: moving",
        "its queue 'mail', which is paused: lunch",
        "its instant, 2026-03-28T11:00:03+00:00",
    ]


def test_arguments_queue_and_namespace(call: Call, cluster: Path):
    told = facts(call, 2, cluster)
    assert (told["args"], told["queue"]) == (['{"to":"ann"}'], ["mail, priority high"])
    assert facts(call, 6, cluster)["run"] == ["6 of team/own"]


def test_a_long_log_is_shown_from_its_end_and_harmless(call: Call, tmp_path: Path):
    path, sched = tmp_path / "long.db", otd.Scheduler("memory:")

    @sched.job
    async def talk(ctx: otd.Context) -> None:
        for number in range(100):
            ctx.log(f"line {number}\x1b[2J")

    async def live() -> None:
        harness = Harness(NOON, store=lambda clock: SqliteStore.open(path, clock=clock, inline=True))
        await harness.start(sched)
        await sched.submit("talk")
        await harness.advance("1s")
        await harness.stop()
        await harness.store.close()

    run_virtual(live())
    head, cut, first, *rest = call("show", "1", "--db", path).output.rstrip().split("\n\n")[-1].splitlines()
    assert (head, cut, first, len(rest)) == ("log of attempt 1:", "  …", r"  line 80\x1b[2J", 19)
    assert len(json.loads(call("show", "1", "--db", path, "--json").output)["logs"][0]["text"].splitlines()) == 100


def test_json(call: Call, database: Path):
    run = json.loads(call("show", "1", "--db", database, "--json").output)
    assert list(run) == [
        "run_id", "job", "namespace", "owner", "trigger", "queue", "priority", "target", "node", "revision", "state",
        "reason", "error", "attempts", "failures", "recoveries", "created_at", "slot_at", "due_at", "armed_at",
        "started_at", "ended_at", "running_since", "late_ms", "duration_ms", "progress", "args",
        "result", "settled", "origin", "waits_for", "gate", "held_by", "reserved_at", "expires_at", "attempt_list",
        "logs",
    ]  # fmt: skip
    assert (run["result"], run["target"], run["waits_for"]) == ({"ticks": 1}, None, [])
    assert run["node"] == run["attempt_list"][0]["node"]
    [attempt] = run["attempt_list"]
    instants = [attempt[f"{name}_at"] for name in ("reserved", "armed", "due", "started", "ended")]
    assert instants == sorted(instants)


def test_json_of_one_that_waits_and_one_that_runs(call: Call, cluster: Path):
    waits, runs = (json.loads(call("show", run, "--db", cluster, "--json").output) for run in (2, 1))
    assert (waits["gate"], waits["held_by"], waits["args"]) == ("limit:mail", [1], {"to": "ann"})
    assert (runs["node"], runs["reserved_at"]) == ("web-1", "2026-03-28T10:59:59.000000Z")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("99", "RUN: expected a stored run, got 99; 'onthedot runs --db "),
        ("zero", "expected the number of a run, got 'zero'"),
        ("0", "expected a stored run, got 0"),
    ],
)
def test_what_is_not_there_is_refused(call: Call, database: Path, run: str, message: str):
    result = call("show", run, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
