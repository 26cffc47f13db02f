"""Containers from our side, with a fake engine: the requests that the engine gets, and the outcome of its answers."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from onthedot.clock import SECOND
from onthedot.model.task import Bounds, Container, Mount
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.runners import container_engines
from onthedot.runners.container import ContainerExecutor
from onthedot.runners.container_engines import FENCE_LABEL, RUN_LABEL, WORKER_LABEL, is_worker_dead, worker_identity
from tests.runners.attempts import RunnerBench, lease_of, log_of
from tests.runners.fake_engine import Engine, fake_engine

pytestmark = pytest.mark.slow

CANCELLED = Outcome(OutcomeKind.CANCELLED, "by hand")
LOST = Outcome(OutcomeKind.LOST, "its lease is gone")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with fake_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
async def bench(engine: Engine, tmp_path: Path) -> AsyncIterator[RunnerBench]:
    executor = ContainerExecutor(container_engines.find, engine.url, grace=SECOND, mounts=[str(tmp_path / "shared")])
    bench = RunnerBench(executor)
    yield bench
    bench.runner.close()


def script(text: str, image: str = "busybox") -> Container:
    return Container(image=image, argv=("sh", "-c", text))


async def test_a_container_runs_logs_and_is_removed(engine: Engine, bench: RunnerBench):
    task = Container(
        image="busybox", argv=("sh", "-c", "echo $GREET; echo run $OTD_RUN_ID >&2"), env={"GREET": "hello"}
    )
    attempt = bench.begin(lease_of(task))
    assert await bench.end(attempt) == SUCCEEDED
    assert sorted(log_of(attempt).splitlines()) == ["hello", "run 7"]
    assert (len(engine.containers), len(engine.removed)) == (0, 1)


@pytest.mark.parametrize(("text", "words", "kind"), [
    ("exit 3", "exit code 3", "onthedot.ExitCode.3"),
    ("kill -9 $$", "killed by SIGKILL", "onthedot.Killed"),
])  # fmt: skip
async def test_exit_codes_and_signals_are_distinguished(
    engine: Engine, bench: RunnerBench, text: str, words: str, kind: str
):
    outcome = await bench.end(bench.begin(lease_of(script(text))))
    assert outcome == Outcome(OutcomeKind.FAILED, words, (kind, "onthedot.ContainerFailed"))
    assert engine.containers == {}


async def test_out_of_memory_is_a_separate_error(engine: Engine, bench: RunnerBench):
    engine.out_of_memory = True
    outcome = await bench.end(bench.begin(lease_of(script("kill -9 $$"))))
    assert outcome.error_types[0] == "onthedot.OutOfMemory"
    # The engine reports it for a child of a successful container, too.
    assert (await bench.end(bench.begin(lease_of(script("true"))))) == SUCCEEDED


async def test_a_process_limit_leaves_room_for_the_threads_of_the_engine(engine: Engine, bench: RunnerBench):
    """The kernel counts runc's threads as those of the container. With a limit of four, podman could start a container
    only sometimes."""
    lease = lease_of(Container(image="busybox", argv=("true",)), bounds=Bounds(processes=4))
    assert await bench.end(bench.begin(lease)) == SUCCEEDED
    [container] = engine.removed.values()
    assert container.config["HostConfig"]["PidsLimit"] == 16


async def test_the_engine_gets_the_whole_definition(engine: Engine, bench: RunnerBench, tmp_path: Path):
    (tmp_path / "shared" / "in").mkdir(parents=True)
    source = str(tmp_path / "shared" / "in")
    task = Container(
        image="busybox", argv=("true",), user="1000:1000", mounts=(Mount(source=source, target="/in"),), env={"A": "b"}
    )
    bounds = Bounds(cpu=timedelta(seconds=9), memory=1 << 20, processes=50, files=64, file_bytes=4096, output=1000)
    assert await bench.end(bench.begin(lease_of(task, bounds=bounds))) == SUCCEEDED
    [container] = engine.removed.values()
    config = container.config
    host = config["HostConfig"]
    assert (config["Image"], config["Cmd"], config["User"]) == ("busybox", ["true"], "1000:1000")
    assert (host["NetworkMode"], config["NetworkDisabled"]) == ("none", True)
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (1 << 20, 1 << 20, 50)
    limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
    limits.pop("nproc", None)  # set by this machine
    assert limits == {"core": 0, "cpu": 9, "nofile": 64, "fsize": 4096}
    assert host["Mounts"] == [{"Type": "bind", "Source": source, "Target": "/in", "ReadOnly": True}]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert config["Labels"] == {
        "onthedot.worker": worker_identity(), "onthedot.run": "7", "onthedot.fence": "42", "onthedot.attempt": "1",
        "onthedot.job": "default/j",
    }  # fmt: skip
    assert sorted(config["Env"]) == ["A=b", "OTD_ATTEMPT=1", "OTD_FENCE=42", "OTD_RUN_ID=7"]


async def test_a_job_without_limits_sets_none(engine: Engine, bench: RunnerBench):
    bounds = Bounds(cpu=None, memory=None, processes=None, files=None, file_bytes=None)
    await bench.end(bench.begin(lease_of(script("true"), bounds=bounds)))
    [container] = engine.removed.values()
    assert not {"Memory", "MemorySwap", "PidsLimit"} & set(container.config["HostConfig"])


@pytest.mark.parametrize("source", ["/etc", "{}/shared/../other", "{}/shared/link", "{}/shared2", "/"])
async def test_only_mounts_that_the_operator_allows_are_made(
    engine: Engine, bench: RunnerBench, tmp_path: Path, source: str
):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to("/etc")
    task = Container(image="busybox", argv=("true",), mounts=(Mount(source=source.format(tmp_path), target="/x"),))
    outcome = await bench.end(bench.begin(lease_of(task)))
    assert outcome.error_types == ("onthedot.ContainerRefused",)
    assert "container_mounts" in str(outcome.error)
    assert engine.asked == []


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_image_is_pulled_only_if_it_is_missing(engine: Engine, bench: RunnerBench):
    engine.registry = {"other"}
    for _ in range(2):
        attempt = bench.begin(lease_of(script("true", image="other")))
        assert await bench.end(attempt) == SUCCEEDED
    assert engine.asked.count("POST images/create") == 1


async def test_an_image_that_does_not_exist_is_a_failure(engine: Engine, bench: RunnerBench):
    outcome = await bench.end(bench.begin(lease_of(script("true", image="nobody/has:it"))))
    assert outcome.kind is OutcomeKind.FAILED
    assert "nobody/has:it: not found" in str(outcome.error)


# ── ending early ─────────────────────────────────────────────────────────────────────────────────────────────


async def wait_running(engine: Engine) -> None:
    """Wait for the first output of the container."""
    assert await asyncio.to_thread(engine.up.wait, 20)


@pytest.mark.parametrize(("text", "signals"), [
    ("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", ["TERM", "KILL"]),
    ("trap '' TERM; echo up; while :; do sleep 0.05; done", ["TERM", "KILL", "KILL"]),
])  # fmt: skip
async def test_a_cancelled_container_gets_sigterm_and_then_sigkill(engine: Engine, bench: RunnerBench, text, signals):
    """The last KILL comes from the forced removal, when the container has already ended."""
    attempt = bench.begin(lease_of(script(text)))
    await wait_running(engine)
    bench.stop(attempt, CANCELLED)
    assert await bench.end(attempt) == CANCELLED
    [container] = engine.removed.values()
    assert container.signals == signals
    assert ("bye" in log_of(attempt)) == (len(signals) == 2)


async def test_a_container_without_a_lease_is_killed_at_once(engine: Engine, bench: RunnerBench):
    attempt = bench.begin(lease_of(script("trap '' TERM; echo up; while :; do sleep 0.05; done")))
    await wait_running(engine)
    bench.stop(attempt, LOST)
    assert await bench.end(attempt) == LOST
    [container] = engine.removed.values()
    assert set(container.signals) == {"KILL"}


async def test_a_time_out_ends_the_container(engine: Engine, bench: RunnerBench):
    attempt = bench.begin(lease_of(script("sleep 60")), timedelta(seconds=2))
    outcome = await bench.end(attempt)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert (len(engine.containers), len(engine.removed)) == (0, 1)


async def test_a_cancel_during_the_create_leaves_no_container(engine: Engine, bench: RunnerBench):
    engine.may_create.clear()
    attempt = bench.begin(lease_of(script("sleep 60")))
    await asyncio.to_thread(engine.created.wait, 20)
    bench.stop(attempt, CANCELLED)
    engine.may_create.set()
    assert await bench.end(attempt) == CANCELLED
    assert (engine.containers, "POST containers/start" in engine.asked) == ({}, False)


async def test_a_closed_runner_leaves_no_container(engine: Engine, bench: RunnerBench):
    bench.begin(lease_of(script("echo up; sleep 60")))
    await wait_running(engine)
    await asyncio.to_thread(bench.runner.close)
    assert engine.containers == {}


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_missing_program_is_a_failure(engine: Engine, bench: RunnerBench):
    outcome = await bench.end(bench.begin(lease_of(Container(image="busybox", argv=("/no/such/thing",)))))
    assert "refuses: exec failed" in str(outcome.error)
    assert engine.containers == {}


@pytest.mark.parametrize("verb", ["create", "start", "wait", "json"])
async def test_a_request_that_the_engine_refuses_is_a_failure(engine: Engine, bench: RunnerBench, verb: str):
    assert await bench.end(bench.begin(lease_of(script("true")))) == SUCCEEDED
    engine.broken = {verb}
    outcome = await bench.end(bench.begin(lease_of(script("true"))))
    assert (outcome.kind, outcome.error_types[0]) == (OutcomeKind.FAILED, "onthedot.EngineTrouble")
    assert engine.containers == {}


async def test_a_missing_engine_is_a_failure_with_a_reason():
    bench = RunnerBench(ContainerExecutor(container_engines.find, "unix:///no/such.sock", grace=SECOND))
    outcome = await bench.end(bench.begin(lease_of(script("true"))))
    bench.runner.close()
    assert "no container engine answers" in str(outcome.error)


async def test_a_container_succeeds_although_its_logs_cannot_be_read(engine: Engine, bench: RunnerBench):
    engine.broken = {"logs"}
    attempt = bench.begin(lease_of(script("echo hi")))
    assert await bench.end(attempt) == SUCCEEDED
    assert "stdout could not be read to its end: the container engine refuses: no logs today" in log_of(attempt)


async def test_a_flood_of_output_is_cut(engine: Engine, bench: RunnerBench):
    attempt = bench.begin(lease_of(script("yes 0123456789012345678901234567890 | head -c 3000000; echo end")))
    assert await bench.end(attempt) == SUCCEEDED
    text = log_of(attempt)
    assert len(text) < 70_000
    assert text.endswith("end\n")
    assert "left out" in text


# ── containers of dead workers ───────────────────────────────────────────────────────────────────────────────


def test_only_containers_of_dead_workers_are_removed(engine: Engine):
    ended = subprocess.Popen(["true"])
    boot, namespace, _, _ = worker_identity().split("/")
    gone = f"{boot}/{namespace}/{ended.pid}/12345"
    ended.wait()
    dead = [engine.add(**{WORKER_LABEL: mark, RUN_LABEL: "7"}) for mark in (gone, f"another-boot/{namespace}/1/1")]
    living = [
        engine.add(**{WORKER_LABEL: worker_identity(), RUN_LABEL: "7"}),  # of this worker
        # In another pid namespace: we cannot see it.
        engine.add(**{WORKER_LABEL: f"{boot}/other/{ended.pid}/12345", RUN_LABEL: "7"}),
        engine.add(**{WORKER_LABEL: "", RUN_LABEL: "7"}),
        engine.add(**{WORKER_LABEL: "nonsense", RUN_LABEL: "7"}),
        engine.add(app="web"),  # not of onthedot
        engine.add(**{RUN_LABEL: "7"}),
    ]
    assert container_engines.sweep(engine.url) == dead
    assert list(engine.containers) == living


def test_a_reused_pid_does_not_count_as_the_dead_worker(engine: Engine):
    boot, namespace, pid, began = worker_identity().split("/")
    assert not is_worker_dead(f"{boot}/{namespace}/{pid}/{began}", local=True)
    assert is_worker_dead(f"{boot}/{namespace}/{pid}/{int(began) - 1}", local=True)
    assert not is_worker_dead(f"elsewhere/{namespace}/{pid}/{began}", local=False)  # the engine is on another machine
    assert os.getpid() == int(pid)


async def test_the_container_of_a_dead_worker_is_removed_before_its_run_starts_again(
    engine: Engine, bench: RunnerBench
):
    mine = engine.add(
        **{
            WORKER_LABEL: "another-boot/1/1/1",
            RUN_LABEL: "7",
            FENCE_LABEL: "41",
        }
    )
    other = engine.add(
        **{
            WORKER_LABEL: "another-boot/1/1/1",
            RUN_LABEL: "8",
            FENCE_LABEL: "40",
        }
    )
    assert await bench.end(bench.begin(lease_of(script("true"), fence=42))) == SUCCEEDED
    assert mine in engine.removed
    assert other in engine.containers
    deleted, created = engine.asked.index("DELETE containers/" + mine), engine.asked.index("POST containers/create")
    assert deleted < created


# ── finding an engine ────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_is_found_at_its_url_or_docker_host(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    assert container_engines.find(engine.url) == engine.url
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    assert container_engines.find() == engine.url
    for nonsense in ("unix:///no/such.sock", "tcp://127.0.0.1:1", "ssh://host", "nonsense", "http://"):
        assert container_engines.find(nonsense) is None
    engine.broken = {"_ping"}
    assert container_engines.find(engine.url) is None


async def test_the_first_attempts_share_one_search_for_the_engine(engine: Engine, bench: RunnerBench):
    attempts = [bench.begin(lease_of(script("true"), run_id=number)) for number in range(3)]
    assert {await bench.end(attempt) for attempt in attempts} == {SUCCEEDED}
    assert engine.asked.count("GET _ping") == 1
