"""A cancel from another process stops the attempt at once, and its answer agrees with what happens."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from onthedot.model.run import RunState
from onthedot.stores.values import CancelAnswer
from tests.lanes import SOAK
from tests.processes.client import Client, client
from tests.processes.history import broken_rules
from tests.processes.kit import SECOND, Cluster, cluster, now
from tests.processes.node import NAP, NAP_ONCE, settings
from tests.processes.verdicts import middle

SEED = int(os.environ.get("ONTHEDOT_SEED", "20261115"))
RACES = 2_000 if SOAK else 200
LANES = 8
LONG = 60.0


def stop(nodes: Cluster) -> None:
    for node in nodes.living():
        node.terminate()
    for node in nodes.living():
        node.wait_stopped()


@pytest.mark.slow
async def test_an_attempt_is_stopped_from_another_process(tmp_path, capsys):
    with cluster(tmp_path) as nodes:
        nodes.boot("worker", program="naps", lease=15).wait_for("ready")
        async with client(nodes) as asking:
            waits = [await cancel_one(asking, job) for job in (NAP, NAP_ONCE) * 4]
        stop(nodes)
        assert await broken_rules(nodes) == []
    with capsys.disabled():
        print(f"\ncancel in one process to end in another: median {middle(waits) * 1000:.0f} ms, ", end="")
        print(f"longest {max(waits) / 1000:.0f} ms of {len(waits)}")
    assert middle(waits) < 2.0  # by a hint: heartbeats are 5 s apart
    assert max(waits) < settings("", 15).beat_every + 5 * SECOND  # by a heartbeat, if the hint was lost


async def cancel_one(asking: Client, job: str) -> int:
    """Start a run and cancel it. Return after how many microseconds its handler was stopped."""
    run = await asking.submit(job, seconds=LONG)
    asking.wait_started(run)
    asked = now()
    [answer] = await asking.store.cancel([run], why="wrong customer")
    assert answer == CancelAnswer("asked", RunState.RUNNING)
    stopped = asking.nodes.wait_for_entry("stopped", lambda entry: entry["run"] == run, f"run {run} to be stopped")
    asking.wait_ended([run])
    found = await asking.run(run)
    assert (found.state, found.reason, found.attempts) == ("cancelled", "wrong customer", 1)
    assert await asking.store.cancel([run], why="again") == [CancelAnswer("ended", RunState.CANCELLED)]
    return int(stopped["at"] - asked)


@pytest.mark.slow
async def test_the_answer_of_a_cancel_is_true_even_in_a_race(tmp_path, capsys):
    """Some cancels come before the start, some during the attempt, some at its end. Every answer must be true."""
    answers: dict[int, CancelAnswer] = {}
    with cluster(tmp_path) as nodes:
        for name in ("a", "b"):
            nodes.boot(name, program="naps", lease=15)
        for node in nodes.nodes:
            node.wait_for("ready")
        async with client(nodes) as asking:
            lanes = (race(asking, random.Random(SEED + lane), answers) for lane in range(LANES))
            await asyncio.gather(*lanes)
            asking.wait_ended(list(answers))
            found = {run: await asking.run(run) for run in answers}
        stop(nodes)
        assert await broken_rules(nodes) == []
        noted: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for event in ("start", "stopped", "end"):
            for entry in nodes.entries(event):
                noted[entry["run"]].append(entry)
    seen = Counter((answer.kind, str(found[run].state)) for run, answer in answers.items())
    with capsys.disabled():
        print(f"\n{len(answers)} cancels against starts and ends (seed {SEED}): {dict(seen)}")
    for run, answer in answers.items():
        check_answer(run, answer, found[run].state, [entry["event"] for entry in noted[run]])
    assert len(answers) == RACES
    assert {kind for kind, _ in seen} >= {"cancelled", "asked"}, f"expected both kinds of answers, got {seen}"


async def race(asking: Client, chance: random.Random, answers: dict[int, CancelAnswer]) -> None:
    for number in range(RACES // LANES):
        seconds = chance.uniform(0, 0.1)
        if number % 5 == 4:
            await cancel_while_it_runs(asking, answers)
            continue
        run = await asking.submit(NAP, seconds=seconds)
        # Cancel at once, near the start, or near the end. Another process hears of them after about 50 ms.
        await asyncio.sleep((0.0, chance.uniform(0, 0.1), seconds + chance.uniform(0, 0.1))[number % 3])
        [answers[run]] = await asking.store.cancel([run], why="raced")


async def cancel_while_it_runs(asking: Client, answers: dict[int, CancelAnswer]) -> None:
    """Cancel a long attempt, which works on slow machines too."""
    run = await asking.submit(NAP, seconds=LONG)
    await asyncio.to_thread(asking.wait_started, run)
    [answers[run]] = await asking.store.cancel([run], why="raced")


def check_answer(run: int, answer: CancelAnswer, state: RunState, noted: list[str]) -> None:
    """Check that a run cancelled while it waits never starts, and that the answer agrees with the stored end (S13)."""
    match answer.kind:
        case "cancelled":
            assert (state, noted) == (RunState.CANCELLED, []), f"run {run}: {state} {noted}"
        case "ended":
            assert (state, noted) == (answer.state, ["start", "end"]), f"run {run}: {answer} {state} {noted}"
        case "asked":
            expected = [["start", "stopped"], []] if state is RunState.CANCELLED else [["start", "end"]]
            assert noted in expected, f"run {run}: {answer} {state} {noted}"
            assert state in (RunState.CANCELLED, RunState.SUCCEEDED), f"run {run}: {state}"
        case _:
            raise AssertionError(f"run {run}: {answer}")
