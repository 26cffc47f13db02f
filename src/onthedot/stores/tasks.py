"""Tasks, bounds and parameters as JSON, for `definitions.py`: what is at its default is left out.

Fields go by their names; lengths of time by `<name>_us`. So a field that is added later, with a default, leaves old
texts readable, and equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from typing import Any

from onthedot.duration import micros
from onthedot.task import (
    Bounds,
    Call,
    Command,
    Container,
    Http,
    Json,
    Mount,
    Noop,
    Param,
    Sleep,
    Source,
    Step,
    Steps,
    Task,
)

_KINDS: dict[str, type[Task]] = {
    kind.__name__.lower(): kind for kind in (Call, Sleep, Noop, Command, Steps, Http, Container)
}
_PARTS: dict[tuple[type[Any], str], type[Any]] = {
    (Steps, "steps"): Step, (Steps, "source"): Source, (Container, "mounts"): Mount,
}  # fmt: skip
_TEXTS = frozenset({"argv", "artifacts", "expect", "choices"})  # tuples of plain values


def task_to_json(task: Task) -> dict[str, Json]:
    """
    >>> task_to_json(Command(argv=("backup", "--all")))
    {'kind': 'command', 'argv': ['backup', '--all']}
    """
    return {"kind": type(task).__name__.lower(), **_to_json(task)}


def task_from_json(data: Mapping[str, Any]) -> Task:
    """`ValueError`, `TypeError` or `KeyError` for anything that `task_to_json` cannot have written."""
    kind = _KINDS.get(data["kind"])
    if kind is None:
        raise ValueError(f"task: expected one of {', '.join(_KINDS)}, got {data['kind']!r}")
    task: Task = _from_json(kind, {key: value for key, value in data.items() if key != "kind"})
    return task


def bounds_to_json(bounds: Bounds) -> dict[str, Json]:
    """
    >>> bounds_to_json(Bounds(processes=10))
    {'processes': 10}
    """
    return _to_json(bounds)


def bounds_from_json(data: Mapping[str, Any]) -> Bounds:
    """What `bounds_to_json` wrote."""
    bounds: Bounds = _from_json(Bounds, data)
    return bounds


def param_to_json(param: Param) -> dict[str, Json]:
    """
    >>> param_to_json(Param(name="region", default="eu"))
    {'name': 'region', 'default': 'eu'}
    """
    return _to_json(param)


def param_from_json(data: Mapping[str, Any]) -> Param:
    """What `param_to_json` wrote."""
    param: Param = _from_json(Param, data)
    return param


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
    part = _PARTS.get((kind, name))
    if part is not None:
        return tuple(_from_json(part, one) for one in value) if isinstance(value, list) else _from_json(part, value)
    return tuple(value) if name in _TEXTS else value
