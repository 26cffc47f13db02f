"""Containers through a whole node, and the removal of containers whose worker was killed."""

import asyncio
import signal
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Level
from onthedot.runners import container_engines
from onthedot.settings import Settings
from tests.runners.fake_engine import Engine, fake_engine

FAST = Settings().with_leases(timedelta(seconds=3))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with fake_engine(tmp_path) as engine:
        yield engine


@pytest.mark.slow
async def test_a_container_job_runs_and_its_log_is_stored(engine: Engine):
    sched = otd.Scheduler("memory:", settings=Settings(container_engine=engine.url))
    sched.add(Job(name="box", task=Container(image="busybox", argv=("sh", "-c", "echo hi; exit 4"))))
    async with sched:
        run = await sched.submit("box")
        with pytest.raises(otd.RunFailed, match="exit code 4"):
            await run.result(timeout="20s")
        [log] = await sched.logs(run)
    assert log.text == "hi\n"
    assert engine.containers == {}


@pytest.mark.slow
@pytest.mark.parametrize("least", ["user", "sandbox"])
async def test_a_least_isolation_level_does_not_exclude_containers_and_http_calls(engine: Engine, least: Level):
    """Containers are isolated more than any level, and HTTP calls run no code of the job."""
    sched = otd.Scheduler("memory:", settings=Settings(container_engine=engine.url, least_isolation=least))
    sched.add(Job(name="box", task=Container(image="busybox", argv=("true",))))
    sched.add(Job(name="shell", task=Command(argv=("true",))))
    async with sched:
        await (await sched.submit("box")).result(timeout="20s")
        offered = sched.registry.task_names()
    assert {"container", "http"} <= offered
    assert not {"command", "steps"} & offered


async def test_a_new_worker_removes_the_containers_of_dead_workers(engine: Engine):
    left = engine.add(**{container_engines.WORKER_LABEL: "another-boot/1/1/1", container_engines.RUN_LABEL: "7"})
    async with otd.Scheduler("memory:", settings=Settings(container_engine=engine.url)):
        assert engine.swept.wait(20)
    assert left in engine.removed


@pytest.mark.slow
async def test_the_container_of_a_killed_worker_is_removed_before_its_run_starts_again(engine: Engine, tmp_path: Path):
    program = textwrap.dedent(f"""
        import asyncio, onthedot as otd
        from datetime import timedelta
        from dataclasses import replace
        from onthedot.model.job import Job
        from onthedot.settings import Settings
        from onthedot.model.task import Container
        settings = replace(Settings().with_leases(timedelta(seconds=3)), container_engine={engine.url!r})
        sched = otd.Scheduler("sqlite:///{tmp_path}/jobs.db", settings=settings)
        sched.add(Job(name="box", task=Container(image="busybox", argv=("sh", "-c", "echo up; sleep 600"))))
        async def main():
            async with sched:
                await (await sched.submit("box")).result(timeout="10m")
        asyncio.run(main())
    """)
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    try:
        assert await asyncio.to_thread(engine.up.wait, 40)
    finally:
        worker.kill()
        await worker.wait()
    [left] = list(engine.containers)
    process = engine.containers[left].process
    assert process is not None
    assert process.poll() is None  # an engine keeps containers running without their worker
    sched = otd.Scheduler(f"sqlite:///{tmp_path}/jobs.db", settings=replace(FAST, container_engine=engine.url))
    sched.add(Job(name="box", task=Container(image="busybox", argv=("sh", "-c", "echo again"))))
    async with sched:
        [run] = await sched.list_runs("box")
        await sched.result(run.id, timeout="40s")
        logs = await sched.logs(run.id)
    assert left in engine.removed
    assert process.wait(10) == -signal.SIGKILL
    assert logs[-1].text == "again\n"
