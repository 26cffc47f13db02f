"""Loads a user's program: the scheduler that its file or module defines, without starting it.

The program is imported under its own name, with its folder on the path: processes for `isolation="process"` import the
same module by that name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import onthedot as otd
from onthedot.cli.errors import BadInput
from onthedot.cli.options import DEFAULT_STORE
from onthedot.model.errors import OnTheDotError, did_you_mean


class _StartsHere(BaseException):
    """Raised when the program starts its scheduler. By then it has defined its jobs."""


def load_program(text: str) -> otd.Scheduler:
    """The scheduler of `app.py` or `package.module`, or of `app.py:name` if there are several; or one for the jobs of
    `jobs.yaml`.

    The program is imported, not run: `if __name__ == "__main__"` does not apply. A program that starts its scheduler at
    import is stopped there.
    """
    where, _, name = text.partition(":")
    if where.endswith((".yaml", ".yml")):
        return _read_jobs(where)
    module, started = _import_file(where) if where.endswith(".py") else _import_module(where)
    found = {key: scheduler for key, value in vars(module).items() if (scheduler := _scheduler_of(value)) is not None}
    for scheduler in started:
        if all(scheduler is not other for other in found.values()):
            found["(started)"] = scheduler
    return _choose(found, where, name)


def _read_jobs(file: str) -> otd.Scheduler:
    """A scheduler for the jobs of a YAML file. Programs start in the file's folder, unless their job names another."""
    path = Path(file)
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        nearby = [other.name for suffix in ("*.yaml", "*.yml") for other in folder.glob(suffix)]
        raise BadInput(f"PROGRAM: expected a YAML file, found none at {file!r}{did_you_mean(path.name, nearby)}")
    scheduler = otd.Scheduler(DEFAULT_STORE, settings=otd.Settings(programs_in=str(path.parent.resolve())))
    try:
        scheduler.add_file(path)
    except OnTheDotError as error:
        raise BadInput(str(error)) from error
    return scheduler


def _import_file(file: str) -> tuple[ModuleType, list[otd.Scheduler]]:
    path = Path(file)
    if not path.is_file():
        nearby = [other.name for other in (path.parent if path.parent.is_dir() else Path()).glob("*.py")]
        raise BadInput(f"PROGRAM: expected a Python file, found none at {file!r}{did_you_mean(path.name, nearby)}")
    sys.path.insert(0, str(path.parent.resolve()))  # its folder, as for `python app.py`
    module, started = _import(file, path.stem)
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise BadInput(
            f"PROGRAM: expected to import {file}, got {module.__file__}, which has the same name; rename yours"
        )
    return module, started


def _import_module(name: str) -> tuple[ModuleType, list[otd.Scheduler]]:
    sys.path.insert(0, str(Path.cwd()))
    return _import(name, name)


def _import(where: str, name: str) -> tuple[ModuleType, list[otd.Scheduler]]:
    with _nobody_starts(name) as stopped:
        try:
            return importlib.import_module(name), stopped.schedulers
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if missing and (name == missing or name.startswith(f"{missing}.")):
                raise BadInput(
                    f"PROGRAM: expected a module that can be imported from here, found none named {missing!r}; "
                    "name a file (app.py) or go to the folder that it is in"
                ) from error
            raise BadInput(f"{where}: it imports {missing!r}, which is not installed here") from error
        except OnTheDotError as error:
            raise BadInput(f"{where}: {error}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # includes `_StartsHere`; and a program may raise anything
            if stopped.module is None:
                raise BadInput(_in_words(where, error)) from error
            sys.modules[name] = stopped.module  # keep the module, as far as it was imported
            return stopped.module, stopped.schedulers


@dataclass
class _Stopped:
    """Schedulers that a program started while it was imported, and the module as far as it was imported."""

    schedulers: list[otd.Scheduler] = field(default_factory=list)
    module: ModuleType | None = None


@contextmanager
def _nobody_starts(name: str) -> Iterator[_Stopped]:
    """In this context a scheduler that starts is recorded, and stopped before it does anything."""
    stopped, start = _Stopped(), otd.Scheduler.start

    async def note(scheduler: otd.Scheduler) -> None:
        stopped.schedulers.append(scheduler)
        stopped.module = sys.modules.get(name)
        raise _StartsHere

    otd.Scheduler.start = note  # type: ignore[method-assign, assignment]
    try:
        yield stopped
    finally:
        otd.Scheduler.start = start  # type: ignore[method-assign]


def _scheduler_of(value: object) -> otd.Scheduler | None:
    if isinstance(value, otd.BlockingScheduler):
        return value.scheduler
    return value if isinstance(value, otd.Scheduler) else None


def _in_words(where: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{where}, line {error.lineno}: {error.msg}"
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(Path(where).absolute()):
            line = trace.tb_lineno
        trace = trace.tb_next
    place = f"{where}, line {line}" if line else where
    return f"{place}: {type(error).__name__}: {error}; the program must be importable (--debug shows where)"


def _choose(found: dict[str, otd.Scheduler], where: str, name: str) -> otd.Scheduler:
    if name:
        if name not in found:
            expected = f"PROGRAM: expected the name of a scheduler in {where}, got {name!r}"
            raise BadInput(expected + did_you_mean(name, found))
        return found[name]
    different: dict[int, str] = {}
    for key, scheduler in found.items():
        different.setdefault(id(scheduler), key)
    if not different:
        raise BadInput(
            f"PROGRAM: expected {where} to define a scheduler, found none; write 'sched = otd.Scheduler(…)' at its top"
        )
    if len(different) > 1:
        names = ", ".join(f"{where}:{key}" for key in different.values())
        raise BadInput(f"PROGRAM: expected one scheduler in {where}, found several; choose one of {names}")
    return next(iter(found.values()))
