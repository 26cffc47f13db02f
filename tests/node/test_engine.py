"""A whole node takes jobs from their definition to the verdict of each run, in virtual time on memory and SQLite."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

import onthedot as otd
from onthedot.clock import SECOND, to_datetime, to_micros
from onthedot.model.events import AttemptStarted, JobPut, NodeDraining, TermWon
from onthedot.model.job import Call, Job
from onthedot.model.run import NewRun, submit_trigger
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.node.nodes import Nodes

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(START)


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "engine.db", clock=clock, inline=True)


# Rare polls make a virtual hour fast. They change no result, because no start waits for a poll.
QUIET = otd.Settings(poll_every=30 * SECOND, expire_every=10 * SECOND)


def program(**options) -> otd.Scheduler:
    sched = otd.Scheduler("memory:", settings=QUIET)

    @sched.job(name="job", **options)
    async def job() -> None: ...

    return sched


def seconds_of(runs, *states: str) -> list[float]:
    return [(run.slot_at - T0) / SECOND for run in runs if run.state in (states or ("succeeded",))]


def play(scenario, open_store):
    """Run a scenario with a harness, and close its store."""

    async def main():
        harness = Harness(START, store=open_store)
        try:
            return await scenario(harness)
        finally:
            await harness.stop()
            await harness.store.close()

    return run_virtual(main())


def test_one_instant_and_one_delay_run_once(open_store):
    sched = program(schedules=[otd.at("2026-06-01T12:00:20Z"), otd.in_("40s")])

    async def scenario(harness):
        await harness.start(sched)
        await harness.advance("10m")
        job = await harness.store.queries.get_job("job")
        return await harness.runs("job"), job

    runs, record = play(scenario, open_store)
    assert seconds_of(runs) == [20, 40]
    assert len(runs) == 2
    assert record.state == "exhausted"


def test_a_delay_counts_from_its_definition_also_after_a_restart(open_store):
    async def scenario(harness):
        await harness.start(program(schedule=otd.in_("10m")))
        await harness.advance("5m")
        await harness.stop()
        await harness.start(program(schedule=otd.in_("10m")))
        await harness.advance("20m")
        return await harness.runs("job")

    assert seconds_of(play(scenario, open_store)) == [600]


def test_an_interval_repeats_and_can_be_edited(open_store):
    async def scenario(harness):
        await harness.start(program(schedule=otd.every("20s")))
        await harness.advance("65s")
        await harness.stop()
        await harness.start(program(schedule=otd.every("30s")))
        await harness.advance("60s")
        return await harness.runs("job"), await harness.skips("job")

    runs, skips = play(scenario, open_store)
    assert seconds_of(runs) == [20, 40, 60, 90, 120]
    assert all(run.started_at >= run.slot_at for run in runs if run.state == "succeeded")
    assert skips == []


@pytest.mark.slow
def test_run_once_with_a_cron_is_exactly_one_run(open_store):
    async def scenario(harness):
        sched = program(schedule=otd.cron("*/5 * * * *", run_once=True))
        await harness.start(sched)
        await harness.advance("30m")
        await harness.stop()
        await harness.start(program(schedule=otd.cron("*/5 * * * *", run_once=True), timeout="1h"))
        await harness.advance("30m")
        return await harness.runs("job")

    runs = play(scenario, open_store)
    assert [to_datetime(run.slot_at).strftime("%H:%M") for run in runs] == ["12:05"]


def test_a_fixed_delay_counts_from_the_end_of_the_last_run(open_store):
    sched = otd.Scheduler("memory:")

    @sched.job(name="job", schedule=otd.gap("10s"))
    async def job() -> None:
        await asyncio.sleep(5)

    async def scenario(harness):
        await harness.start(sched)
        await harness.advance("47s")
        return await harness.runs("job")

    runs = play(scenario, open_store)
    assert [round(second) for second in seconds_of(runs)] == [0, 15, 30]


def test_a_fixed_delay_continues_after_failures_and_crashes(open_store):
    sched = otd.Scheduler("memory:")

    @sched.job(name="job", schedule=otd.gap("10s"), guarantee="at_most_once")
    async def job() -> None:
        await asyncio.sleep(5)
        raise OSError("always")

    async def scenario(harness):
        await harness.start(sched)
        await harness.advance("17s")
        await harness.crash()  # in the middle of the second run
        await harness.advance("60s")
        await harness.start(sched)
        await harness.advance("40s")
        return await harness.runs("job")

    runs = play(scenario, open_store)
    assert [run.state for run in runs[:2]] == ["dead", "lost"]
    lost_at = (runs[1].ended_at - T0) / SECOND
    assert 77 <= lost_at < 80
    assert seconds_of(runs[2:3], "dead") == [pytest.approx(lost_at + 10)]


def test_several_schedules_of_one_job_keep_their_own_slots(open_store):
    sched = program(schedules=[otd.every("20s", id="short"), otd.every("50s", id="long")])

    async def scenario(harness):
        await harness.start(sched)
        await harness.advance("105s")
        return await harness.runs("job")

    runs = [run for run in play(scenario, open_store) if run.state == "succeeded"]
    short = [(run.slot_at - T0) // SECOND for run in runs if run.trigger == "schedule:short"]
    long = [(run.slot_at - T0) // SECOND for run in runs if run.trigger == "schedule:long"]
    assert (short, long) == ([20, 40, 60, 80, 100], [50, 100])


def test_runs_that_wait_at_a_stop_start_after_the_next_start(open_store):
    sched = program()

    async def scenario(harness):
        await harness.start(sched)
        record = await harness.store.queries.get_job("job")
        waiting = [NewRun(record.id, f"submit:{n}", T0 + (30 + n) * SECOND) for n in range(3)]
        await harness.store.submit(waiting)
        await harness.advance("29s")  # the next ones are in the worker's heap by now
        await harness.stop()
        between = [run.state for run in await harness.runs("job")]
        await harness.start(sched)
        await harness.advance("10s")
        return between, await harness.runs("job")

    between, runs = play(scenario, open_store)
    assert between == ["scheduled"] * 3
    assert seconds_of(runs) == [30, 31, 32]
    assert all(run.started_at - run.due_at < 1000 for run in runs)


def test_a_time_out_and_an_error_are_retried_with_the_same_arguments(open_store):
    sched = otd.Scheduler("memory:")
    seen: list[tuple[int, str]] = []

    @sched.job(name="job", args={"page": "a"}, timeout="5s", retry=otd.Retry(4, delay="10s", jitter=False))
    async def job(ctx: otd.Context, page: str) -> None:
        seen.append((ctx.attempt, page))
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        if ctx.attempt == 2:
            raise ConnectionError("no route")

    async def scenario(harness):
        await harness.start(sched)
        record = await harness.store.queries.get_job("job")
        [run_id] = await harness.store.submit([NewRun(record.id, "submit:1", T0, '{"page":"b"}')])
        await harness.advance("2m")
        return await harness.store.queries.get_run(run_id), await harness.store.queries.list_attempts(run_id)

    run, attempts = play(scenario, open_store)
    assert seen == [(1, "b"), (2, "b"), (3, "b")]
    assert (run.state, run.attempts, run.failures) == ("succeeded", 3, 2)
    assert [attempt.outcome for attempt in attempts] == ["timed_out", "failed", "succeeded"]
    starts = [(attempt.started_at - T0) // SECOND for attempt in attempts]
    assert starts == [0, 15, 35]  # 5 s until the time-out, then 10 s; then 20 s


def test_a_run_that_crashes_its_node_is_recovered_and_counted(open_store):
    sched = otd.Scheduler("memory:")

    @sched.job(name="job", schedule=otd.at("2026-06-01T12:00:10Z"), max_recoveries=1)
    async def job() -> None:
        await asyncio.sleep(3600)

    async def scenario(harness):
        for _ in range(3):
            await harness.start(sched)
            await harness.advance("40s")
            await harness.crash()
        await harness.start(sched)
        await harness.advance("1m")
        return await harness.runs("job")

    [run] = play(scenario, open_store)
    assert (run.state, run.recoveries, run.reason) == ("dead", 2, "lost with its node 2 times")


def test_an_edit_withdraws_planned_runs_and_plans_new_ones(open_store):
    async def scenario(harness):
        await harness.start(program(schedule=otd.every("10s", id="beat")))
        await harness.advance("15s")
        await harness.stop()
        await harness.start(program(schedule=otd.every("7s", id="beat")))
        await harness.advance("20s")
        return await harness.runs("job"), harness.events

    runs, events = play(scenario, open_store)
    done = seconds_of(runs)
    assert done[0] == 10
    assert [after - before for before, after in pairwise(done[1:])] == [7] * (len(done) - 2)
    assert [event.change for event in events if isinstance(event, JobPut)] == ["created", "changed"]
    assert [event.withdrawn for event in events if isinstance(event, JobPut)][1] == 3


def test_a_paused_job_is_reported_as_paused_when_it_is_stored_again(open_store):
    async def scenario(harness):
        sched = program(schedule=otd.every("10s", id="beat"))
        await harness.start(sched)
        await sched.pause("job")
        await harness.stop()
        await harness.start(sched)
        return harness.events

    events = play(scenario, open_store)
    assert [event.paused for event in events if isinstance(event, JobPut)] == [False, True]


def test_a_job_waits_if_its_handler_is_not_registered(open_store):
    async def scenario(harness):
        await harness.start(program(schedule=otd.every("10s")))
        foreign = Job(name="foreign", task=Call(handler="elsewhere"), schedules=(otd.every("10s"),))
        await harness.engine.put_job(foreign)
        await harness.advance("95s")
        return await harness.runs("foreign")

    runs = play(scenario, open_store)
    assert {run.state for run in runs} == {"skipped", "scheduled"}
    assert {run.reason for run in runs if run.state == "skipped"} == {"missed"}


def test_a_laptop_that_slept_catches_up_once(open_store):
    """After ten hours of suspension every timer is overdue at once. The process does not restart."""
    sched = program(schedule=otd.every("1m"))

    async def scenario(harness):
        await harness.start(sched)
        await harness.advance("150s")
        asyncio.get_running_loop()._virtual_time += 36_000  # type: ignore[attr-defined]
        await harness.advance("2m")
        return await harness.runs("job"), await harness.skips("job")

    runs, skips = play(scenario, open_store)
    minutes = [round(second / 60) for second in seconds_of(runs)]
    missed = sum(skip.count for skip in skips) + len(seconds_of(runs, "skipped"))
    assert minutes[:2] == [1, 2]
    assert minutes == sorted(set(minutes))
    assert minutes[2] == 602  # the newest slot of the suspension
    assert missed == 599


@pytest.mark.parametrize("ends", ["crashes", "stops"])
def test_a_node_that_ends_does_not_disturb_the_hints_of_others(ends: str):
    """Two engines of one process share a store. The one that ends stops listening; the other still receives hints."""

    async def scenario() -> tuple[float, int]:
        nodes = Nodes(program())
        await nodes.boot("a")
        await nodes.boot("b")
        listeners = len(nodes.store.hints._listeners)
        node = nodes.living.pop("a")
        await (node.engine.crash() if ends == "crashes" else node.engine.stop(asyncio.Event()))
        left = len(nodes.store.hints._listeners)
        await asyncio.sleep(60)
        asked = nodes.clock.now() + SECOND // 10
        [run_id] = await nodes.store.submit([NewRun(await nodes.job("job"), submit_trigger("now"), asked)])
        await asyncio.sleep(1)
        run = await nodes.store.queries.get_run(run_id)
        await nodes.stop()
        assert run is not None
        assert run.started_at is not None
        return (run.started_at - asked) / SECOND, listeners - left

    late, gone = run_virtual(scenario())
    assert late < 0.1, "expected a hint to wake it: polls are 30 s apart"
    assert gone == 1


def test_a_missing_parent_of_a_job_is_logged(caplog: pytest.LogCaptureFixture):
    async def scenario() -> None:
        sched = program()

        @sched.job(after=["job", "jbo"])
        async def report() -> None: ...

        nodes = Nodes(sched)
        await nodes.boot("a")
        await nodes.stop()

    run_virtual(scenario())
    [record] = [one for one in caplog.records if one.name == "onthedot.node"]
    assert record.getMessage() == ("job 'report': after: no job 'jbo' is stored; it does not start before there is one")


def test_a_node_that_stops_is_shown_as_draining_until_it_leaves():
    """The next one of the same name does not drain: it works at once."""

    async def scenario() -> None:
        sched = otd.Scheduler("memory:", settings=QUIET)
        end = asyncio.Event()

        @sched.job
        async def long() -> None:
            await end.wait()

        async def shown() -> list[tuple[str, bool]]:
            found = await nodes.store.queries.list_nodes(living=True, now=nodes.clock.now())
            return [(node.id, node.draining) for node in found]

        nodes = Nodes(sched)
        old = await nodes.boot("a")
        first = NewRun(await nodes.job("long"), submit_trigger("one"), nodes.clock.now())
        await nodes.store.submit([first])
        await asyncio.sleep(1)
        stopping = asyncio.create_task(old.engine.stop(asyncio.Event()))
        await asyncio.sleep(0.01)
        assert await shown() == [("a", True)]
        new = await nodes.boot("a again", node_id="a")
        assert await shown() == [("a", False), ("a", True)]
        await asyncio.sleep(10)  # two beats
        assert await shown() == [("a", False), ("a", True)]
        assert new.of(TermWon)  # the drain does not keep the term
        await nodes.store.submit([NewRun(first.job_id, submit_trigger("two"), nodes.clock.now())])
        await asyncio.sleep(1)
        assert (len(old.of(AttemptStarted)), len(new.of(AttemptStarted))) == (1, 1)
        end.set()
        assert await stopping == 0
        assert await shown() == [("a", False)]
        assert old.of(NodeDraining) == new.of(NodeDraining) == []  # nobody has asked for it
        await nodes.stop()

    run_virtual(scenario())


def test_an_operator_cannot_end_the_drain_of_a_node_that_stops():
    async def scenario() -> None:
        sched = otd.Scheduler("memory:", settings=QUIET)

        @sched.job
        async def long() -> None:
            await asyncio.sleep(20)

        nodes = Nodes(sched)
        node = await nodes.boot("a")
        await nodes.store.submit([NewRun(await nodes.job("long"), submit_trigger("one"), nodes.clock.now())])
        await asyncio.sleep(1)
        stopping = asyncio.create_task(node.engine.stop(asyncio.Event()))
        await asyncio.sleep(1)
        assert await nodes.store.drain("a", draining=False, now=nodes.clock.now()) == 1
        await asyncio.sleep(6)
        [shown] = await nodes.store.queries.list_nodes(living=True, now=nodes.clock.now())
        assert shown.draining
        assert await stopping == 0
        assert node.of(NodeDraining) == []

    run_virtual(scenario())


def test_a_program_that_replaces_a_stored_definition_logs_it(caplog: pytest.LogCaptureFixture):
    async def scenario() -> None:
        nodes = Nodes(program())
        first = await nodes.boot("a")
        record = await nodes.store.queries.get_job("job")
        assert record is not None
        await first.engine.put_job(replace(record.job, timeout=timedelta(minutes=5)))
        with caplog.at_level("INFO", "onthedot.node"):
            await nodes.boot("b")
        [told] = [record.getMessage() for record in caplog.records]
        assert told == "job 'job': the stored definition was not this program's, which replaces it: revision 3"
        await nodes.stop()

    run_virtual(scenario())
