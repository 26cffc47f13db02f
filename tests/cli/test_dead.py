"""`onthedot dead`: it lists dead letters by error, replays them and discards them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.cli import dead
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.cli.conftest import Call

NOON = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)


@pytest.fixture
def box(tmp_path: Path, set_clock: Callable[[str], None]) -> Path:
    """A store a minute after noon. Four runs died, one a second: three for orders without an answer, one unknown."""
    path = tmp_path / "dead.db"
    sched = otd.Scheduler("memory:")

    @sched.job
    async def charge(order: int) -> None:
        raise ConnectionError(f"no answer for order {order}") if order < 100 else KeyError(str(order))

    async def live() -> None:
        harness = Harness(NOON, store=lambda clock: SqliteStore.open(path, clock=clock, inline=True))
        await harness.start(sched)
        for order in (1, 2, 100, 3):
            await sched.submit("charge", {"order": order})
            await harness.advance("1s")
        await harness.stop()
        await harness.store.close()

    run_virtual(live())
    set_clock("2026-03-28T12:01:00+00:00")
    return path


def groups(call: Call, path: Path, *options: str) -> list[dict[str, object]]:
    result = call("dead", "list", "--db", path, "--json", *options)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.output)
    return found


def no_answer(call: Call, path: Path) -> str:
    [group] = [group for group in groups(call, path) if group["error_type"] == "ConnectionError"]
    return str(group["fingerprint"])


def test_dead_letters_are_listed_by_error(call: Call, box: Path, in_berlin: None):
    result = call("dead", "list", "--db", box)
    assert result.exit_code == 0
    head, first, second = (re.split(r" {2,}", line) for line in result.output.splitlines())
    assert head == ["FINGERPRINT", "JOB", "COUNT", "FIRST (CET)", "LAST", "RUN", "ERROR"]
    assert first[1:] == ["charge", "3", "13:00:00", "13:00:03", "4", "ConnectionError: no answer for order <n>"]
    assert second[1:] == ["charge", "1", "13:00:02", "13:00:02", "3", "KeyError: <text>"]


def test_a_limited_list_says_so(call: Call, box: Path):
    assert "only the newest 2 dead letters are counted" in call("dead", "list", "--db", box, "--limit", "2").output
    assert "only the newest" not in call("dead", "list", "--db", box, "--limit", "5").output


def test_the_list_can_be_json(call: Call, box: Path):
    first, second = groups(call, box)
    assert list(first) == [
        "fingerprint", "job", "namespace", "error_type", "error", "count", "first", "last", "example",
    ]  # fmt: skip
    assert (first["count"], first["first"], first["last"]) == (
        3, "2026-03-28T12:00:00.000000Z", "2026-03-28T12:00:03.000000Z",
    )  # fmt: skip
    assert second["example"]["args"] == {"order": 100}  # type: ignore[index]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (["--since", "-57500ms"], [1]),
        (["--until", "2026-03-28T12:00:02Z"], [2]),
        (["--job", "charge", "--limit", "2"], [1, 1]),
        (["--job", "none"], []),
        (["--namespace", "team"], []),
    ],
)
def test_the_list_can_be_filtered(call: Call, box: Path, options: list[str], counts: list[int]):
    assert [group["count"] for group in groups(call, box, *options)] == counts


def test_show_lists_the_runs_of_an_error(call: Call, box: Path, in_berlin: None):
    result = call("dead", "show", no_answer(call, box), "--db", box, "--limit", "2")
    assert [re.split(r" {2,}", line) for line in result.output.splitlines()] == [
        ["RUN", "JOB", "ENDED (CET)", "TRIES", "ARGS", "ERROR"],
        ["4", "charge", "13:00:03", "1", '{"order":3}', "ConnectionError: no answer for order 3"],
        ["2", "charge", "13:00:01", "1", '{"order":2}', "ConnectionError: no answer for order 2"],
        ["showing 2 dead letters, and there are more; --limit sets how many"],
    ]
    result = call("dead", "show", "nothing", "--db", box)
    assert result.exit_code == 2
    assert "FINGERPRINT: expected one of 'onthedot dead list --db " in result.output


def test_discard_of_more_than_the_limit_changes_nothing(call: Call, box: Path):
    result = call("dead", "discard", "--all", "--limit", "2", "--yes", "--db", box)
    assert (result.exit_code, "--limit: expected at most 2 dead letters, got more" in result.output) == (2, True)
    assert len(groups(call, box)) == 2, "no letter may be discarded"


def test_a_replay_by_run_id_creates_one_run_each(call: Call, box: Path):
    result = call("dead", "replay", "1", "3", "--db", box)
    stored = "run 5 of charge is stored; it repeats run 1\nrun 6 of charge is stored; it repeats run 3\n"
    assert (result.exit_code, result.output) == (0, stored)
    again = json.loads(call("dead", "replay", "1", "3", "--db", box, "--json").output)
    assert again["run_ids"] == [5, 6]
    assert [group["count"] for group in groups(call, box)] == [2]
    told = json.loads(call("show", "5", "--db", box, "--json").output)
    assert (told["trigger"], told["args"], told["state"]) == ("rerun:1", {"order": 1}, "scheduled")
    assert told["origin"] == 1
    assert "repeats   run 1\n" in call("show", "5", "--db", box).output
    assert "settled   replayed:5" in call("show", "1", "--db", box).output


def test_a_replay_at_a_rate_can_be_previewed(call: Call, box: Path):
    asked = ("dead", "replay", "--fingerprint", no_answer(call, box), "--rate", "1/30s", "--db", box)
    preview = call(*asked, "--dry-run")
    assert preview.output == (
        "3 dead letters: 3 new runs would be made, due from 2026-03-28 12:01:00 +00:00 to 2026-03-28 12:02:00 +00:00\n"
    )
    assert len(groups(call, box)) == 2
    done = json.loads(call(*asked, "--json").output)
    assert (done["runs"], done["run_ids"], done["last_due"]) == (3, [5, 6, 7], "2026-03-28T12:02:00.000000Z")
    assert call(*asked).output == "no dead letters match\n"
    assert [group["count"] for group in groups(call, box)] == [1]


def test_letters_are_discarded_by_run_id_or_all(call: Call, box: Path):
    assert call("dead", "discard", "--all", "--dry-run", "--db", box).output == "4 dead letters would be discarded\n"
    result = call("dead", "discard", "1", "2", "--why", "sent by hand", "--db", box)
    assert (result.exit_code, result.output) == (0, "2 dead letters discarded\n")
    assert call("dead", "discard", "1", "4", "--dry-run", "--db", box).output.startswith("1 dead letter would be")
    again = call("dead", "discard", "1", "4", "--db", box)
    assert again.exit_code == 2
    assert "RUN: expected dead letters only, got 1 that are none" in again.output
    assert "settled   discarded:sent by hand" in call("show", "1", "--db", box).output
    assert json.loads(call("dead", "discard", "--all", "--db", box, "--json").output)["discarded"] == 1
    assert call("dead", "list", "--db", box).output == "there are no dead letters\n"
    assert len(json.loads(call("runs", "--state", "dead", "--db", box, "--json").output)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "expected RUN, or --job, --fingerprint, --since or --until, or --all; got none of them"),
        (["discard"], "expected RUN, or --job, --fingerprint, --since or --until, or --all; got none of them"),
        (["replay", "1", "--all"], "expected RUN or what matches, got both; leave out --all"),
        (["replay", "1", "--job", "charge"], "expected RUN or what matches, got both; leave out --job"),
        (["replay", "99"], "RUN: there is no run 99"),
        (["replay", "--all", "--rate", "fast"], "--rate: expected N/TIME like '10/s' or '1/30s', got 'fast'"),
        (["replay", "--all", "--rate", "0/s"], "--rate: expected N/TIME"),
        (["replay", "--all", "--rate", "10/x"], "--rate: expected N/TIME"),
        (["replay", "--all", "--limit", "2"], "limit: expected at most 2 dead letters, got more"),
        (["list", "--since", "noon"], "--since: expected"),
        (["list", "--since", "-noon"], "since: expected"),
        (["discard", "1", "--why", "x" * 201], "why: expected at most 200 characters"),
        (["frobnicate"], "known: discard, list, replay, show"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call: Call, box: Path, arguments: list[str], message: str):
    result = call("dead", *arguments, *([] if arguments == ["frobnicate"] else ["--db", str(box)]))
    assert result.exit_code == 2
    assert message in result.output
    assert sum(int(str(group["count"])) for group in groups(call, box)) == 4


@pytest.mark.parametrize("name", ["list", "show", "replay", "discard"])
def test_each_command_has_help_with_examples(call: Call, name: str):
    assert f"Examples:\n    onthedot dead {name}" in call("dead", name, "--help").output


def test_a_list_that_was_narrowed_says_that_nothing_matches(call: Call, box: Path):
    for narrow in (["--job", "none"], ["--since", "-1s"], ["--namespace", "team"]):
        assert call("dead", "list", "--db", box, *narrow).output == "no dead letters match\n"


def test_a_second_replay_names_the_run_that_is_there(call: Call, box: Path):
    assert call("dead", "replay", "1", "--db", box).output == "run 5 of charge is stored; it repeats run 1\n"
    again = call("dead", "replay", "1", "2", "--db", box)
    first, second = again.output.splitlines()
    assert first.startswith("run 1 was replayed before, as run 5: no new run; 'onthedot show 5 --db ")
    assert second == "run 6 of charge is stored; it repeats run 2"
    assert again.exit_code == 0


def test_a_replay_of_all_names_the_new_runs(call: Call, box: Path):
    result = call("dead", "replay", "--all", "--yes", "--db", box)
    assert result.output == "4 dead letters: 4 new runs; runs 5, 6, 7, 8\n"


def test_a_replay_can_be_followed(call: Call, box: Path, monkeypatch: pytest.MonkeyPatch):
    followed: list[tuple[int, bool]] = []

    def follow(url: str, run_id: int, *, as_json: bool) -> int:
        followed.append((run_id, as_json))
        return 1

    monkeypatch.setattr(dead, "follow_run", follow)
    result = call("dead", "replay", "2", "--follow", "--db", box)
    assert (result.exit_code, result.stdout, followed) == (1, "", [(5, False)])
    assert result.stderr == "run 5 of charge is stored; it repeats run 2\n"
    assert call("dead", "replay", "2", "-f", "--json", "--db", box).output == ""
    assert followed[1:] == [(5, True)]


@pytest.mark.parametrize("given", [["1", "2"], ["--all"]])
def test_only_one_replay_can_be_followed(call: Call, box: Path, given: list[str]):
    result = call("dead", "replay", *given, "--follow", "--db", box)
    assert result.exit_code == 2
    assert f"--follow: expected one RUN, got {'2' if '2' in given else 'none'}" in result.output
    assert sum(int(str(group["count"])) for group in groups(call, box)) == 4
