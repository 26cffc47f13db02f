"""Writes job definitions as canonical JSON, and reads them back. Stores keep jobs in this form.

Canonical JSON: equal jobs give equal text, and `decode(encode(job)) == job`. Fields go by their names; lengths of time
by `<name>_us`. Values that are at their default are left out and filled in when read, so that a field added in a later
version leaves old texts readable, and equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from onthedot.model.after import After
from onthedot.model.duration import micros
from onthedot.model.job import CatchUp, Guarantee, Job, Json, Limit, Overlap, Rate, Retry
from onthedot.model.route import DEFAULT_QUEUE, PRIORITIES
from onthedot.model.schedule_json import from_json, to_json
from onthedot.model.task import (
    Bounds,
    Call,
    Command,
    Container,
    Http,
    Mount,
    Noop,
    Param,
    Sleep,
    Source,
    Step,
    Steps,
    Task,
)

_TASKS = {kind.__name__.lower(): kind for kind in (Call, Sleep, Noop, Command, Steps, Http, Container)}
_INNER = {(Steps, "steps"): Step, (Steps, "source"): Source, (Container, "mounts"): Mount}
_TUPLES = frozenset({"argv", "artifacts", "expect", "choices", "on"})  # of plain values


class Unreadable(ValueError):
    """A stored definition that this version cannot have written."""


def hash_of(definition: str) -> str:
    """The hash of a definition, by which two definitions are compared."""
    return hashlib.sha256(definition.encode()).hexdigest()


def encode(job: Job) -> str:
    """A definition as canonical JSON."""
    data = {part.key: part.write(getattr(job, part.name)) for part in _PARTS}
    changed = {key: value for key, value in data.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}
    return json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def decode(definition: str) -> Job:
    """The job that `encode` wrote; `Unreadable` for anything else."""
    try:
        data = _DEFAULTS | _mapping(json.loads(definition))
        given = {part.name: part.read(data.pop(part.key)) for part in _PARTS}
        return Job(**given, **data)  # nothing is left in data, or an unknown key is refused here
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unreadable(f"expected a job definition, got {definition[:200]!r} ({error})") from error


# ── the parts of a definition ────────────────────────────────────────────────────────────────────────────────


def task_to_json(task: Task) -> dict[str, Json]:
    """
    >>> task_to_json(Command(argv=("backup", "--all")))
    {'kind': 'command', 'argv': ['backup', '--all']}
    """
    return {"kind": type(task).__name__.lower(), **_to_json(task)}


def _task_from_json(data: Mapping[str, Any]) -> Any:
    kind = _TASKS.get(data["kind"])
    if kind is None:
        raise ValueError(f"task: expected one of {', '.join(_TASKS)}, got {data['kind']!r}")
    return _from_json(kind, {key: value for key, value in data.items() if key != "kind"})


def _to_json(value: Any) -> dict[str, Json]:
    data: dict[str, Json] = {}
    for one in fields(value):
        given = getattr(value, one.name)
        if given == _default(one):
            continue
        is_length = isinstance(given, timedelta)
        data[f"{one.name}_us" if is_length else one.name] = micros(given) if is_length else _plain(given)
    return data


def _plain(value: Any) -> Json:
    if is_dataclass(value):
        return _to_json(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return dict(value) if isinstance(value, Mapping) else value


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _from_json(kind: type[Any], data: Mapping[str, Any]) -> Any:
    names = {one.name for one in fields(kind)}
    given: dict[str, Any] = {}
    for key, value in data.items():
        name = key.removesuffix("_us")
        if name not in names:
            raise ValueError(f"{kind.__name__.lower()}: expected one of {', '.join(sorted(names))}, got {key!r}")
        given[name] = timedelta(microseconds=value) if key.endswith("_us") else _read(kind, name, value)
    return kind(**given)


def _read(kind: type[Any], name: str, value: Any) -> Any:
    part = _INNER.get((kind, name))
    if part is not None:
        return tuple(_from_json(part, one) for one in value) if isinstance(value, list) else _from_json(part, value)
    return tuple(value) if name in _TUPLES else value


def _overlap_to_json(policy: Overlap) -> dict[str, Json]:
    data: dict[str, Json] = {"mode": policy.mode}
    if policy.mode == "wait":
        data["max_waiting"] = policy.max_waiting
    if policy.max_running is not None:
        data["max_running"] = policy.max_running
    return data


def _after_from_json(data: Mapping[str, Any]) -> After:
    return After(*data["parents"], any=data["any"], on=data["on"])


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {type(value).__name__}")
    return value


def _same(value: Any) -> Any:
    return value


_REQUIRED: Any = object()


class _Part(NamedTuple):
    """A field of a job: its key, how it is written, how it is read, and what is left out."""

    name: str
    default: Any = _REQUIRED
    write: Callable[[Any], Json] = _same
    read: Callable[[Any], Any] = _same
    key: str = ""


def _optional(name: str, write: Callable[[Any], Json], read: Callable[[Any], Any], key: str = "") -> _Part:
    """A part that may be None, and is by default."""
    return _Part(name, None, lambda v: None if v is None else write(v), lambda v: None if v is None else read(v), key)


def _policy(name: str, kind: type[Any]) -> _Part:
    """A policy whose own values are left out where they are at their default."""
    defaults = _to_json(kind())

    def write(policy: Any) -> Json:
        return {key: value for key, value in _to_json(policy).items() if value != defaults[key]}

    def read(data: Any) -> Any:
        return _from_json(kind, {key: data.get(key, value) for key, value in defaults.items()})

    return _Part(name, {}, write, read)


def _reader(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda data: _from_json(kind, data)


_PARTS = [
    part if part.key else part._replace(key=part.name)
    for part in (
        _Part("name"),
        _Part("task", write=task_to_json, read=_task_from_json),
        _Part("schedules", [], lambda all: [to_json(one) for one in all], lambda all: tuple(map(from_json, all))),
        _optional("after", _to_json, _after_from_json),
        _Part("args", {}, dict, _mapping),
        _Part("namespace", "default"),
        _Part("owner", ""),
        _Part("guarantee", Guarantee.AT_LEAST_ONCE.value, lambda one: one.value, Guarantee),
        _policy("catch_up", CatchUp),
        _optional("overlap", _overlap_to_json, _reader(Overlap)),
        _optional("concurrency", _to_json, _reader(Limit)),
        _optional("rate", _to_json, _reader(Rate)),
        _policy("retry", Retry),
        _optional("timeout", micros, lambda value: timedelta(microseconds=value), "timeout_us"),
        _Part("max_recoveries", 3),
        _Part("queue", DEFAULT_QUEUE),
        _Part("priority", "normal", read=lambda name: PRIORITIES[PRIORITIES.index(name)]),
        _Part("labels", [], sorted, frozenset),
        _Part("on", "any"),
        _Part("share", ""),
        _Part("assignment", "worker"),
        _Part("isolation", "none"),
        _Part("bounds", {}, _to_json, _reader(Bounds)),
        _Part("params", [], lambda all: [_to_json(one) for one in all], lambda all: tuple(map(_reader(Param), all))),
    )
]
_DEFAULTS: dict[str, Json] = {part.key: part.default for part in _PARTS if part.default is not _REQUIRED}
