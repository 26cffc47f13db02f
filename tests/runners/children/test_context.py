"""The context of a handler in a child process: checkpoints, progress, logs, time-outs and cancellation."""

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

RETRIED: dict[str, Any] = {"retry": otd.Retry(2, delay="1ms")}


async def logs_of(node: Node, run_id: int) -> str:
    return "".join(log.text for log in await node.sched.logs(run_id))


async def test_the_next_attempt_resumes_at_the_checkpoint_of_a_killed_child():
    async with Node(handlers.pages, **RETRIED, timeout="60s") as node:
        asked = await node.sched.submit("pages")
        result = await asked.result(timeout="30s")
        run = await node.get_run(asked.id)
        logs = await logs_of(node, asked.id)
    assert isinstance(result, dict)
    assert (result["first"], result["last"], result["stop"]) == (5, 9, False)
    assert (run.attempts, run.failures, run.progress) == (2, 1, (9, 10))
    assert "attempt 2: page 5\n" in logs
    assert "attempt 2: page 9\n" in logs
    assert run.started_at is not None
    deadline = datetime.fromisoformat(str(result["deadline"]))
    assert deadline == to_datetime(run.started_at) + timedelta(seconds=60)


async def test_log_lines_of_a_child_have_their_instant_and_stream():
    async with Node(handlers.chatters) as node:
        asked = await node.sched.submit("chatters")
        await asked.result(timeout="30s")

        async def read(engine: Engine) -> list[AttemptOutput]:
            return await read_output(engine.store, None, asked.id)

        [output] = await node.sched._running().on_engine(read)
        run = await node.get_run(asked.id)
    assert output.records is not None
    assert output.records[0].text.startswith("line 0\nline 1\n")
    assert output.records[-1].text.endswith("line 19999\n")
    # "otd" is the note about omitted lines.
    assert {(record.stream, record.step) for record in output.records} == {("log", ""), ("otd", "")}
    assert run.started_at is not None
    assert abs(output.records[0].at - run.started_at) < 30 * SECOND


async def test_a_plain_function_resumes_at_its_checkpoint():
    async with Node(handlers.pages_blocking, **RETRIED) as node:
        asked = await node.sched.submit("pages_blocking")
        assert await asked.result(timeout="30s") == {"first": 5, "last": 9}
        assert (await node.get_run(asked.id)).progress == (9, 10)


async def test_a_run_with_wrong_arguments_is_not_retried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otd.Scheduler, "_check_signature", lambda *_: None)  # as if another program had submitted it
    async with Node(handlers.note, **RETRIED) as node:
        asked = await node.sched.submit("note", {"path": 3, "text": "x"})
        with pytest.raises(otd.RunFailed, match=r"BadArguments: arguments do not fit note.*path: expected str, got 3"):
            await asked.result(timeout="30s")
        assert (await node.get_run(asked.id)).attempts == 1


async def test_a_job_without_a_time_out_has_no_deadline():
    async with Node(handlers.has_a_deadline) as node:
        assert result_of(await node.run("has_a_deadline")) == "None"


async def test_a_long_log_is_cut_and_keeps_its_last_lines():
    async with Node(handlers.chatters, settings=otd.Settings(processes=1)) as node:
        run = await node.run("chatters")
        logs = await logs_of(node, run.id)
    assert (run.state, run.progress) == ("succeeded", (19_999, None))
    assert logs.startswith("line 0\n")
    assert logs.endswith("line 19999\n")
    assert len(logs) < LOG_LIMIT + 100


class SignallingStore(MemoryStore):
    """Sets an event when the expected progress is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        accepted = await super().note(notes, now=now)
        if any(note.progress == Progress(2, 3) for note in notes):
            self.written.set()
        return accepted


async def test_the_last_notes_are_visible_while_the_handler_waits(tmp_path):
    path, store = tmp_path / "go on", SignallingStore()
    async with Node(handlers.reports_and_waits, store=store) as node:
        asked = await node.sched.submit("reports_and_waits", {"path": str(path)})
        assert await asyncio.to_thread(store.written.wait, 20)
        assert await logs_of(node, asked.id) == "here\n"
        path.touch()
        await asked.result(timeout="20s")


class LeaseStealingStore(MemoryStore):
    """Refuses every checkpoint after the first, as if another node had the run."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        stolen = any(checkpoint.revision > 1 for _, checkpoint in saves)
        return [False] * len(saves) if stolen else await super().checkpoint(saves, now=now)


async def test_a_child_gets_an_error_if_its_lease_is_lost():
    store = LeaseStealingStore()
    async with Node(handlers.saves_twice, store=store) as node:
        run = await node.run("saves_twice")
    assert result_of(run).startswith("LeaseLost: run 1: attempt 1 has lost its lease")
    assert await store.queries.get_checkpoint(run.id) == Checkpoint(1, "1")


async def test_an_abandoned_checkpoint_is_answered_before_the_next_run():
    async with Node(handlers.abandons_a_checkpoint, handlers.where) as node:
        first, second = await node.run("abandons_a_checkpoint"), await node.run("where")
    assert first.state == "succeeded"
    assert pid_of(second)


async def test_a_checkpoint_that_is_not_json_is_refused_in_the_child():
    async with Node(handlers.not_a_checkpoint) as node:
        run = await node.run("not_a_checkpoint")
    assert "checkpoint: expected JSON" in (run.error or "")


@pytest.mark.parametrize("function", [handlers.sees_the_cancel, handlers.sees_the_cancel_async])
async def test_a_cancelled_handler_sees_its_cancellation(function, tmp_path):
    path = tmp_path / "journal"
    async with Node(function, settings=otd.Settings(processes=1)) as node:
        run_id = (await node.sched.submit(function, {"path": str(path)})).id
        await until_written(path)
        await node.sched.cancel(run_id, why="enough")
        await node.watch.until_count(AttemptEnded, 1)
        assert (await node.get_run(run_id)).state == "cancelled"
    assert path.read_text() == "cancelled: True"


class SilentStore(MemoryStore):
    """Never answers a checkpoint."""

    async def checkpoint(self, saves: Any, *, now: Any = None) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "kind",
    [
        "two at once", "no answer wanted", "no JSON", "too large", "no revision", "a log without end", "no numbers",
        "another word",
    ],
)  # fmt: skip
async def test_a_child_that_breaks_the_protocol_is_ended(kind):
    async with Node(handlers.breaks_the_protocol, handlers.where, store=SilentStore()) as node:
        run, after = await node.run("breaks_the_protocol", kind=kind), await node.run("where")
    assert run.state == "dead"
    assert "expected" in (run.error or "")
    assert pid_of(after)


def test_a_lease_arrives_with_its_checkpoint():
    given = lease(checkpoint=Checkpoint(3, '{"page":7}'))
    assert lease_from_json(json.loads(json.dumps(lease_to_json(given)))) == given


async def test_a_child_can_be_stopped_while_the_store_does_not_answer():
    node = Node(handlers.saves_twice, store=SilentStore(), timeout="300ms")
    node.sched.job(isolation="process")(handlers.where)  # without a time-out, because the machine may be slow
    async with node:
        run, after = await node.run("saves_twice"), await node.run("where")
    assert "took longer than its time-out" in (run.error or "")
    assert pid_of(after)


async def test_a_transaction_is_refused_at_the_definition():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError, match="a transaction cannot cross to another process"):
        sched.job(isolation="process", guarantee="exactly_once")(handlers.pages)
    assert sched.jobs == {}
