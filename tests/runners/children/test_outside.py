"""Nothing from outside is imported, unpickled or evaluated."""

import ast
import base64
import json
import pickle
from pathlib import Path

import pytest

import onthedot as otd
from onthedot.model.events import AttemptEnded
from onthedot.model.job import Call, Job
from onthedot.runners.child_messages import outcome_from_json
from onthedot.runners.frames import BadFrame
from onthedot.stores.memory import MemoryStore
from tests.architecture.source import PACKAGE, VERIFY, python_files
from tests.runners.children import handlers
from tests.runners.children.test_processes import Node, result_of
from tests.watching import Watch


class Bomb:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self):
        return Path.touch, (Path(self._path),)


def attacks(path: Path) -> dict[str, object]:
    return {
        "handler": ["os", "system"],
        "main": {"path": str(path)},
        "lease": {"record": "os.system"},
        "pickle": base64.b64encode(pickle.dumps(Bomb(str(path)))).decode(),
        "raw_pickle": pickle.dumps(Bomb(str(path)), protocol=0).decode(),
        "code": f"__import__('pathlib').Path({str(path)!r}).touch()",
        "format": "{0.__class__.__mro__}",
        "yaml": f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [{path}]]",
        "py/object": "pathlib.Path",
        "__class__": "pathlib.Path",
        "__reduce__": ["os.system", [f"touch {path}"]],
        "$ref": "file:///etc/passwd",
        "shell": f"$(touch {path}); `touch {path}`",
    }


@pytest.mark.slow
async def test_arguments_arrive_unchanged(tmp_path):
    path = tmp_path / "touched"
    given = attacks(path)
    async with Node(handlers.echo, settings=otd.Settings(processes=1)) as node:
        run = await node.run("echo", **given)
    assert result_of(run) == given
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "handler", ["os.system", "os:system", "tests.runners.children.handlers.exits", "../evil", "__main__"]
)
async def test_a_stored_job_can_only_run_registered_handlers(handler):
    """Somebody put this definition into the store. No worker takes it, whatever handler it names."""
    store = MemoryStore()
    sched = otd.Scheduler(store, settings=otd.Settings(processes=1))
    sched.job(isolation="process")(handlers.where)
    await store.put_job(Job(name="evil", task=Call(handler=handler), args={"command": "true"}, isolation="process"))
    watch = Watch(sched)
    async with sched:
        run_id = (await sched.submit("evil")).id
        own = await sched.submit("where")
        await watch.until_count(AttemptEnded, 1)
        done = await sched.get_run(own)
        run = await sched.get_run(run_id)
    assert run is not None
    assert done is not None
    assert done.state == "succeeded"
    assert (run.state, run.attempts) == ("scheduled", 0)


@pytest.mark.parametrize(
    "message",
    [
        None,
        "succeeded",
        ["succeeded", None, [], 5],
        ["cancelled", "by me", [], None],
        ["lost", "x", [], None],
        ["failed", None, [], None],
        ["failed", "x", [1], None],
        ["failed", "x", ["a"], "result"],
        {"kind": "succeeded"},
    ],
)
def test_a_child_can_only_report_success_or_failure(message):
    with pytest.raises(BadFrame):
        outcome_from_json(json.loads(json.dumps(message)))


@pytest.mark.slow
def test_no_module_unpickles_or_evaluates_data():
    modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing", "yaml"}
    found = []
    for path in python_files(PACKAGE, VERIFY):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    found += [f"{path.name}: {name.name}" for name in names if name.name.split(".")[0] in modules]
                case ast.ImportFrom(module=str(module)) if module.split(".")[0] in modules:
                    found.append(f"{path.name}: {module}")
                case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" | "__import__" as name)):
                    found.append(f"{path.name}: {name}(…)")
    assert found == []
