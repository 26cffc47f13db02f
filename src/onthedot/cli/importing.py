"""A user's program: the scheduler that a file or a module defines, imported so that it stays.

It is imported under its own name, with its folder on the path, because processes that a worker starts for
`isolation="process"` import the same module by that name.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from onthedot.blocking import BlockingScheduler
from onthedot.cli.errors import BadInput
from onthedot.errors import OnTheDotError, did_you_mean
from onthedot.scheduler import Scheduler


def import_program(text: str) -> Scheduler:
    """The scheduler of `app.py` or `package.module`, or of `app.py:name` if there are several."""
    where, _, name = text.partition(":")
    if where.endswith(".py"):
        module = _import(where, _on_path(where))
        if Path(module.__file__ or "").resolve() != Path(where).resolve():
            raise BadInput(
                f"PROGRAM: expected to import {where}, got {module.__file__}, which has the same name; rename yours"
            )
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = _import(where, where)
    found = {key: scheduler for key, value in vars(module).items() if (scheduler := _scheduler_of(value)) is not None}
    return _choose(found, where, name)


def _on_path(file: str) -> str:
    """The name that a file is imported by, from its own folder."""
    path = Path(file)
    if not path.is_file():
        nearby = [other.name for other in (path.parent if path.parent.is_dir() else Path()).glob("*.py")]
        raise BadInput(f"PROGRAM: expected a Python file, found none at {file!r}{did_you_mean(path.name, nearby)}")
    sys.path.insert(0, str(path.parent.resolve()))
    return path.stem


def _import(where: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
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
    except Exception as error:
        raise BadInput(
            f"{where}: {type(error).__name__}: {error}; it must be importable (--debug shows where it breaks)"
        ) from error


def _scheduler_of(value: object) -> Scheduler | None:
    if isinstance(value, BlockingScheduler):
        return value.scheduler
    return value if isinstance(value, Scheduler) else None


def _choose(found: dict[str, Scheduler], where: str, name: str) -> Scheduler:
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
