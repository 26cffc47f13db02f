"""A program's scheduler, found in its file without running more of it than its definitions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from onthedot.blocking import BlockingScheduler
from onthedot.cli.errors import BadInput
from onthedot.errors import OnTheDotError, did_you_mean
from onthedot.scheduler import Scheduler

_MODULE = "__onthedot_program__"


class _StartsHere(BaseException):
    """The program starts its scheduler: everything that it defines is defined by now."""


def load_program(text: str) -> Scheduler:
    """The scheduler of `app.py`, or of `app.py:name` if it has several.

    The file is imported, not run: what it does under `if __name__ == "__main__"` is left alone. A program that starts
    its scheduler without asking for that is stopped there.
    """
    file, _, name = text.partition(":")
    path = Path(file)
    if not path.is_file():
        nearby = [other.name for other in (path.parent if path.parent.is_dir() else Path()).glob("*.py")]
        raise BadInput(f"PROGRAM: expected a Python file, found none at {file!r}{did_you_mean(path.name, nearby)}")
    module, started = _import(path)
    found = {key: scheduler for key, value in vars(module).items() if (scheduler := _scheduler_of(value)) is not None}
    for scheduler in started:
        if all(scheduler is not other for other in found.values()):
            found["(started)"] = scheduler
    return _choose(found, file, name)


def _scheduler_of(value: object) -> Scheduler | None:
    if isinstance(value, BlockingScheduler):
        return value.scheduler
    return value if isinstance(value, Scheduler) else None


def _import(path: Path) -> tuple[ModuleType, list[Scheduler]]:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"PROGRAM: expected a Python file, got {str(path)!r}; its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # what it defines says that it comes from there
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours, as for `python app.py`
    try:
        with _nobody_starts() as started:
            try:
                spec.loader.exec_module(module)
            except OnTheDotError as error:
                raise BadInput(f"{path}: {error}") from error
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                if not started:  # else it was stopped by us, whatever has become of that on its way
                    raise BadInput(_in_words(path, error)) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
        sys.modules.pop(_MODULE, None)
    return module, started


@contextmanager
def _nobody_starts() -> Iterator[list[Scheduler]]:
    """Schedulers that are started meanwhile: noted, and stopped before anything happens."""
    started: list[Scheduler] = []
    start = Scheduler.start

    async def note(scheduler: Scheduler) -> None:
        started.append(scheduler)
        raise _StartsHere

    Scheduler.start = note  # type: ignore[method-assign, assignment]
    try:
        yield started
    finally:
        Scheduler.start = start  # type: ignore[method-assign]


def _in_words(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{path}, line {error.lineno}: {error.msg}"
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path.absolute()):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f"{path}, line {line}" if line else str(path)
    return f"{where}: {type(error).__name__}: {error}; the program must be importable (--debug shows where)"


def _choose(found: dict[str, Scheduler], file: str, name: str) -> Scheduler:
    different = {id(scheduler): key for key, scheduler in reversed(found.items())}
    if name:
        if name not in found:
            raise BadInput(
                f"PROGRAM: expected the name of a scheduler in {file}, got {name!r}{did_you_mean(name, found)}"
            )
        return found[name]
    if not different:
        raise BadInput(
            f"PROGRAM: expected {file} to define a scheduler, found none; write 'sched = otd.Scheduler(…)' at its top"
        )
    if len(different) > 1:
        names = ", ".join(f"{file}:{key}" for key in reversed(different.values()))
        raise BadInput(f"PROGRAM: expected one scheduler in {file}, found several; choose one of {names}")
    scheduler = next(iter(found.values()))
    if not scheduler.jobs:
        raise BadInput(f"PROGRAM: expected {file} to define jobs, found none; write '@sched.job(schedule=…)' above one")
    return scheduler
