"""`onthedot runs | show | cancel | retry`: they list, explain, end and repeat runs."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.ids import LeaseIds
from onthedot.model.errors import UnknownRun
from onthedot.model.job import Call as CallTask
from onthedot.model.job import Job
from onthedot.model.run import NewRun, RunState
from onthedot.operations.open_verbs import opened
from onthedot.stores.sqlite import SqliteStore
from onthedot.stores.values import ReserveRequest
from onthedot.testing import Harness, run_virtual
from tests.cli.conftest import AskStore, Call, seconds
from tests.runners.program.plain_guard import guard

TABLE = r"""
RUN  JOB     STATE      DUE (CET)  LATE    TOOK     TRIES  NOTE
6    long    running    12:00:20   0.0 ms  7.0 s …  1
3    tick    scheduled  12:00:30   -       -        0
7    tick    scheduled  12:00:40   -       -        0
8    tick    scheduled  12:00:50   -       -        0
2    tick    succeeded  12:00:20   0.0 ms  0.0 ms   1
1    tick    succeeded  12:00:10   0.0 ms  0.0 ms   1
4    broken  dead       12:00:06   0.0 ms  0.0 ms   2      failed 2 times: ValueError: line one\nline two
5    poll    succeeded  12:00:00   0.0 ms  0.0 ms   1
"""


MORE = "showing 2 runs, and there are more; -n sets how many"


def numbers(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [int(line.split()[0]) for line in result.output.splitlines()[1:] if line[0].isdecimal()]


def test_runs_are_listed_in_a_table(call: Call, database: Path):
    result = call("runs", "--db", database)
    assert result.exit_code == 0
    assert result.output == TABLE.lstrip()


def test_the_list_can_be_filtered_and_limited(call: Call, database: Path):
    assert numbers(call("runs", "--db", database, "--job", "tick", "-n", "2")) == [3, 7]
    assert MORE in call("runs", "--db", database, "--job", "tick", "-n", "2").output
    assert len(json.loads(call("runs", "--db", database, "-n", "2", "--json").stdout)) == 2
    assert numbers(call("runs", "--db", database, "--state", "dead", "--state", "running")) == [6, 4]


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        (["--since", "12:00:20"], [6, 3, 7, 8, 2]),
        (["--since", "-8s", "--until", "+5s"], [6, 3, 2]),
        (["--until", "2026-03-28 12:00:10"], [4, 5]),
        (["--since", "today", "--until", "saturday 12:00:05"], [5]),
        (["--since", "11:00:20", "--until", "11:00:25", "--utc"], [6, 2]),
        (["--since", "tomorrow"], []),
    ],
)
def test_the_list_can_be_limited_to_a_range_of_time(call: Call, database: Path, range_: list[str], expected: list[int]):
    result = call("runs", "--db", database, *range_)
    assert numbers(result) == expected if expected else result.output == "no runs match\n"


def test_times_are_in_the_users_zone_or_in_utc(call: Call, database: Path):
    assert "DUE (CET)" in call("runs", "--db", database).output
    for arguments in (["runs", "--utc"], ["--utc", "runs"]):
        told = call(*arguments, "--db", database).output
        assert "DUE (UTC)" in told
        assert "11:00:06" in told
    assert "2026-03-28 11:00:05 +00:00" in call("show", "4", "--utc", "--db", database).output
    assert json.loads(call("show", "4", "--db", database, "--json").output)["slot_at"].startswith("2026-03-28T11:00:05")


def test_an_empty_list_says_so(call: Call, database: Path):
    assert call("runs", "--db", database, "--state", "lost").output == "no runs match\n"


def test_the_list_can_be_json(call: Call, database: Path):
    [run] = json.loads(call("runs", "--db", database, "--job", "broken", "--json").output)
    assert (run["run_id"], run["state"], run["failures"]) == (4, "dead", 2)
    assert run["error"] == "ValueError: line one\nline two"
    assert run["due_at"] == "2026-03-28T11:00:06.000000Z"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--job", "tikc"], "--job: expected a stored job, got 'tikc', did you mean 'tick'?"),
        (["--state", "done"], "'done' is not one of 'scheduled', 'reserved', 'running'"),
        (["-n", "0"], "0 is not in the range"),
        (["--since", "noonish"], "--since: expected a point in time like 'yesterday', '-2h', '2h ago', '2026-11-17'"),
        (["--since", "2h"], "did you mean '2h ago'?"),
        (["--until", "x" * 5_000], "--until: expected a point in time like"),
        (["--since", "-1h", "--until", "-2h"], "--until: expected an instant after --since"),
        (["4"], "unexpected extra argument (4)"),
    ],
)
def test_bad_filters_are_refused(call: Call, database: Path, arguments: list[str], message: str):
    result = call("runs", *arguments, "--db", database)
    assert result.exit_code == 2
    assert message in result.output


def test_a_cancelled_run_is_shown_as_cancelled_once(call: Call, cluster: Path):
    assert call("cancel", "3", "--db", cluster).output == "run 3 is cancelled\n"
    assert "state     cancelled\n" in call("show", "3", "--db", cluster).output
    assert "cancelled; cancelled" not in call("logs", "3", "-f", "--db", cluster).stderr
    [row] = call("runs", "--state", "cancelled", "--db", cluster).output.splitlines()[1:2]
    assert row.count("cancelled") == 1


def test_waiting_and_running_runs_are_cancelled(call: Call, cluster: Path, ask_store: AskStore):
    assert call("cancel", "3", "--reason", "gone", "--db", cluster).output == "run 3 is cancelled\n"
    run = ask_store(lambda store: store.queries.get_run(3))
    assert (run.state, run.reason) == (RunState.CANCELLED, "gone")
    told = json.loads(call("cancel", "1", "--db", cluster, "--json").output)
    assert told == {"run_id": 1, "answer": "asked", "state": "running"}
    assert ask_store(lambda store: store.queries.why_waiting(1)).cancel_wanted == "cancelled"
    assert "its attempt is asked to stop: cancelled" in call("show", "1", "--db", cluster).output


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
    """The facts that `show` prints of a run before its attempts: their lines by name."""
    result = call("show", run, "--db", database)
    assert result.exit_code == 0, result.output
    found: dict[str, list[str]] = {}
    name = ""
    for line in result.output.partition("\n\n")[0].splitlines():
        name = line[:10].strip() or name
        found.setdefault(name, []).append(line[10:])
    return found


def test_show_prints_a_finished_run_with_its_attempts(call: Call, database: Path):
    told, table, log = call("show", "4", "--db", database).output.rstrip().split("\n\n")
    assert told == DETAIL.strip()
    head, first, second = (re.split(r" {2,}", line) for line in table.splitlines())
    assert head == ["TRY", "OUTCOME", "NODE", "DUE (CET)", "RESERVED", "ARMED", "STARTED", "ENDED", "ERROR"]
    assert first[:2] == ["1", "failed"]
    assert second[3:] == ["12:00:06", "-1.0 s", "-5.0 ms", "+0.0 ms", "+0.0 ms", r"ValueError: line one\nline two"]
    assert log.startswith("log of attempt 2:\n  ValueError came from (last frame last):\n")
    assert log.endswith('in broken\n      raise ValueError("line one\\nline two")')


def test_show_prints_the_running_attempt(call: Call, cluster: Path):
    table = call("show", "1", "--db", cluster).output.rstrip().split("\n\n")[1]
    row = re.split(r" {2,}", table.splitlines()[1])
    assert row == ["1", "running", "web-1", "11:59:55", "+4.0 s", "+4.0 s", "+4.0 s", "-"]


def test_show_prints_the_progress_of_a_running_attempt(call: Call, cluster: Path):
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
def test_show_explains_why_a_run_waits(call: Call, cluster: Path, run: int, reasons: list[str]):
    assert facts(call, run, cluster).get("waits for", []) == reasons
    assert json.loads(call("show", run, "--db", cluster, "--json").output)["waits_for"] == reasons


def test_show_names_paused_jobs_and_queues(call: Call, cluster: Path):
    call("pause", "mail", "--db", cluster, "--reason", "moving")
    call("queue", "pause", "mail", "--db", cluster, "--reason", "lunch")
    assert facts(call, 3, cluster)["waits for"] == [
        "its job, which is paused: moving",
        "its queue 'mail', which is paused: lunch",
        "its instant, 2026-03-28T11:00:03+00:00",
    ]


def test_show_prints_arguments_queue_and_namespace(call: Call, cluster: Path):
    told = facts(call, 2, cluster)
    assert (told["args"], told["queue"]) == (['{"to":"ann"}'], ["mail, priority high"])
    assert facts(call, 6, cluster)["run"] == ["6 of team/own"]


def test_show_prints_the_end_of_a_long_log_without_control_characters(call: Call, tmp_path: Path):
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


def test_show_can_print_json(call: Call, database: Path):
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


def test_json_has_the_gate_of_a_waiting_run_and_the_node_of_a_running_one(call: Call, cluster: Path):
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
def test_an_unknown_run_is_refused(call: Call, database: Path, run: str, message: str):
    result = call("show", run, "--db", database)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


__all__ = ["guard"]  # a fixture


@pytest.fixture
def failed(tmp_path: Path, guard: object) -> Path:
    """A store in which run 1 failed in its second step."""
    file = tmp_path / "it.db"
    sched = otd.Scheduler(f"sqlite:///{file}", settings=otd.Settings(spool=str(tmp_path / "spool"), kill_after=SECOND))
    sched.steps("it", [otd.Step(name="a", script="true"), otd.Step(name="b", script="exit 3")])

    async def fail() -> None:
        async with sched:
            with pytest.raises(otd.RunFailed, match="step 'b': exit code 3"):
                await (await sched.submit("it")).result(timeout="20s")

    asyncio.run(fail())
    return file


@pytest.mark.slow
def test_a_retry_begins_at_the_failed_or_a_named_step(call: Call, failed: Path):
    assert call("retry", 1, "--db", failed).output == "run 2 of it is stored; it continues run 1\n"
    run = json.loads(call("retry", 1, "--from-step", "a", "--db", failed, "--json").output)
    assert (run["run_id"], run["trigger"][:10]) == (3, "rerun:1:0:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["9"], "RUN: expected a stored run, got 9"),
        (["1", "--from-step", "c"], "from_step: expected a step of job 'it', got 'c'"),
    ],
)
@pytest.mark.slow
def test_bad_input_of_a_retry_is_refused(call: Call, failed: Path, arguments: list[str], said: str):
    result = call("retry", *arguments, "--db", failed)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.slow
def test_a_retry_of_an_unfinished_run_is_refused(call: Call, failed: Path):
    call("retry", 1, "--db", failed)
    result = call("retry", 2, "--db", failed)
    assert result.exit_code == 2
    assert "RUN: run 2: expected one that has ended, it is scheduled" in result.output


COMMANDS = [["show"], ["logs"], ["cancel"], ["retry"], ["artifacts", "list"], ["dead", "replay"], ["dead", "discard"]]
HUGE = "99999999999999999999999"


@pytest.mark.parametrize("number", [HUGE, "9007199254740993", "0", "9" * 5_000])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_an_impossible_run_id(call: Call, database: Path, command: list[str], number: str):
    told = call(*command, number, "--db", database)
    assert told.exit_code == 2, told.output
    assert f"expected a stored run, got {number[:100]}; 'onthedot runs" in " ".join(told.output.split())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_job_name_as_run_id(call: Call, database: Path, command: list[str]):
    told = call(*command, "manage", "--db", database)
    assert told.exit_code == 2, told.output
    expected = "RUN: expected the number of a run, got 'manage'; 'onthedot runs --job manage --db"
    assert expected in " ".join(told.output.split())
    assert "got 'a b'; 'onthedot runs --db" in call(*command, "a b", "--db", database).output


@pytest.mark.parametrize("number", [int(HUGE), 0, 2**63, -1])
async def test_the_library_finds_no_run_with_an_impossible_id(database: Path, number: int):
    async with opened(f"sqlite:///{database}") as there:
        verbs = there.verbs()
        assert await verbs.get_run(number) is None
        assert (await verbs.cancel(number)).kind == "unknown"
        assert await verbs.history(number) == []
        assert await verbs.logs(number) == []
        assert await verbs.discard(number) == 0
        for refused in (verbs.retry_run(number), verbs.replay(number), verbs.result(number)):
            with pytest.raises(UnknownRun, match=f"there is no run {number}: expected"):
                await refused


def test_only_the_runs_of_one_node(call: Call, cluster: Path):
    held = json.loads(call("runs", "--node", "web-1", "--db", cluster, "--json").stdout)
    assert held
    assert {run["node"] for run in held} == {"web-1"}
    assert numbers(call("runs", "--node", "web-1", "--db", cluster)) == [run["run_id"] for run in held]
    assert call("runs", "--node", "web-2", "--db", cluster).output == "no runs match\n"
    assert "NODE" not in call("runs", "--db", cluster).output, "only one node had any of them"


def test_the_node_is_shown_if_there_are_several(call: Call, cluster: Path):
    async def reserve() -> None:
        store = await SqliteStore.open(cluster)
        disk = (await store.put_job(Job(name="disk", task=CallTask(handler="disk")), now=seconds(-9))).record
        await store.submit([NewRun(disk.id, "submit:1", seconds(-1))], now=seconds(-9))
        ask = ReserveRequest("web-2-i", LeaseIds("m", 1), 1, tasks=frozenset({"call:disk"}), number=1)
        assert len((await store.reserve(ask, now=seconds(0))).armed) == 1
        await store.close()

    asyncio.run(reserve())
    head, *rows = (re.split(r" {2,}", line) for line in call("runs", "--db", cluster).output.splitlines())
    assert head[-2:] == ["NODE", "NOTE"]
    assert {("mail", "web-1"), ("disk", "web-2"), ("scan", "-")} <= {(row[1], row[7]) for row in rows}
