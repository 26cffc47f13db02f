"""Containers in a real engine: as in `test_container.py`, and what only a real engine can enforce."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from onthedot.clock import SECOND
from onthedot.model.task import Bounds, Container, Mount
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.runners import container_engines
from onthedot.runners.container import ContainerExecutor
from onthedot.runners.container_engines import RUN_LABEL, WORKER_LABEL
from tests.runners.attempts import RunnerBench, lease_of, log_of
from tests.servers.podman import IMAGE, Podman

pytestmark = pytest.mark.slow

CANCELLED = Outcome(OutcomeKind.CANCELLED, "by hand")


@pytest.fixture
async def bench(podman: Podman, tmp_path: Path) -> AsyncIterator[RunnerBench]:
    bench = RunnerBench(ContainerExecutor(container_engines.find, podman.url, grace=2 * SECOND, mounts=[str(tmp_path)]))
    yield bench
    await asyncio.to_thread(bench.runner.close)


def containers_of(podman: Podman) -> list[str]:
    """Returns the ids of all containers, running or not."""
    _, body = container_engines.ask(podman.url, "GET", "/containers/json?all=1")
    return [container["Id"] for container in json.loads(body)]


def script(text: str, **options) -> Container:
    return Container(image=IMAGE, argv=("sh", "-c", text), **options)


async def outcome_of(bench: RunnerBench, task: Container, **options) -> tuple[Outcome, str]:
    attempt = bench.begin(lease_of(task, **options))
    return await bench.end(attempt), log_of(attempt)


async def test_a_container_runs_logs_and_is_removed(podman: Podman, bench: RunnerBench):
    outcome, log = await outcome_of(bench, script("echo $GREET; echo run $OTD_RUN_ID >&2", env={"GREET": "hello"}))
    assert outcome == SUCCEEDED, outcome
    assert sorted(log.splitlines()) == ["hello", "run 7"]
    assert containers_of(podman) == []


@pytest.mark.parametrize(("argv", "log"), [(("hello", "there"), "hello there"), ((), "")])
async def test_an_entrypoint_replaces_the_program_and_arguments_of_the_image(
    podman: Podman, bench: RunnerBench, argv: tuple[str, ...], log: str
):
    outcome, log_text = await outcome_of(bench, Container(image=IMAGE, entrypoint="echo", argv=argv))
    assert (outcome, log_text.strip()) == (SUCCEEDED, log)


@pytest.mark.parametrize(("text", "kind"), [("exit 3", "onthedot.ExitCode.3"), ("kill -9 $$; sleep 1", "")])
async def test_the_exit_code_of_a_container_is_reported(podman: Podman, bench: RunnerBench, text: str, kind: str):
    """The first process of a pid namespace cannot kill itself: it continues and succeeds."""
    outcome, _ = await outcome_of(bench, script(text))
    assert (outcome.error_types[0] if outcome.error_types else "") == kind


async def test_the_memory_of_a_container_is_limited(podman: Podman, bench: RunnerBench):
    """Debian's podman with cgroups of version 1 does not report out-of-memory, so `test_container.py` tests that
    report."""
    hog = script("x=a; while :; do x=$x$x; done")
    outcome, _ = await outcome_of(bench, hog, bounds=Bounds(memory=16 << 20))
    assert outcome.error_types[0] in ("onthedot.OutOfMemory", "onthedot.Killed"), outcome
    assert containers_of(podman) == []
    assert "oom" not in os.listdir()  # the engine creates this file in its own folder


async def test_the_number_of_processes_is_limited(podman: Podman, bench: RunnerBench):
    many = script("n=0; while [ $n -lt 40 ]; do sleep 1 & n=$((n+1)); done; wait; echo over")
    outcome, log = await outcome_of(bench, many, bounds=Bounds(processes=20))
    assert "fork" in log, (outcome, log)


async def test_a_container_has_no_network(podman: Podman, bench: RunnerBench):
    _, log = await outcome_of(bench, script("ls /sys/class/net"))
    assert log.split() in ([], ["lo"])


async def test_a_container_runs_as_the_user_of_the_job(podman: Podman, bench: RunnerBench):
    _, log = await outcome_of(bench, script("id -u; id -g", user="1000:1001"))
    assert log.split() == ["1000", "1001"]


async def test_mounts_are_read_only_by_default(podman: Podman, bench: RunnerBench, tmp_path: Path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    mounts = (
        Mount(source=str(tmp_path / "in"), target="/in"),
        Mount(source=str(tmp_path / "out"), target="/out", writable=True),
    )
    await outcome_of(bench, script("touch /in/a; touch /out/a", mounts=mounts))
    assert [(tmp_path / name / "a").exists() for name in ("in", "out")] == [False, True]


@pytest.mark.parametrize("trap", ["echo bye; exit 0", ""])
async def test_a_time_out_ends_the_container_after_its_grace(podman: Podman, bench: RunnerBench, trap: str):
    attempt = bench.begin(
        lease_of(script(f"trap '{trap}' TERM; echo up; while :; do sleep 0.1; done")), timedelta(seconds=2)
    )
    outcome = await bench.end(attempt)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert ("bye" in log_of(attempt)) == bool(trap)
    assert containers_of(podman) == []


async def test_an_image_that_does_not_exist_is_a_failure(podman: Podman, bench: RunnerBench):
    outcome, _ = await outcome_of(bench, Container(image="localhost/nobody-has-it:1", argv=("true",)))
    assert outcome.error_types[0] == "onthedot.EngineTrouble"
    assert containers_of(podman) == []


async def test_only_containers_of_dead_workers_are_removed(podman: Podman):
    labelled = {
        "ours": [
            "--label",
            f"{WORKER_LABEL}=another-boot/1/1/1",
            "--label",
            f"{RUN_LABEL}=7",
        ],
        "other": [],
    }
    made = {
        name: podman.run("run", "--detach", "--network", "none", *labels, IMAGE, "sleep", "600").stdout.strip()
        for name, labels in labelled.items()
    }
    assert container_engines.sweep(podman.url) == [made["ours"]]
    assert containers_of(podman) == [made["other"]]
    podman.run("rm", "--force", "--time", "0", made["other"])
