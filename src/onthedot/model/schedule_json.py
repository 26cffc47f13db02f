"""Writes schedules as JSON and reads them back, and computes the id of a schedule from its JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from onthedot.clock import to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError, did_you_mean, shown
from onthedot.model.job import At, Cron, Every, FixedDelay, In, Schedule

_KINDS: dict[str, type[Schedule]] = {"cron": Cron, "every": Every, "gap": FixedDelay, "at": At, "in": In}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class _Codec(NamedTuple):
    key: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    expected: str


def to_json(schedule: Schedule) -> dict[str, Any]:
    """All fields as JSON values: lengths in whole microseconds, instants as ISO text in UTC. Fields that came later are
    left out at their default, so that what was stored before them stays equal.

    >>> to_json(In(delay=timedelta(seconds=2)))
    {'kind': 'in', 'delay_us': 2000000, 'id': ''}
    """
    data: dict[str, Any] = {"kind": _NAMES[type(schedule)]}
    for field in _stored(schedule):
        value = getattr(schedule, field.name)
        if "sparse" in field.metadata and is_default(field, value):
            continue
        codec = _codec(field.name)
        data[codec.key] = codec.write(value)
    return data


def is_default(field: Field[Any], value: Any) -> bool:
    """Whether a field has its default value."""
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return field.default is not MISSING and bool(value == field.default)


def _stored(schedule: Schedule | type[Schedule]) -> list[Field[Any]]:
    """All fields but those that say nothing by themselves: what H is spread by comes from the job."""
    return [field for field in fields(schedule) if field.compare]


def from_json(data: Mapping[str, Any]) -> Schedule:
    """The schedule that `to_json` wrote; `ScheduleError` for what it cannot have written.

    Keys that have a default may be missing. The schedule is not checked again: a zone that has been renamed
    since must not make a stored job unreadable.

    >>> from_json({"kind": "in", "delay_us": 2_000_000}) == In(delay=timedelta(seconds=2))
    True
    """
    if not isinstance(data, Mapping):
        raise ScheduleError(f"schedule: expected a mapping with 'kind', got {type(data).__name__} {shown(data)}")
    name = data.get("kind")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        near = did_you_mean(str(name), _KINDS)
        raise ScheduleError(f"kind: expected one of {', '.join(_KINDS)}, got {shown(name)}{near}")
    codecs = {_codec(field.name).key: field for field in _stored(kind)}
    unknown = [key for key in data if key != "kind" and key not in codecs]
    if unknown:
        raise ScheduleError([f"{name}: unknown key {shown(key)}{did_you_mean(str(key), codecs)}" for key in unknown])
    missing = [key for key, field in codecs.items() if key not in data and _is_required(field)]
    if missing:
        raise ScheduleError([f"{name}: expected the key {key!r}, which is missing" for key in missing])
    values = {field.name: _read(key, data[key]) for key, field in codecs.items() if key in data}
    return kind(**values)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _read(key: str, value: Any) -> Any:
    codec = _CODECS_BY_KEY.get(key, _codec(key))
    try:
        return codec.read(value)
    except (TypeError, ValueError, OverflowError):
        raise ScheduleError(f"{key}: expected {codec.expected}, got {shown(value)}") from None


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:  # a bool is an int to isinstance
            raise TypeError
        return value

    return read


def _read_length(value: Any) -> timedelta:
    return timedelta(microseconds=_exactly(int)(value))


def _write_instant(instant: datetime | None) -> str | None:
    if instant is None:
        return None
    to_micros(instant)  # refuses a naive one; astimezone would guess this machine's zone
    return instant.astimezone(UTC).isoformat()


def _read_instant(value: Any) -> datetime:
    instant = datetime.fromisoformat(value)
    to_micros(instant)
    return instant.astimezone(UTC)


def _read_optional_instant(value: Any) -> datetime | None:
    return None if value is None else _read_instant(value)


def _write_instants(instants: tuple[datetime, ...]) -> list[str | None]:
    return [_write_instant(instant) for instant in instants]


def _read_instants(value: Any) -> tuple[datetime, ...]:
    return tuple(_read_instant(one) for one in _exactly(list)(value))


def _read_optional_number(value: Any) -> int | None:
    return None if value is None else _exactly(int)(value)


def _same(value: Any) -> Any:
    return value


_INSTANT = "ISO text with an offset"
_CODECS = {
    "interval": _Codec("interval_us", micros, _read_length, "whole microseconds"),
    "delay": _Codec("delay_us", micros, _read_length, "whole microseconds"),
    "anchor": _Codec("anchor", _write_instant, _read_optional_instant, f"{_INSTANT} or null"),
    "start": _Codec("start", _write_instant, _read_optional_instant, f"{_INSTANT} or null"),
    "instant": _Codec("instant", _write_instant, _read_instant, _INSTANT),
    "more": _Codec("more", _write_instants, _read_instants, f"a list of {_INSTANT}"),
    "end": _Codec("end", _write_instant, _read_optional_instant, f"{_INSTANT} or null"),
    "max_count": _Codec("max_count", _same, _read_optional_number, "a whole number or null"),
    "jitter": _Codec("jitter_us", micros, _read_length, "whole microseconds"),
    "args": _Codec("args", dict, _exactly(dict), "a mapping"),
    "run_once": _Codec("run_once", _same, _exactly(bool), "true or false"),
}
_CODECS_BY_KEY = {codec.key: codec for codec in _CODECS.values()}


def _codec(name: str) -> _Codec:
    return _CODECS.get(name) or _Codec(name, _same, _exactly(str), "text")


_DIGITS = 10  # 40 bits: among a job's ten schedules, two alike once in 20 billion jobs


def schedule_id(schedule: Schedule) -> str:
    """The given id, or ten hexadecimal digits that depend on the kind and the fields alone.

    Fields at their default are left out of the hash, so that a field added in a later version changes no id.
    Equal schedules have equal ids: two of them in one job need ids of their own.

    >>> from onthedot.model.job import Cron
    >>> schedule_id(Cron(expression="@daily")), schedule_id(Cron(expression="@daily", id="nightly"))
    ('125524c037', 'nightly')
    """
    if schedule.id:
        return schedule.id
    data = to_json(schedule)
    for field in fields(schedule):
        if is_default(field, getattr(schedule, field.name)):
            data.pop(field.name, None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
