"""Jobs that run after others start once, in order, and only after the right ends."""

import asyncio

import pytest

import onthedot as otd
from onthedot.model.events import AttemptEnded
from onthedot.model.run import after_trigger
from tests.watching import Watch


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("empty_url")
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'otd.db'}"


async def test_a_diamond_of_jobs_runs_once_and_in_order(url):
    """`load` runs first, then `clean` and `count`, then `report`. They are defined in another order."""
    sched = otd.Scheduler(url)
    ran: list[str] = []

    @sched.job(after=["clean", "count"])
    async def report(ctx: otd.Context) -> None:
        ran.append("report")

    @sched.job(after="load")
    async def clean() -> None:
        ran.append("clean")

    @sched.job(after="load")
    def count() -> None:
        ran.append("count")

    @sched.job
    async def load() -> None:
        ran.append("load")

    watch = Watch(sched)
    async with sched:
        first = await sched.submit("load")
        await watch.until_count(AttemptEnded, 4)
        followers = [await sched.get_run(first.id + step) for step in (1, 2, 3)]
    assert ran[0] == "load"
    assert sorted(ran[1:3]) == ["clean", "count"]
    assert ran[3:] == ["report"]
    assert {run.job: run.trigger for run in followers if run and run.job != "report"} == {
        "clean": after_trigger(first.id),
        "count": after_trigger(first.id),
    }


async def test_a_job_after_failures_runs_only_after_a_failure(url):
    """It runs once, when the parent is dead: not after each failed attempt, and not after a success."""
    sched = otd.Scheduler(url)
    rung = asyncio.Event()
    tries: list[int] = []

    @sched.job(retry=otd.Retry(2, delay="10ms", jitter=False))
    async def flaky(ctx: otd.Context) -> None:
        tries.append(ctx.attempt)
        raise ConnectionError

    @sched.job
    async def steady() -> None: ...

    @sched.job(after=otd.After("flaky", "steady", any=True, on="failure"))
    async def alarm() -> None:
        assert tries == [1, 2]
        rung.set()

    watch = Watch(sched)
    async with sched:
        await sched.submit("steady")
        await sched.submit("flaky")
        await asyncio.wait_for(rung.wait(), 10)
        await watch.until_count(AttemptEnded, 4)
    assert sum(isinstance(event, AttemptEnded) for event in watch.events) == 4


def two_jobs(url: str, **after: str) -> otd.Scheduler:
    sched = otd.Scheduler(url)
    for name in ("a", "b"):

        async def handler() -> None: ...

        sched.job(name=name, after=after.get(name))(handler)
    return sched


async def test_the_order_of_two_jobs_may_be_reversed_in_a_new_deploy(tmp_path):
    """The stored jobs say that a runs before b, and the new program the opposite. Together they are no cycle."""
    url = f"sqlite:///{tmp_path / 'otd.db'}"
    for after in ({"b": "a"}, {"a": "b"}, {"b": "a"}):
        async with two_jobs(url, **after):
            pass


async def test_a_cycle_is_refused_before_anything_is_stored(tmp_path):
    sched = two_jobs(f"sqlite:///{tmp_path / 'otd.db'}", a="b", b="a")
    with pytest.raises(otd.DependencyCycle, match=r"a → b → a|b → a → b"):
        await sched.start()
    assert not (tmp_path / "otd.db").exists()
