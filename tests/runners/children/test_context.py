"""A handler in a child process and its context: what it leaves with its run, and what it is told."""

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.model.events import AttemptEnded
from onthedot.model.run import Checkpoint, Lease, Progress
from onthedot.node.engine import Engine
from onthedot.output.run_output import AttemptOutput, read_output
from onthedot.runners.child_messages import lease_from_json, lease_to_json
from onthedot.runners.notes import LOG_LIMIT
from onthedot.stores.memory import MemoryStore
from onthedot.stores.values import Note
from tests.observe.sample_events import lease
from tests.runners.children import handlers
from tests.runners.children.test_processes import Node, pid_of, result_of, until_written

pytestmark = pytest.mark.slow

AGAIN: dict[str, Any] = {"retry": otd.Retry(2, delay="1ms")}


async def logs_of(node: Node, run_id: int) -> str:
    return "".join(log.text for log in await node.sched.logs(run_id))


async def test_the_next_attempt_goes_on_where_a_killed_child_had_saved():
    async with Node(handlers.pages, **AGAIN, timeout="60s") as node:
        asked = await node.sched.submit("pages")
        told = await asked.result(timeout="30s")
        run = await node.shown(asked.id)
        logs = await logs_of(node, asked.id)
    assert isinstance(told, dict)
    assert (told["first"], told["last"], told["stop"]) == (5, 9, False)
    assert (run.attempts, run.failures, run.progress) == (2, 1, (9, 10))
    assert "attempt 2: page 5\n" in logs
    assert "attempt 2: page 9\n" in logs
    assert run.started_at is not None
    deadline = datetime.fromisoformat(str(told["deadline"]))
    assert deadline == to_datetime(run.started_at) + timedelta(seconds=60)


async def test_what_a_child_logs_has_its_instant_and_stream():
    async with Node(handlers.chatters) as node:
        asked = await node.sched.submit("chatters")
        await asked.result(timeout="30s")

        async def read(engine: Engine) -> list[AttemptOutput]:
            return await read_output(engine.store, None, asked.id)

        [said] = await node.sched._running().on_engine(read)
        run = await node.shown(asked.id)
    assert said.records is not None
    assert said.records[0].text.startswith("line 0\nline 1\n")
    assert said.records[-1].text.endswith("line 19999\n")
    assert {(record.stream, record.step) for record in said.records} == {("log", ""), ("otd", "")}  # what is left out
    assert run.started_at is not None
    assert abs(said.records[0].at - run.started_at) < 30 * SECOND


async def test_a_plain_function_saves_and_is_resumed():
    async with Node(handlers.pages_blocking, **AGAIN) as node:
        asked = await node.sched.submit("pages_blocking")
        assert await asked.result(timeout="30s") == {"first": 5, "last": 9}
        assert (await node.shown(asked.id)).progress == (9, 10)


async def test_arguments_that_do_not_fit_are_not_tried_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otd.Scheduler, "_check_signature", lambda *_: None)  # as if another program had asked for it
    async with Node(handlers.note, **AGAIN) as node:
        asked = await node.sched.submit("note", {"path": 3, "text": "x"})
        with pytest.raises(otd.RunFailed, match=r"BadArguments: arguments do not fit note.*path: expected str, got 3"):
            await asked.result(timeout="30s")
        assert (await node.shown(asked.id)).attempts == 1


async def test_without_a_time_out_there_is_no_deadline():
    async with Node(handlers.has_a_deadline) as node:
        assert result_of(await node.run("has_a_deadline")) == "None"


async def test_a_log_without_end_is_bounded_and_the_last_words_are_kept():
    async with Node(handlers.chatters, settings=otd.Settings(processes=1)) as node:
        run = await node.run("chatters")
        logs = await logs_of(node, run.id)
    assert (run.state, run.progress) == ("succeeded", (19_999, None))
    assert logs.startswith("line 0\n")
    assert logs.endswith("line 19999\n")
    assert len(logs) < LOG_LIMIT + 100


class Telling(MemoryStore):
    """Says when the progress that it waits for is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        accepted = await super().note(notes, now=now)
        if any(note.progress == Progress(2, 3) for note in notes):
            self.written.set()
        return accepted


async def test_what_was_told_last_is_seen_while_the_handler_is_silent(tmp_path):
    path, store = tmp_path / "go on", Telling()
    async with Node(handlers.tells_and_waits, store=store) as node:
        asked = await node.sched.submit("tells_and_waits", {"path": str(path)})
        assert await asyncio.to_thread(store.written.wait, 20)
        assert await logs_of(node, asked.id) == "here\n"
        path.touch()
        await asked.result(timeout="20s")


class Thief(MemoryStore):
    """From the second checkpoint on the run is somebody else's."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        stolen = any(checkpoint.revision > 1 for _, checkpoint in saves)
        return [False] * len(saves) if stolen else await super().checkpoint(saves, now=now)


async def test_a_child_that_has_lost_its_lease_is_told():
    store = Thief()
    async with Node(handlers.saves_twice, store=store) as node:
        run = await node.run("saves_twice")
    assert result_of(run).startswith("LeaseLost: run 1: attempt 1 has lost its lease")
    assert await store.queries.get_checkpoint(run.id) == Checkpoint(1, "1")


async def test_a_question_that_nobody_waits_for_is_answered_before_the_next_run():
    async with Node(handlers.leaves_a_question, handlers.where) as node:
        first, second = await node.run("leaves_a_question"), await node.run("where")
    assert first.state == "succeeded"
    assert pid_of(second)


async def test_what_is_no_checkpoint_is_refused_in_the_child():
    async with Node(handlers.not_a_checkpoint) as node:
        run = await node.run("not_a_checkpoint")
    assert "checkpoint: expected JSON" in (run.error or "")


@pytest.mark.parametrize("function", [handlers.sees_the_cancel, handlers.sees_the_cancel_async])
async def test_a_cancelled_handler_sees_it(function, tmp_path):
    path = tmp_path / "journal"
    async with Node(function, settings=otd.Settings(processes=1)) as node:
        run_id = (await node.sched.submit(function, {"path": str(path)})).id
        await until_written(path)
        await node.sched.cancel(run_id, why="enough")
        await node.watch.until_count(AttemptEnded, 1)
        assert (await node.shown(run_id)).state == "cancelled"
    assert path.read_text() == "cancelled: True"


class Silent(MemoryStore):
    """Never says that a checkpoint is saved."""

    async def checkpoint(self, saves: Any, *, now: Any = None) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "kind",
    [
        "two at once", "no answer wanted", "no JSON", "too large", "no revision", "a log without end", "no numbers",
        "another word",
    ],
)  # fmt: skip
async def test_a_child_that_speaks_out_of_turn_is_ended(kind):
    async with Node(handlers.asks_too_much, handlers.where, store=Silent()) as node:
        run, after = await node.run("asks_too_much", kind=kind), await node.run("where")
    assert run.state == "dead"
    assert "expected" in (run.error or "")
    assert pid_of(after)


def test_a_lease_crosses_with_its_checkpoint():
    given = lease(checkpoint=Checkpoint(3, '{"page":7}'))
    assert lease_from_json(json.loads(json.dumps(lease_to_json(given)))) == given


async def test_a_child_whose_store_is_away_can_be_stopped():
    node = Node(handlers.saves_twice, store=Silent(), timeout="300ms")
    node.sched.job(isolation="process")(handlers.where)  # which has all the time of a slow machine
    async with node:
        run, after = await node.run("saves_twice"), await node.run("where")
    assert "took longer than its time-out" in (run.error or "")
    assert pid_of(after)


async def test_a_transaction_is_refused_where_the_job_is_defined():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError, match="a transaction cannot cross to another process"):
        sched.job(isolation="process", guarantee="exactly_once")(handlers.pages)
    assert sched.jobs == {}
