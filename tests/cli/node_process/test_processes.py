"""`onthedot worker` and `onthedot server`: planning and executing in separate processes, and in several of them."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.started import PROGRAM, started


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM)
    return path


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(found: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + 30
    while not found():
        assert time.monotonic() < give_up_at, f"timed out waiting for {what}"
        time.sleep(0.02)


def nodes(call: Call, folder: Path) -> list[dict[str, Any]]:
    result = call("nodes", "--json", "--db", folder / "shop.db")
    found: list[dict[str, Any]] = json.loads(result.output)
    return found


def both_nodes(call: Call, folder: Path) -> dict[str, int]:
    """Wait until both nodes are registered, and return their process ids by node id."""
    wait_until(lambda: len(nodes(call, folder)) == 2, "two nodes in the store")
    return {node["node_id"]: node["pid"] for node in nodes(call, folder)}


@pytest.mark.slow
def test_a_server_plans_and_a_worker_executes(program: Path, tmp_path: Path, call: Call):
    with started(tmp_path, "server", "app.py", "--node-id", "planner") as server:
        server.until("node", "planner, leads (term 1); it executes nothing")
        with started(
            tmp_path, "worker", "app.py", "--node-id", "w", "--queues", "default,mail", "--labels", "gpu"
        ) as w:
            w.until("node", "w, works, and does not plan")
            w.until("started", "tick")
            w.until("finished", "child", "succeeded")
            shown = {node["node_id"]: node for node in nodes(call, tmp_path)}
            assert (shown["planner"]["roles"], shown["w"]["roles"]) == (["planner"], ["worker"])
            assert (shown["w"]["queues"], shown["w"]["labels"]) == (["default", "mail"], ["gpu"])
            w.signal(signal.SIGTERM)
            assert w.end() == 0
        server.signal(signal.SIGTERM)
        assert server.end() == 0
        assert not server.has("started")


@pytest.mark.slow
def test_up_plans_and_executes_a_program(program: Path, tmp_path: Path):
    with started(tmp_path, "up", "app.py", "--node-id", "one") as up:
        up.until("node", "one, leads (term 1)")
        up.until("started", "tick")
        up.until("finished", "child", "succeeded")


@pytest.mark.slow
def test_a_server_needs_no_program(program: Path, tmp_path: Path):
    with started(tmp_path, "worker", "app.py") as w:  # the worker stores the jobs and does not plan
        w.until("started", "tick")
        with started(tmp_path, "server", "--db", "shop.db") as server:
            server.until("leads (term 1)")
            server.until("planned", "2 jobs")
            assert not server.has("warning")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_a_worker_needs_no_program_for_jobs_made_by_the_command_line(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, processes: tuple[str, ...]
):
    """`store check` suggests the command exactly so, and is silent afterwards."""
    monkeypatch.chdir(tmp_path)
    with started(tmp_path, "server", "--no-api") as server:
        server.until("leads (term 1)")
        assert call("create", "greet", "--schedule", "every 1s", "--run", "echo hello").exit_code == 0
        checked = call("store", "check")
        assert "start 'onthedot worker'" in checked.output
        with started(tmp_path, "worker", *processes) as worker:
            worker.until("finished", "greet", "succeeded")
            assert "start 'onthedot" not in call("store", "check").output
            assert "hello" in call("logs", "1").output
            worker.signal(signal.SIGTERM)
            assert worker.end() == 0


@pytest.mark.slow
def test_several_processes_are_several_nodes_that_stop_together(program: Path, tmp_path: Path, call: Call):
    with started(tmp_path, "worker", "app.py", "--processes", "2", "--node-id", "w", "--seats", "3") as group:
        group.until("w-1  ", "started", "tick")
        group.until("w-2  ", "started", "tick")
        shown = {node["node_id"]: node for node in nodes(call, tmp_path)}
        assert sorted(shown) == ["w-1", "w-2"]
        assert [node["seats"] for node in shown.values()] == [3, 3]
        group.signal(signal.SIGTERM)
        assert group.end() == 0
        assert group.has("left", "node w-1")
        assert group.has("left", "node w-2")


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row. It is random, because other tests search at the same time, and below
    the range that the kernel uses for outgoing connections."""
    for port in random.sample(range(20_000, 32_000, count), 100):
        with ExitStack() as taken:
            try:
                for number in range(count):
                    taken.enter_context(socket.create_server(("127.0.0.1", port + number)))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def has_begun(port: int) -> bool:
    return 'onthedot_attempts_started_total{job_name="tick",job_namespace="default"}' in scraped(port)


@pytest.mark.slow
def test_each_process_serves_metrics_at_its_own_port(program: Path, tmp_path: Path):
    port = free_ports(2)
    options = ("--processes", "2", "--node-id", "w", "--metrics", f"127.0.0.1:{port}", "--roles", "planner,worker")
    with started(tmp_path, "worker", "app.py", *options) as group:
        group.until("w-1  ", "started", "tick")
        group.until("w-2  ", "started", "tick")
        for number in range(2):
            assert group.has(f"w-{number + 1}  metrics", f"http://127.0.0.1:{port + number}/metrics")
            wait_until(partial(has_begun, port + number), f"an attempt of process {number + 1}")
        group.signal(signal.SIGTERM)
        assert group.end() == 0
    with pytest.raises(OSError, match="refused"):
        scraped(port)


@pytest.mark.slow
def test_a_process_that_lost_its_port_is_retried_without_stopping_the_others(program: Path, tmp_path: Path, call: Call):
    port = free_ports(2)
    options = ("--processes", "2", "--node-id", "w", "--metrics", f"127.0.0.1:{port}", "--lease", "2s")
    with started(tmp_path, "worker", "app.py", "--roles", "planner,worker", *options) as group:
        group.until("w-1  ", "started", "tick")
        group.until("w-2  ", "started", "tick")
        pid = both_nodes(call, tmp_path)["w-2"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: gone(pid), "the end of w-2")
        with socket.create_server(("127.0.0.1", port + 1)):
            group.until("process w-2 ended with 2; it starts again")
        group.until("w-2  metrics", f":{port + 1}/metrics")
        group.signal(signal.SIGTERM)
        assert group.end() == 0


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["--metrics", "1:2:3"], "address: expected HOST:PORT"),
        (["--metrics", "65535", "--processes", "2"], "expected a port with room for 2 processes above it, got 65535"),
    ],
)
def test_bad_metrics_addresses_are_refused(program: Path, call: Call, said: list[str], told: str):
    result = call("worker", program, *said)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.slow
def test_a_process_that_dies_is_started_again(program: Path, tmp_path: Path, call: Call):
    options = ("--processes", "2", "--node-id", "w", "--roles", "planner,worker", "--lease", "2s")
    with started(tmp_path, "worker", "app.py", *options) as group:
        group.until("w-2  ", "started", "tick")
        os.kill(both_nodes(call, tmp_path)["w-1"], signal.SIGKILL)
        group.until("process w-1 ended with -9; it starts again in 1 s")
        group.until("w-1  ", "started", "tick")
        group.signal(signal.SIGINT)
        assert group.end() == 0


@pytest.mark.slow
def test_no_process_outlives_the_command(program: Path, tmp_path: Path, call: Call):
    with started(tmp_path, "worker", "app.py", "--processes", "2", "--node-id", "w") as group:
        group.until("w-2  ", "started", "tick")
        pids = both_nodes(call, tmp_path)
        group.kill()
        wait_until(lambda: all(gone(pid) for pid in pids.values()), "its processes to end")
    assert [node["state"] for node in nodes(call, tmp_path)] == ["left", "left"]


@pytest.mark.slow
def test_a_closed_output_ends_all_processes(program: Path, tmp_path: Path):
    with started(tmp_path, "worker", "app.py", "--processes", "2") as group:
        group.until("started", "tick")
        group.stop_reading()
        group.wait(30)


@pytest.mark.slow
def test_json_lines_name_their_process(program: Path, tmp_path: Path):
    with started(tmp_path, "worker", "app.py", "--processes", "2", "--node-id", "w", "--json", "--for", "2s") as group:
        assert group.end() == 0
    lines = [json.loads(line) for line in group.seen]
    assert {line["process"] for line in lines} == {"w-1", "w-2"}
    assert [line["event"] for line in lines if line["process"] == "w-1"][::100][0] == "Opening"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("worker", "nowhere.py"), "PROGRAM: expected a Python file, found none at 'nowhere.py'"),
        (("worker", "nowhere.py", "--processes", "2"), "PROGRAM: expected a Python file, found none at 'nowhere.py'"),
        (("worker", "app.py", "--queues", "a,,b"), "expected names with commas between them, got 'a,,b'"),
        (("worker", "app.py", "--roles", "boss"), "expected 'planner', 'worker' or both with a comma, got 'boss'"),
        (("worker", "app.py", "--seats", "0"), "0 is not in the range"),
        (("server", "--store", "nix:"), "store URL: expected"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str, ...], expected: str, call: Call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(PROGRAM)
    result = call(*arguments)
    assert result.exit_code == 2
    assert expected in result.output
    assert "Traceback" not in result.output


def test_a_scheduler_with_a_store_object_is_refused(call: Call, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        "import onthedot as otd\nfrom onthedot.stores.memory import MemoryStore\nsched = otd.Scheduler(MemoryStore())\n"
    )
    (tmp_path / "with_object.py").write_text(text)
    result = call("worker", "with_object.py")
    assert result.exit_code == 2
    assert "expected a scheduler with the URL of a store" in result.output
