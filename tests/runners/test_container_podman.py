"""Containers in a real engine: what `test_containers.py` shows of our side, and what only an engine can show."""

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
from tests.runners.attempts import Passing, lease_of, said
from tests.servers.podman import IMAGE, Podman

pytestmark = pytest.mark.slow

CANCELLED = Outcome(OutcomeKind.CANCELLED, "by hand")


@pytest.fixture
async def passing(podman: Podman, tmp_path: Path) -> AsyncIterator[Passing]:
    passing = Passing(ContainerExecutor(container_engines.find, podman.url, grace=2 * SECOND, mounts=[str(tmp_path)]))
    yield passing
    await asyncio.to_thread(passing.runner.close)


def left(podman: Podman) -> list[str]:
    """The containers that are there, running or not."""
    _, body = container_engines.ask(podman.url, "GET", "/containers/json?all=1")
    return [container["Id"] for container in json.loads(body)]


def script(text: str, **options) -> Container:
    return Container(image=IMAGE, argv=("sh", "-c", text), **options)


async def outcome_of(passing: Passing, task: Container, **options) -> tuple[Outcome, str]:
    attempt = passing.begin(lease_of(task, **options))
    return await passing.end(attempt), said(attempt)


async def test_it_runs_says_something_and_is_removed(podman: Podman, passing: Passing):
    outcome, log = await outcome_of(passing, script("echo $GREET; echo run $OTD_RUN_ID >&2", env={"GREET": "hello"}))
    assert outcome == SUCCEEDED, outcome
    assert sorted(log.splitlines()) == ["hello", "run 7"]
    assert left(podman) == []


@pytest.mark.parametrize(("argv", "log"), [(("hello", "there"), "hello there"), ((), "")])
async def test_an_entrypoint_is_in_the_place_of_the_images_program_and_its_arguments(
    podman: Podman, passing: Passing, argv: tuple[str, ...], log: str
):
    outcome, said_there = await outcome_of(passing, Container(image=IMAGE, entrypoint="echo", argv=argv))
    assert (outcome, said_there.strip()) == (SUCCEEDED, log)


@pytest.mark.parametrize(("text", "kind"), [("exit 3", "onthedot.ExitCode.3"), ("kill -9 $$; sleep 1", "")])
async def test_its_exit_code_is_told(podman: Podman, passing: Passing, text: str, kind: str):
    """A first process of its namespace cannot kill itself: that one goes on, and ends well."""
    outcome, _ = await outcome_of(passing, script(text))
    assert (outcome.error_types[0] if outcome.error_types else "") == kind


async def test_its_memory_is_bounded(podman: Podman, passing: Passing):
    """Debian's podman, with cgroups of the first version, does not tell that this was why: `test_containers.py` shows
    what becomes of an engine's word."""
    hog = script("x=a; while :; do x=$x$x; done")
    outcome, _ = await outcome_of(passing, hog, bounds=Bounds(memory=16 << 20))
    assert outcome.error_types[0] in ("onthedot.OutOfMemory", "onthedot.Killed"), outcome
    assert left(podman) == []
    assert "oom" not in os.listdir()  # the engine's own mark is in its own folder


async def test_it_cannot_have_more_processes_than_its_bounds(podman: Podman, passing: Passing):
    many = script("n=0; while [ $n -lt 40 ]; do sleep 1 & n=$((n+1)); done; wait; echo over")
    outcome, log = await outcome_of(passing, many, bounds=Bounds(processes=20))
    assert "fork" in log, (outcome, log)


async def test_it_has_no_network(podman: Podman, passing: Passing):
    _, log = await outcome_of(passing, script("ls /sys/class/net"))
    assert log.split() in ([], ["lo"])


async def test_it_is_the_user_that_the_job_says(podman: Podman, passing: Passing):
    _, log = await outcome_of(passing, script("id -u; id -g", user="1000:1001"))
    assert log.split() == ["1000", "1001"]


async def test_mounts_are_read_only_unless_the_job_says_otherwise(podman: Podman, passing: Passing, tmp_path: Path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    mounts = (
        Mount(source=str(tmp_path / "in"), target="/in"),
        Mount(source=str(tmp_path / "out"), target="/out", writable=True),
    )
    await outcome_of(passing, script("touch /in/a; touch /out/a", mounts=mounts))
    assert [(tmp_path / name / "a").exists() for name in ("in", "out")] == [False, True]


@pytest.mark.parametrize("trap", ["echo bye; exit 0", ""])
async def test_a_time_out_ends_it_with_its_grace(podman: Podman, passing: Passing, trap: str):
    attempt = passing.begin(
        lease_of(script(f"trap '{trap}' TERM; echo up; while :; do sleep 0.1; done")), timedelta(seconds=2)
    )
    outcome = await passing.end(attempt)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert ("bye" in said(attempt)) == bool(trap)
    assert left(podman) == []


async def test_an_image_that_nobody_has_is_a_failure(podman: Podman, passing: Passing):
    outcome, _ = await outcome_of(passing, Container(image="localhost/nobody-has-it:1", argv=("true",)))
    assert outcome.error_types[0] == "onthedot.EngineTrouble"
    assert left(podman) == []


async def test_what_dead_workers_left_is_removed_and_nothing_else(podman: Podman):
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
    assert left(podman) == [made["other"]]
    podman.run("rm", "--force", "--time", "0", made["other"])
