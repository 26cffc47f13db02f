"""Every verb behaves the same on a scheduler, on an open store, and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

import onthedot as otd
from onthedot.clock import to_datetime
from onthedot.model.errors import RevisionConflict, SourceConflict
from onthedot.model.host_port import Listen
from onthedot.model.job import JobState
from onthedot.model.policies import Rate
from onthedot.model.run import RunState
from onthedot.operations.open_verbs import opened
from onthedot.operations.verbs import Verbs
from onthedot.server.app import make_app
from onthedot.stores.values import CancelAnswer, LogRecord

NAP = otd.Job(
    name="nap", task=otd.Sleep(duration=timedelta(0)), schedules=(otd.cron("0 9 1 1 *"),), labels=frozenset({"tape"})
)
"""Its runs wait, because no node has the label."""
STEPS = otd.Job(name="build", task=otd.Command(script="true"), labels=frozenset({"tape"}))


def program(url: str) -> otd.Scheduler:
    sched = otd.Scheduler(url, settings=otd.Settings(poll_every=200_000))

    @sched.job
    async def double(n: int) -> int:
        return 2 * n

    @sched.job
    async def fails(n: int = 0) -> None:
        raise ConnectionError(f"no answer for {n}")

    @sched.job
    def greets(ctx: otd.Context, name: str) -> None:
        ctx.log(f"hello, {name}")

    return sched


@dataclass
class Doors:
    """The verbs of the door under test, and the scheduler to compare with."""

    verbs: Verbs
    sched: otd.Scheduler
    kind: str


@asynccontextmanager
async def by(kind: str, url: str) -> AsyncGenerator[Doors]:
    sched = program(url)
    async with sched, opened(url) as there:
        if kind == "scheduler":
            yield Doors(sched, sched, kind)
        elif kind == "open":
            yield Doors(there.verbs(), sched, kind)
        else:
            app = make_app(there, None, rate=10_000.0, burst=10_000, listen=Listen("server"))
            transport = httpx2.ASGITransport(app=app)
            async with otd.Client("http://server", transport=transport) as client:
                yield Doors(client, sched, kind)


@pytest.fixture(params=["scheduler", "open", "client"])
async def doors(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Doors]:
    async with by(request.param, f"sqlite:///{tmp_path / 'same.db'}") as found:
        await found.verbs.put(NAP)
        yield found


@pytest.fixture
def verbs(doors: Doors) -> Verbs:
    return doors.verbs


async def dead(verbs: Verbs, n: int) -> int:
    run = await verbs.submit("fails", {"n": n})
    with pytest.raises(otd.RunFailed):
        await run.result(timeout="20s")
    return run.id


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_is_stored_as_it_was_given(doors: Doors):
    job = replace(NAP, name="other", priority="high", args={"a": "ä"}, params=(otd.Param(name="a"),))
    put = await doors.verbs.put(job)
    assert (put.change, put.record.job, put.record.revision) == ("created", job, 1)
    assert (await doors.verbs.put(job)).change == "unchanged"
    assert (await doors.verbs.put(replace(job, priority="low"))).change == "changed"
    assert await doors.verbs.get_job("other") == await doors.sched.get_job("other")
    for nobody in ("nobody", "", "..", "a b", "a/b", "ä", "x" * 101, "../runs"):
        assert await doors.verbs.get_job(nobody) is None
        with pytest.raises(otd.UnknownJob):
            await doors.verbs.remove(nobody)
    assert await doors.verbs.list_jobs() == await doors.sched.list_jobs()
    assert len(await doors.verbs.list_jobs(limit=2)) == 2


async def test_an_edit_based_on_an_old_revision_is_refused(verbs: Verbs):
    changed = replace(NAP, priority="high")
    assert (await verbs.put(NAP, revision=0)).change == "unchanged"  # repeated, as if the first answer was lost
    with pytest.raises(RevisionConflict, match="expected no such job, found revision 1"):
        await verbs.put(changed, revision=0)
    with pytest.raises(RevisionConflict, match="expected revision 7, found revision 1"):
        await verbs.put(changed, revision=7)
    assert (await verbs.put(changed, revision=1)).record.revision == 2
    await verbs.remove("nap")
    with pytest.raises(RevisionConflict, match="expected revision 2, found none"):
        await verbs.put(NAP, revision=2)


async def test_an_invalid_job_is_refused_with_every_reason(verbs: Verbs):
    with pytest.raises(otd.DefinitionError) as refused:
        await verbs.put(replace(NAP, name="no name", max_recoveries=-1))
    assert len(refused.value.problems) == 2


async def test_a_source_is_applied_and_pruned(verbs: Verbs):
    more = replace(NAP, name="more", schedules=(otd.every("1d"),))
    dry = await verbs.apply([NAP, more], source="a.yaml", dry_run=True)
    assert [(one.name, one.kind, len(one.appear)) for one in dry.differences] == [
        ("nap", "unchanged", 0),
        ("more", "created", 30),
    ]
    assert dry.elsewhere == {"nap": ""}
    assert await verbs.get_job("more") is None
    assert (await verbs.apply([NAP, more], source="a.yaml")).changes == 1
    left = await verbs.apply([NAP], source="a.yaml")
    assert (left.left, left.changes) == (("more",), 0)
    await verbs.pause("more")
    pruned = await verbs.apply([replace(NAP, priority="high")], source="a.yaml", prune=True)
    assert {one.name: one.kind for one in pruned.differences} == {"nap": "changed", "more": "removed"}
    assert dict(pruned.differences[0].fields) == {"priority": (None, "high")}
    assert pruned.paused == ("more",)
    assert await verbs.get_job("more") is None


async def test_a_job_of_another_source_is_refused_or_taken_over(verbs: Verbs):
    one = replace(NAP, name="one")
    await verbs.apply([one], source="a.yaml")
    assert (await verbs.apply([one], source="b.yaml", dry_run=True)).refused == ("one",)
    with pytest.raises(SourceConflict, match=r"job 'one' is stored from a\.yaml; nothing was written"):
        await verbs.apply([replace(one, priority="high"), replace(NAP, name="two")], source="b.yaml")
    assert await verbs.get_job("two") is None
    taken = await verbs.apply([replace(one, priority="high")], source="b.yaml", take_over=True)
    assert (taken.changes, taken.elsewhere) == (1, {"one": "a.yaml"})


async def test_an_invalid_source_is_refused_as_a_whole(verbs: Verbs):
    with pytest.raises(otd.DefinitionError, match="expected it once"):
        await verbs.apply([replace(NAP, name="a"), replace(NAP, name="a")], source="a.yaml")
    with pytest.raises(otd.DefinitionError, match="source: expected letters"):
        await verbs.apply([replace(NAP, name="a")], source="a b")
    assert await verbs.get_job("a") is None


async def test_a_job_is_paused_and_resumed(doors: Doors):
    verbs = doors.verbs
    run = await verbs.submit("nap")
    until = datetime(2099, 1, 1, 12, 30, 15, 250_001, tzinfo=UTC)
    paused = await verbs.pause("nap", reason="stocktaking", until=until)
    assert (paused.record.state, paused.record.pause_reason, paused.held) == (JobState.PAUSED, "stocktaking", 1)
    assert paused.record == await doors.sched.get_job("nap")
    dry = await verbs.resume("nap", missed="last", dry_run=True)
    assert dry.released == 1
    assert (await verbs.resume("nap", missed="all")).record.state == JobState.ACTIVE
    assert await run.state() == RunState.SCHEDULED
    with pytest.raises(otd.DefinitionError, match="missed: expected 'none'"):
        await verbs.resume("nap", missed="some")  # type: ignore[arg-type]


async def test_slots_are_skipped_and_moved(verbs: Verbs):
    first = await verbs.skip_next("nap")
    assert (first.reason, first.run_id, first.slot.month) == ("cancelled", None, 1)
    moved = await verbs.move_next("nap", to=timedelta(hours=2))
    assert (moved.slot.year, moved.reason) == (first.slot.year + 1, "moved")
    assert moved.run_id is not None
    run = await verbs.get_run(moved.run_id)
    assert run is not None
    assert run.due_at - moved.slot_at == 7_200_000_000
    with pytest.raises(otd.UnknownSlot, match="the nearest"):
        await verbs.skip_next("nap", slot=datetime(2099, 1, 1, 9, 30, tzinfo=UTC))
    with pytest.raises(otd.SlotSettled):
        await verbs.skip_next("nap", slot=datetime(2020, 1, 1, 9, tzinfo=UTC))
    with pytest.raises(otd.UnknownJob):
        await verbs.move_next("nobody", to="now")


async def test_a_slot_of_one_schedule_is_skipped_or_moved(verbs: Verbs):
    both = (otd.cron("0 9 1 1 *", id="new-year"), otd.cron("0 9 1 1,2 *", id="both"))
    await verbs.put(replace(NAP, name="twice", schedules=both))
    first = await verbs.skip_next("twice", schedule="new-year")
    assert (first.schedule_id, first.slot.month) == ("new-year", 1)
    moved = await verbs.move_next("twice", to="+2h", schedule="both", slot=first.slot)  # the other schedule's slot
    assert (moved.schedule_id, moved.slot_at) == ("both", first.slot_at)
    with pytest.raises(
        otd.DefinitionError, match=r"schedule: expected one of job 'twice' \(both, new-year\), got 'boht'"
    ):
        await verbs.skip_next("twice", schedule="boht")


async def test_skipped_slots_are_listed(doors: Doors):
    verbs = doors.verbs
    assert await verbs.list_skips() == []
    for name in ("poll", "other"):
        await verbs.put(replace(NAP, name=name, schedules=(otd.gap("1h"),)))
        await verbs.pause(name)  # a paused job has no planned run, so that skip_next records a skip
        await verbs.skip_next(name)
    [skip] = await verbs.list_skips("poll")
    assert (skip.job, skip.count, skip.reason, skip.first == skip.last) == ("poll", 1, "cancelled", True)
    assert await verbs.list_skips() == await doors.sched.list_skips()
    skip_at = to_datetime(skip.first)
    assert [one.job for one in await verbs.list_skips()] == ["other", "poll"]
    assert [one.job for one in await verbs.list_skips(limit=1)] == ["other"]
    assert await verbs.list_skips(since=skip_at) == await verbs.list_skips(until="2100-01-01T00:00Z") != []
    assert await verbs.list_skips(until=skip_at) == []
    assert await verbs.list_skips("nobody") == await verbs.list_skips(limit=0) == await verbs.list_skips(limit=-1) == []


async def test_a_range_is_backfilled(verbs: Verbs):
    start, end = datetime(2020, 1, 1, tzinfo=UTC), "2026-01-01T00:00Z"
    dry = await verbs.backfill("nap", start, end, dry_run=True)
    assert (dry.slots, dry.run_ids, dry.created, dry.dry_run) == (6, (), 6, True)
    done = await verbs.backfill("nap", start, end)
    assert len(done.run_ids) == 6
    again = await verbs.backfill("nap", start, end)
    assert (again.run_ids, again.existing, again.first) == (done.run_ids, 6, datetime(2020, 1, 1, 9, tzinfo=UTC))
    with pytest.raises(otd.DefinitionError, match="limit: expected at most 2 slots"):
        await verbs.backfill("nap", start, end, limit=2)


async def test_removing_a_job_cancels_its_runs(verbs: Verbs):
    run = await verbs.submit("nap", delay="1h")
    assert await verbs.remove("nap") >= 1
    assert await run.state() == RunState.CANCELLED
    with pytest.raises(otd.UnknownJob):
        await verbs.remove("nap")


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_is_submitted_and_its_result_returned(doors: Doors):
    verbs = doors.verbs
    run = await verbs.submit("double", {"n": 21})
    assert (run.job, run.created, await run.result(timeout="20s")) == ("double", True, 42)
    assert await verbs.result(await verbs.trigger("double", {"n": 4}), timeout="20s") == 8
    found = await verbs.get_run(run)
    assert found is not None
    assert found == await doors.sched.get_run(run)
    assert (found.result, found.args) == ("42", '{"n":21}')
    [tried] = await verbs.history(run)
    [known] = await doors.sched.history(run)
    assert replace(tried, lease_id="") == replace(known, lease_id="")
    for nothing in (999, 0, -1, 2**60):
        assert await verbs.get_run(nothing) is None
        assert (await verbs.cancel(nothing)).kind == "unknown"
    assert await verbs.history(999) == []
    assert await verbs.logs(999) == []
    with pytest.raises(otd.UnknownRun, match="there is no run 999"):
        await verbs.result(999, timeout="1s")


async def test_the_log_of_a_run_can_be_read(verbs: Verbs):
    run = await verbs.submit("greets", {"name": "Ada"})
    await run.result(timeout="20s")
    assert await verbs.logs(run) == [LogRecord(1, "hello, Ada\n")]


async def test_a_key_makes_only_one_run_of_a_job(verbs: Verbs):
    first = await verbs.submit("nap", key="k", delay="1h", expires="2h")
    again = await verbs.submit("nap", key="k", delay="1h")
    assert (first.created, again.created, first == again) == (True, False, True)
    await verbs.submit("fails", {"n": 1}, key="k", delay="1h")  # the same key of another job
    with pytest.raises(otd.KeyConflict, match="key 'k'"):
        await verbs.submit("fails", {"n": 2}, key="k")
    with pytest.raises(otd.DefinitionError, match="key: expected at most 200"):
        await verbs.submit("nap", key="k" * 201)
    assert await verbs.submit("nap", delay="1h") != await verbs.submit("nap", delay="1h")


async def test_bad_requests_are_refused_with_the_same_messages(verbs: Verbs):
    with pytest.raises(otd.UnknownJob, match="no job 'dubble' is stored, did you mean 'double'"):
        await verbs.submit("dubble")
    with pytest.raises(otd.DefinitionError, match="delay: expected a length of time"):
        await verbs.submit("nap", delay="soon")
    with pytest.raises(otd.ArgumentsError, match="expected JSON"):
        await verbs.submit("double", {"n": {1, 2}})
    with pytest.raises(otd.ArgumentsError, match="x"):
        await verbs.trigger("nap", {"x": 1})


async def test_many_runs_are_submitted_at_once(doors: Doors):
    verbs = doors.verbs
    asked: list[Any] = [otd.BoundCall("double", f'{{"n":{n}}}') for n in range(5)]
    runs = await verbs.submit_many(asked)
    assert [await run.result(timeout="20s") for run in runs] == [0, 2, 4, 6, 8]
    assert [run.created for run in runs] == [True] * 5
    keyed = await verbs.submit_many(["nap", "nap"], keys=["a", "b"], delay="1h")
    again = await verbs.submit_many(["nap", "nap", "nap"], keys=["a", "b", "c"], delay="1h")
    assert (again[:2] == keyed, [run.created for run in again]) == (True, [False, False, True])
    with pytest.raises(otd.DefinitionError, match="keys: expected one for each of 1"):
        await verbs.submit_many(["nap"], keys=["a", "b"])
    before = await verbs.list_runs(limit=1000)
    with pytest.raises(otd.UnknownJob):
        await verbs.submit_many(["nap", "nobody"], delay="1h")  # nothing of it is written
    assert [run.id for run in await verbs.list_runs(limit=1000)] == [run.id for run in before]
    assert await verbs.submit_many([]) == []


async def test_runs_are_listed_and_cancelled(doors: Doors):
    verbs = doors.verbs
    runs = await verbs.submit_many(["nap"] * 3, delay="1h")
    waiting = await verbs.list_runs("nap", states=[RunState.SCHEDULED])
    assert waiting == await doors.sched.list_runs("nap", states=[RunState.SCHEDULED])
    assert len(await verbs.list_runs("nap", limit=2)) == 2
    assert await verbs.list_runs("nap", since="2099-01-01T00:00Z") == []
    assert await verbs.list_runs("nap", queue="night") == await verbs.list_runs("nap", states=[]) == []
    assert len(await verbs.list_runs(label="tape", states=[RunState.SCHEDULED])) == len(waiting)
    assert await verbs.cancel(runs[0], why="not needed") == CancelAnswer("cancelled", RunState.CANCELLED)
    assert await verbs.cancel(runs[0]) == CancelAnswer("ended", RunState.CANCELLED)
    assert (await verbs.cancel(999)).kind == "unknown"
    with pytest.raises(otd.RunFailed, match=rf"run {runs[0]} is cancelled \(not needed\)"):
        await runs[0].result(timeout="5s")
    with pytest.raises(TimeoutError, match=f"run {runs[1]} has not ended in time; it continues"):
        await runs[1].result(timeout="50ms")


@pytest.mark.slow
async def test_an_ended_run_is_retried_as_a_new_run(verbs: Verbs):
    await verbs.put(STEPS)
    run = await verbs.submit("build", delay="1h")
    with pytest.raises(otd.StateError):
        await verbs.retry_run(run)
    await run.cancel()
    again = await verbs.retry_run(run)
    assert (again.job, again.created) == ("build", True)
    found = await verbs.get_run(again)
    assert found is not None
    assert found.origin == run.id
    with pytest.raises(otd.UnknownRun):
        await verbs.retry_run(999)


@pytest.mark.parametrize("verb", ["cancel", "get_run", "history", "logs", "retry_run", "replay", "discard", "result"])
async def test_an_argument_that_is_no_run_is_refused(verbs: Verbs, verb: str):
    refused: dict[Any, str] = {
        "1": r"'1' \(str\); write int\('1'\)",
        "nap": r"'nap' \(str\)",
        "²" + "x" * 1_000: r"'²x+…' \(1001 characters\) \(str\)",
        b"1": r"b'1' \(bytes\)",
        1.0: r"1\.0 \(float\)",
        None: r"None \(NoneType\)",
    }
    for wrong, got in refused.items():
        with pytest.raises(otd.ArgumentsError, match=rf"^run: expected a Run or its id, got {got}$"):
            await getattr(verbs, verb)(wrong)


async def test_a_record_of_a_run_is_refused_with_a_hint(verbs: Verbs):
    record = await verbs.get_run(await verbs.submit("nap"))
    with pytest.raises(otd.ArgumentsError, match=r"got RunRecord\(id=1, .*… \(RunRecord\); write its 'id'$"):
        await verbs.cancel(record)  # type: ignore[arg-type]
    with pytest.raises(otd.ArgumentsError, match=r"got 'nap' \(str\)"):
        await verbs.discard(["nap"])  # type: ignore[list-item]


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_dead_letters_are_grouped_replayed_and_discarded(doors: Doors):
    verbs = doors.verbs
    first, second, third = [await dead(verbs, n) for n in range(3)]
    assert await verbs.dead_letters() == await doors.sched.dead_letters()
    [group] = await verbs.dead_letters("fails")
    assert (group.count, group.error_type) == (3, "ConnectionError")
    assert [run.id for run in await verbs.dead_runs(fingerprint=group.fingerprint)] == [third, second, first]
    assert await verbs.dead_runs("nap") == []
    new = await verbs.replay(first)
    assert (new.job, new.created) == ("fails", True)
    same = await verbs.replay(first)
    assert (same, same.created) == (new, False)
    with pytest.raises(otd.StateError, match="dead"):
        await verbs.replay(await verbs.submit("nap", delay="1h"))
    assert await verbs.discard([second, 999], why="known") == 1
    assert await verbs.discard(second) == 0
    dry = await verbs.replay_many("fails", until=datetime(2099, 1, 1, tzinfo=UTC), rate=Rate(1, "1s"), dry_run=True)
    assert (dry.letters >= 1, dry.run_ids, dry.dry_run) == (True, (), True)
    with pytest.raises(otd.UnknownRun):
        await verbs.replay(999)


# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_nodes_and_terms_are_listed_and_changed(doors: Doors):
    verbs = doors.verbs
    [node], [known] = await verbs.list_nodes(), await doors.sched.list_nodes()
    assert replace(node, lease_until=0) == replace(known, lease_until=0)  # it renews its lease meanwhile
    [term], [led] = await verbs.list_terms(), await doors.sched.list_terms()
    assert replace(term, until=0) == replace(led, until=0)
    assert await verbs.drain_node(node.id) == 1
    assert await verbs.drain_node("nobody") == 0
    assert (await verbs.set_shards(2)).shards == 2


async def test_queues_are_paused_shared_and_listed(doors: Doors):
    verbs = doors.verbs
    await verbs.submit("nap", delay="1h")
    assert (await verbs.pause_queue("mail", reason="it moves")).reason == "it moves"
    assert (await verbs.share_queue("mail", {"gold": 3})).weights == {"gold": 3}
    assert await verbs.list_queues() == await doors.sched.list_queues()
    assert (await verbs.resume_queue("mail")).paused_at is None
    assert (await verbs.share_queue("mail", None)).weights is None
