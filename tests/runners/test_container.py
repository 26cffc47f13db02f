"""Containers, as far as our side goes: what the engine is asked for, and what becomes of its answers."""

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
from tests.runners.attempts import Passing, lease_of, said
from tests.runners.fake_engine import Engine, fake_engine

pytestmark = pytest.mark.slow

CANCELLED = Outcome(OutcomeKind.CANCELLED, "by hand")
LOST = Outcome(OutcomeKind.LOST, "its lease is gone")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with fake_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
async def passing(engine: Engine, tmp_path: Path) -> AsyncIterator[Passing]:
    door = ContainerExecutor(container_engines.find, engine.url, grace=SECOND, mounts=[str(tmp_path / "shared")])
    passing = Passing(door)
    yield passing
    passing.runner.close()


def script(text: str, image: str = "busybox") -> Container:
    return Container(image=image, argv=("sh", "-c", text))


async def test_a_container_runs_says_something_and_is_removed(engine: Engine, passing: Passing):
    task = Container(
        image="busybox", argv=("sh", "-c", "echo $GREET; echo run $OTD_RUN_ID >&2"), env={"GREET": "hello"}
    )
    attempt = passing.begin(lease_of(task))
    assert await passing.end(attempt) == SUCCEEDED
    assert sorted(said(attempt).splitlines()) == ["hello", "run 7"]
    assert (len(engine.containers), len(engine.removed)) == (0, 1)


@pytest.mark.parametrize(("text", "words", "kind"), [
    ("exit 3", "exit code 3", "onthedot.ExitCode.3"),
    ("kill -9 $$", "killed by SIGKILL", "onthedot.Killed"),
])  # fmt: skip
async def test_how_it_ended_is_told_apart(engine: Engine, passing: Passing, text: str, words: str, kind: str):
    outcome = await passing.end(passing.begin(lease_of(script(text))))
    assert outcome == Outcome(OutcomeKind.FAILED, words, (kind, "onthedot.ContainerFailed"))
    assert engine.containers == {}


async def test_out_of_memory_is_told_apart(engine: Engine, passing: Passing):
    engine.out_of_memory = True
    outcome = await passing.end(passing.begin(lease_of(script("kill -9 $$"))))
    assert outcome.error_types[0] == "onthedot.OutOfMemory"
    assert (await passing.end(passing.begin(lease_of(script("true"))))) == SUCCEEDED  # a child of it, perhaps


async def test_an_engine_is_left_the_threads_that_it_starts_with(engine: Engine, passing: Passing):
    """With four, podman could start a container only now and then: the kernel counts runc's threads as the
    container's."""
    lease = lease_of(Container(image="busybox", argv=("true",)), bounds=Bounds(processes=4))
    assert await passing.end(passing.begin(lease)) == SUCCEEDED
    [container] = engine.removed.values()
    assert container.config["HostConfig"]["PidsLimit"] == 16


async def test_what_the_engine_is_told(engine: Engine, passing: Passing, tmp_path: Path):
    (tmp_path / "shared" / "in").mkdir(parents=True)
    source = str(tmp_path / "shared" / "in")
    task = Container(
        image="busybox", argv=("true",), user="1000:1000", mounts=(Mount(source=source, target="/in"),), env={"A": "b"}
    )
    bounds = Bounds(cpu=timedelta(seconds=9), memory=1 << 20, processes=50, files=64, file_bytes=4096, output=1000)
    assert await passing.end(passing.begin(lease_of(task, bounds=bounds))) == SUCCEEDED
    [container] = engine.removed.values()
    config = container.config
    host = config["HostConfig"]
    assert (config["Image"], config["Cmd"], config["User"]) == ("busybox", ["true"], "1000:1000")
    assert (host["NetworkMode"], config["NetworkDisabled"]) == ("none", True)
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (1 << 20, 1 << 20, 50)
    limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
    limits.pop("nproc", None)  # this machine's own
    assert limits == {"core": 0, "cpu": 9, "nofile": 64, "fsize": 4096}
    assert host["Mounts"] == [{"Type": "bind", "Source": source, "Target": "/in", "ReadOnly": True}]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert config["Labels"] == {
        "onthedot.worker": worker_identity(), "onthedot.run": "7", "onthedot.fence": "42", "onthedot.attempt": "1",
        "onthedot.job": "default/j",
    }  # fmt: skip
    assert sorted(config["Env"]) == ["A=b", "OTD_ATTEMPT=1", "OTD_FENCE=42", "OTD_RUN_ID=7"]


async def test_without_bounds_nothing_is_bounded(engine: Engine, passing: Passing):
    bounds = Bounds(cpu=None, memory=None, processes=None, files=None, file_bytes=None)
    await passing.end(passing.begin(lease_of(script("true"), bounds=bounds)))
    [container] = engine.removed.values()
    assert not {"Memory", "MemorySwap", "PidsLimit"} & set(container.config["HostConfig"])


@pytest.mark.parametrize("source", ["/etc", "{}/shared/../other", "{}/shared/link", "{}/shared2", "/"])
async def test_only_what_an_operator_allows_is_mounted(engine: Engine, passing: Passing, tmp_path: Path, source: str):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to("/etc")
    task = Container(image="busybox", argv=("true",), mounts=(Mount(source=source.format(tmp_path), target="/x"),))
    outcome = await passing.end(passing.begin(lease_of(task)))
    assert outcome.error_types == ("onthedot.ContainerRefused",)
    assert "container_mounts" in str(outcome.error)
    assert engine.asked == []


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_image_is_pulled_if_it_is_missing_and_only_then(engine: Engine, passing: Passing):
    engine.registry = {"other"}
    for _ in range(2):
        attempt = passing.begin(lease_of(script("true", image="other")))
        assert await passing.end(attempt) == SUCCEEDED
    assert engine.asked.count("POST images/create") == 1


async def test_an_image_that_nobody_has_is_a_failure(engine: Engine, passing: Passing):
    outcome = await passing.end(passing.begin(lease_of(script("true", image="nobody/has:it"))))
    assert outcome.kind is OutcomeKind.FAILED
    assert "nobody/has:it: not found" in str(outcome.error)


# ── ending early ─────────────────────────────────────────────────────────────────────────────────────────────


async def running(engine: Engine) -> None:
    """Wait until the container has said its first word."""
    assert await asyncio.to_thread(engine.up.wait, 20)


@pytest.mark.parametrize(("text", "signals"), [
    ("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", ["TERM", "KILL"]),
    ("trap '' TERM; echo up; while :; do sleep 0.05; done", ["TERM", "KILL", "KILL"]),
])  # fmt: skip
async def test_a_cancelled_one_is_asked_and_then_made_to_end(engine: Engine, passing: Passing, text, signals):
    """The last KILL is the removal, by force, of what has ended by then."""
    attempt = passing.begin(lease_of(script(text)))
    await running(engine)
    passing.stop(attempt, CANCELLED)
    assert await passing.end(attempt) == CANCELLED
    [container] = engine.removed.values()
    assert container.signals == signals
    assert ("bye" in said(attempt)) == (len(signals) == 2)


async def test_one_whose_lease_is_gone_is_killed_at_once(engine: Engine, passing: Passing):
    attempt = passing.begin(lease_of(script("trap '' TERM; echo up; while :; do sleep 0.05; done")))
    await running(engine)
    passing.stop(attempt, LOST)
    assert await passing.end(attempt) == LOST
    [container] = engine.removed.values()
    assert set(container.signals) == {"KILL"}


async def test_a_time_out_ends_it(engine: Engine, passing: Passing):
    attempt = passing.begin(lease_of(script("sleep 60")), timedelta(seconds=2))
    outcome = await passing.end(attempt)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert (len(engine.containers), len(engine.removed)) == (0, 1)


async def test_one_that_is_cancelled_while_it_is_made_leaves_nothing(engine: Engine, passing: Passing):
    engine.may_create.clear()
    attempt = passing.begin(lease_of(script("sleep 60")))
    await asyncio.to_thread(engine.created.wait, 20)
    passing.stop(attempt, CANCELLED)
    engine.may_create.set()
    assert await passing.end(attempt) == CANCELLED
    assert (engine.containers, "POST containers/start" in engine.asked) == ({}, False)


async def test_a_closed_runner_leaves_nothing(engine: Engine, passing: Passing):
    passing.begin(lease_of(script("echo up; sleep 60")))
    await running(engine)
    await asyncio.to_thread(passing.runner.close)
    assert engine.containers == {}


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_program_that_is_not_there_is_a_failure(engine: Engine, passing: Passing):
    outcome = await passing.end(passing.begin(lease_of(Container(image="busybox", argv=("/no/such/thing",)))))
    assert "refuses: exec failed" in str(outcome.error)
    assert engine.containers == {}


@pytest.mark.parametrize("verb", ["create", "start", "wait", "json"])
async def test_an_engine_that_refuses_is_a_failure_in_words(engine: Engine, passing: Passing, verb: str):
    assert await passing.end(passing.begin(lease_of(script("true")))) == SUCCEEDED
    engine.broken = {verb}
    outcome = await passing.end(passing.begin(lease_of(script("true"))))
    assert (outcome.kind, outcome.error_types[0]) == (OutcomeKind.FAILED, "onthedot.EngineTrouble")
    assert engine.containers == {}


async def test_no_engine_is_a_failure_in_words():
    passing = Passing(ContainerExecutor(container_engines.find, "unix:///no/such.sock", grace=SECOND))
    outcome = await passing.end(passing.begin(lease_of(script("true"))))
    passing.runner.close()
    assert "no container engine answers" in str(outcome.error)


async def test_logs_that_cannot_be_had_fail_nothing(engine: Engine, passing: Passing):
    engine.broken = {"logs"}
    attempt = passing.begin(lease_of(script("echo hi")))
    assert await passing.end(attempt) == SUCCEEDED
    assert "stdout could not be read to its end: the container engine refuses: no logs today" in said(attempt)


async def test_a_flood_of_output_is_bounded(engine: Engine, passing: Passing):
    attempt = passing.begin(lease_of(script("yes 0123456789012345678901234567890 | head -c 3000000; echo end")))
    assert await passing.end(attempt) == SUCCEEDED
    text = said(attempt)
    assert len(text) < 70_000
    assert text.endswith("end\n")
    assert "left out" in text


# ── what dead workers leave ──────────────────────────────────────────────────────────────────────────────────


def test_only_containers_of_dead_workers_are_removed(engine: Engine):
    ended = subprocess.Popen(["true"])
    boot, namespace, _, _ = worker_identity().split("/")
    gone = f"{boot}/{namespace}/{ended.pid}/12345"
    ended.wait()
    dead = [engine.add(**{WORKER_LABEL: mark, RUN_LABEL: "7"}) for mark in (gone, f"another-boot/{namespace}/1/1")]
    living = [
        engine.add(**{WORKER_LABEL: worker_identity(), RUN_LABEL: "7"}),  # our own
        engine.add(**{WORKER_LABEL: f"{boot}/other/{ended.pid}/12345", RUN_LABEL: "7"}),  # who cannot be seen from here
        engine.add(**{WORKER_LABEL: "", RUN_LABEL: "7"}),
        engine.add(**{WORKER_LABEL: "nonsense", RUN_LABEL: "7"}),
        engine.add(app="web"),  # not ours at all
        engine.add(**{RUN_LABEL: "7"}),
    ]
    assert container_engines.sweep(engine.url) == dead
    assert list(engine.containers) == living


def test_a_pid_that_was_given_out_again_is_another_process(engine: Engine):
    boot, namespace, pid, began = worker_identity().split("/")
    assert not is_worker_dead(f"{boot}/{namespace}/{pid}/{began}", local=True)
    assert is_worker_dead(f"{boot}/{namespace}/{pid}/{int(began) - 1}", local=True)
    assert not is_worker_dead(f"elsewhere/{namespace}/{pid}/{began}", local=False)  # an engine far away
    assert os.getpid() == int(pid)


async def test_what_a_dead_worker_left_of_a_run_goes_before_the_run_starts_again(engine: Engine, passing: Passing):
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
    assert await passing.end(passing.begin(lease_of(script("true"), fence=42))) == SUCCEEDED
    assert mine in engine.removed
    assert other in engine.containers
    deleted, created = engine.asked.index("DELETE containers/" + mine), engine.asked.index("POST containers/create")
    assert deleted < created


# ── finding an engine ────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_is_found_where_it_is_said_to_be(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    assert container_engines.find(engine.url) == engine.url
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    assert container_engines.find() == engine.url
    for nonsense in ("unix:///no/such.sock", "tcp://127.0.0.1:1", "ssh://host", "nonsense", "http://"):
        assert container_engines.find(nonsense) is None
    engine.broken = {"_ping"}
    assert container_engines.find(engine.url) is None


async def test_those_who_come_first_together_open_one_connection(engine: Engine, passing: Passing):
    attempts = [passing.begin(lease_of(script("true"), run_id=number)) for number in range(3)]
    assert {await passing.end(attempt) for attempt in attempts} == {SUCCEEDED}
    assert engine.asked.count("GET _ping") == 1
