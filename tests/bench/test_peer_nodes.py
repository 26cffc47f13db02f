"""The protocol between the driver and a node, and the environments of peers."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from bench.peers import environments as environments_module
from bench.peers.catalog import SYSTEMS
from bench.peers.child import Child, Lacking, child
from bench.peers.environments import MISSING, Environments, make, split
from bench.peers.node import AT_ONCE, BULK, FILL, LOOP, BlockingNode, Commands, Node
from bench.results import BenchFailed

ROOT = Path(__file__).parents[2]


class Queue(Node):
    """A system that keeps its jobs in a list, and executes them when it stops."""

    distribution = "onthedot"

    def __init__(self) -> None:
        super().__init__("memory:", ())
        self.jobs: list[int] = []
        self.calls: list[int] = []

    async def submit(self, number: int) -> None:
        self.jobs.append(number)
        self.calls.append(1)
        await asyncio.sleep(0)

    async def start(self) -> None: ...

    async def stop(self) -> None:
        for number in self.jobs:
            self.note(number)
        self.jobs = []

    async def left(self) -> int:
        return len(self.jobs)


class BulkQueue(Queue):
    has_bulk = True

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        self.jobs += numbers
        self.calls.append(len(numbers))


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", ["submit", "at_once", "bulk"])
async def test_a_rate_counts_what_was_submitted_while_the_clock_ran(verb):
    queue = Queue()
    count, seconds = await getattr(Commands(queue), verb)(0.02)
    first = {"submit": 1, "at_once": AT_ONCE, "bulk": LOOP}[verb]
    assert len(queue.jobs) == count + first, "the first call is not timed"
    assert len(set(queue.jobs)) == len(queue.jobs)
    assert count % first == 0
    assert 0.02 <= seconds < 5


async def test_a_bulk_submit_is_one_call_if_the_system_has_one():
    queue = BulkQueue()
    await Commands(queue).bulk(0.001)
    assert set(queue.calls) == {BULK}
    queue.calls.clear()
    await Commands(queue).fill(2 * FILL + 1)
    assert queue.calls == [FILL, FILL, 1]


async def test_a_queue_is_filled_worked_off_and_counted():
    queue = Queue()
    commands = Commands(queue)
    await commands.fill(3)
    assert await commands.left() == 3
    await commands.start()
    before = time.time_ns()
    assert await commands.one(7) >= before
    told = await commands.stop()
    assert told["numbers"] == [0, 1, 2, 7]
    assert all(before <= instant <= time.time_ns() for instant in told["instants"])
    assert (told["began"], told["ended"]) == (None, None)
    assert await commands.executed() == 4
    assert await commands.left() == 0
    await commands.start()
    assert await commands.executed() == 0


async def test_the_version_is_that_of_the_package():
    assert (await Commands(BulkQueue()).version())["has_bulk"]
    assert re.match(r"\d+\.", (await Commands(Queue()).version())["version"])


async def test_a_blocking_client_submits_many_at_once_from_threads():
    class Blocking(BlockingNode):
        def __init__(self) -> None:
            super().__init__("memory:", ())
            self.inside = self.most = 0

        def submit_now(self, number: int) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.05)
            self.inside -= 1

    node = Blocking()
    await node.submit_at_once(range(8))
    assert node.most > 1


def test_the_program_of_a_node_imports_nothing_of_onthedot():
    """Peers' environments do not have it."""
    modules = [ROOT / "bench" / "peers" / "node.py"]
    modules += [ROOT / "bench" / "peers" / "nodes" / f"{one.node}.py" for one in SYSTEMS if one.environment]
    for module in {*modules, ROOT / "bench" / "__init__.py", ROOT / "bench" / "peers" / "__init__.py"}:
        for node in ast.walk(ast.parse(module.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong = [name for name in names if name.startswith(("onthedot", "tests", "bench"))]
            assert set(wrong) <= {"bench.peers.node"}, module


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import asyncio, sys, threading, time
from bench.peers.node import Node, main

class Made(Node):
    distribution = "onthedot"

    async def prepare(self):
        print("a system prints this")

    async def connect(self):
        raise ValueError("no\\nserver")

    async def disconnect(self):
        sys.exit("it is broken")

    async def submit(self, number):
        self.note(number)

    async def start(self):
        self.note(99)

    async def stop(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()

    async def left(self):
        await asyncio.sleep(1000)

main(Made)
"""

Start = Callable[..., AbstractAsyncContextManager[Child]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a process of a made-up system."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda *flags, url="made:": child("made", [sys.executable, str(program), url, *flags], tmp_path)


@pytest.mark.slow
async def test_a_process_answers_whatever_the_system_prints(start):
    async with start() as node:
        assert await node.ask("prepare") is None
        assert await node.ask("executed") == 0
        assert await node.ask("one", 5) > 0
        assert await node.ask("executed") == 1
        assert "a system prints this" in node.errors()


@pytest.mark.slow
async def test_what_a_system_lacks_differs_from_what_fails(start):
    async with start() as node:
        with pytest.raises(Lacking, match="fill_at: this system does not have it"):
            await node.ask("fill_at", 3, 0)
        with pytest.raises(BenchFailed, match="made: connect: ValueError: no\nserver"):
            await node.ask("connect")
        assert await node.ask("executed") == 0, "it goes on"


@pytest.mark.slow
async def test_a_process_that_ends_early_is_reported_with_its_last_words(start):
    async with start() as node:
        with pytest.raises(BenchFailed, match="a process ended early: it is broken"):
            await node.ask("disconnect")


@pytest.mark.slow
async def test_a_process_ends_with_its_input_whatever_it_is_doing(start):
    began = time.monotonic()
    async with start() as node:
        await node.ask("stop")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await node.ask("left")
    assert time.monotonic() - began < 5
    assert node._process.returncode == 0, "it was not killed"


@pytest.mark.slow
async def test_the_first_job_needs_no_command(start):
    async with start("--first") as node:
        assert (await node.ask("stop"))["numbers"] == [99]
    async with start("--first", url="memory:") as node:
        assert (await node.ask("stop"))["numbers"] == [99, 0], "in memory it submits its own"


# ── environments ─────────────────────────────────────────────────────────────────────────────────────────────

REQUIREMENTS = """\
anyio==4.11.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via arq
arq==0.28.0 ; python_full_version < '3.15' \\
    --hash=sha256:bb
    # via onthedot (pyproject.toml:peers-2)
redis==5.3.1 \\
    --hash=sha256:cc
"""


def test_requirements_are_split_by_package_with_all_their_hashes():
    assert [name for name, _ in split(REQUIREMENTS)] == ["anyio", "arq", "redis"]
    assert "".join(lines for _, lines in split(REQUIREMENTS)).replace("\n\n", "\n") == REQUIREMENTS


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What cannot be installed, and why."""
    broken: dict[str, str] = {}

    def install(folder: Path, requirements: Path) -> str | None:
        text = requirements.read_text()
        return next((why for name, why in broken.items() if f"{name}==" in text), None)

    monkeypatch.setattr(environments_module, "_install", install)
    monkeypatch.setattr("venv.create", lambda folder, **_: folder.mkdir())
    return broken


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.txt"
    file.write_text(REQUIREMENTS)
    return file


def test_an_environment_is_made_of_what_can_be_installed(pip, requirements, tmp_path, capsys):
    assert make(tmp_path / "all", requirements) == {}
    pip["arq"] = "no build for this Python"
    assert make(tmp_path / "some", requirements) == {"arq": "no build for this Python"}
    assert json.loads((tmp_path / "some" / MISSING).read_text()) == {"arq": "no build for this Python"}
    assert "arq: no build for this Python" in capsys.readouterr().err


def test_an_environment_is_not_made_without_a_network(pip, requirements, tmp_path):
    pip.update(dict.fromkeys(["anyio", "arq", "redis"], "no route to host"))
    with pytest.raises(BenchFailed, match="3 packages in a row could not be installed"):
        make(tmp_path / "none", requirements)


def test_the_second_environment_is_next_to_the_first(tmp_path):
    environments = Environments(tmp_path / ".venv-peers")
    assert environments.folder("peers") == tmp_path / ".venv-peers"
    assert environments.folder("peers-2") == tmp_path / ".venv-peers-2"
    commands = {one.name: environments.command(one) for one in SYSTEMS}
    assert commands["onthedot"] == [sys.executable, "-m", "bench.peers.nodes.ours"]
    assert commands["arq"][0] == str(tmp_path / ".venv-peers-2" / "bin" / "python")
    assert commands["huey-no-fsync"] == commands["huey"]


@pytest.mark.slow
async def test_a_system_that_does_not_work_is_skipped_with_the_reason(tmp_path):
    [ours] = [one for one in SYSTEMS if one.name == "onthedot"]
    [arq] = [one for one in SYSTEMS if one.name == "arq"]
    folder = tmp_path / ".venv-peers-2"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)  # which has no arq
    (folder / MISSING).write_text(json.dumps({"arq": "no build for this Python"}))
    versions, missing = await Environments(tmp_path / ".venv-peers").versions([ours, arq], tmp_path)
    assert list(versions) == ["onthedot"]
    assert list(missing) == ["arq"]
    assert missing["arq"].startswith("ModuleNotFoundError: No module named ")
    assert missing["arq"].endswith("; arq: no build for this Python")


def test_locked_requirements_have_hashes_and_name_no_host():
    for name in ("peers", "peers-2"):
        text = (ROOT / f"requirements-{name}.txt").read_text()
        packages = list(split(text))
        assert len(packages) > 10
        assert all("--hash=sha256:" in lines for _, lines in packages)
        assert not re.search(r"://|(^|\s)/|file:", text, re.MULTILINE)
