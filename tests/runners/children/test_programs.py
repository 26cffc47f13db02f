"""Child processes of real programs: handlers are found in the main module, end with their worker, or are refused."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.job import Call, Job
from tests.runners.children import handlers
from tests.runners.children.test_processes import until_gone, until_written

ROOT = Path(__file__).parents[3]
WORKER = Path(__file__).with_name("worker.py")
COMMANDS = {"a file": [str(WORKER)], "a module": ["-m", "tests.runners.children.worker"]}


def start(*arguments: str, cwd: Path = ROOT) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def end_of(process: subprocess.Popen, job: str) -> dict[str, str]:
    """Returns the verdict on the first attempt of this job."""
    for line in process.stdout or ():
        event: dict[str, str] = json.loads(line)
        if event["event"] == "AttemptEnded" and event["job"] == job:
            return event
    raise AssertionError(f"the program ended without a word about {job}")


@pytest.mark.slow
@pytest.mark.parametrize("how", COMMANDS)
def test_a_handler_in_the_main_module_is_found(how, tmp_path):
    with start(*COMMANDS[how], str(tmp_path / "a.db")) as process:
        assert end_of(process, "hello")["state"] == "succeeded"


@pytest.mark.slow
async def test_no_child_outlives_a_worker_that_was_killed(tmp_path):
    """kill -9: the worker cannot clean up, and the handler sleeps."""
    with start(*COMMANDS["a file"], str(tmp_path / "a.db"), str(tmp_path)) as process:
        handler, keeper = map(int, (await until_written(tmp_path / "pids")).split())
        os.kill(process.pid, signal.SIGKILL)
        await until_gone(handler, keeper)


@pytest.mark.slow
async def test_no_handler_outlives_its_keeper(tmp_path):
    with start(*COMMANDS["a file"], str(tmp_path / "a.db"), str(tmp_path)) as process:
        handler, keeper = map(int, (await until_written(tmp_path / "pids")).split())
        os.kill(keeper, signal.SIGKILL)
        assert "killed by SIGKILL" in (end_of(process, "sleeper")["error"] or "")
        await until_gone(handler)


@pytest.mark.slow
def test_a_program_without_a_main_guard_gets_an_error_that_says_so(tmp_path):
    program = tmp_path / "unguarded.py"
    program.write_text(
        "import asyncio, json\nimport onthedot as otd\nfrom onthedot.model.events import AttemptEnded\n"
        "sched = otd.Scheduler('memory:')\n"
        "@sched.job(isolation='process')\ndef work(): ...\n"
        "async def main():\n"
        "    ended = asyncio.Event()\n"
        "    loop = asyncio.get_running_loop()\n"
        "    sched.subscribe(lambda e: isinstance(e, AttemptEnded) and loop.call_soon_threadsafe(ended.set))\n"
        "    async with sched:\n"
        "        run_id = (await sched.submit('work')).id\n"
        "        await ended.wait()\n"
        "        run = await sched.get_run(run_id)\n"
        "        print(json.dumps({'event': 'AttemptEnded', 'job': 'work', 'error': run.error}))\n"
        "asyncio.run(main())\n"
    )
    with start(str(program), cwd=tmp_path) as process:
        assert "put that under \"if __name__ == '__main__':\"" in end_of(process, "work")["error"]


class Tool:
    def use(self) -> None: ...

    def __call__(self) -> None: ...


def local():
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "got a lambda, which has no name"),
        (local(), "local.<locals>.inner, which is local to another function"),
        (partial(handlers.echo, a=1), "got partial object, which has no name in a module"),
        (Tool(), "got Tool object, which has no name in a module"),
        (Tool().use, "got method object, which has no name in a module"),
    ],
    ids=["lambda", "local", "partial", "object", "method"],
)
def test_a_handler_that_a_child_cannot_import_is_refused_at_the_definition(function, words):
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError) as refused:
        sched.job(name="work", isolation="process")(function)
    assert words in str(refused.value)
    assert "define it with 'def' at the top level of a module" in str(refused.value)
    sched.job(name="work")(function)  # the failed definition left nothing behind


@pytest.mark.slow
def test_a_handler_defined_at_a_prompt_is_refused():
    program = (
        "import onthedot as otd\nsched = otd.Scheduler('memory:')\n@sched.job(isolation='process')\ndef work(): ...\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert "got work of a program that is no file (a prompt, python -c" in done.stderr


async def test_a_handler_whose_name_belongs_to_another_function_is_refused_at_start():
    def impostor() -> None: ...

    impostor.__module__, impostor.__qualname__ = handlers.__name__, "echo"
    sched = otd.Scheduler("memory:")
    sched.job(name="work", isolation="process")(impostor)
    with pytest.raises(otd.ArgumentsError, match="to be the handler, but that name leads elsewhere"):
        await sched.start()


def test_the_isolation_option_is_checked():
    sched = otd.Scheduler("memory:")
    with pytest.raises(otd.DefinitionError, match="isolation: expected one of 'none', 'process', got 'container'"):
        sched.job(isolation="container")(handlers.echo)  # type: ignore[call-overload]
    with pytest.raises(otd.UnknownHandler):
        sched.add(Job(name="os", task=Call(handler="os.system"), isolation="process"))
