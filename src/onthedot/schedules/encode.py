"""Schedules as plain data for storing: one dict of JSON values per schedule, the same for equal schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from onthedot.clock import to_micros
from onthedot.duration import micros
from onthedot.errors import ScheduleError, did_you_mean
from onthedot.job import At, Cron, Every, FixedDelay, In, Schedule

_KINDS: dict[str, type[Schedule]] = {"cron": Cron, "every": Every, "gap": FixedDelay, "at": At, "in": In}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class _Codec(NamedTuple):
    key: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    expected: str


def to_json(schedule: Schedule) -> dict[str, Any]:
    """All fields as JSON values: lengths in whole microseconds, instants as ISO text in UTC.

    >>> to_json(In(delay=timedelta(seconds=2)))
    {'kind': 'in', 'delay_us': 2000000, 'id': ''}
    """
    data: dict[str, Any] = {"kind": _NAMES[type(schedule)]}
    for field in fields(schedule):
        codec = _codec(field.name)
        data[codec.key] = codec.write(getattr(schedule, field.name))
    return data


def from_json(data: Mapping[str, Any]) -> Schedule:
    """The schedule that `to_json` wrote; `ScheduleError` for what it cannot have written.

    Keys that have a default may be missing. The schedule is not checked again: a zone that has been renamed
    since must not make a stored job unreadable.

    >>> from_json({"kind": "in", "delay_us": 2_000_000})
    In(delay=datetime.timedelta(seconds=2), id='')
    """
    if not isinstance(data, Mapping):
        raise ScheduleError(f"schedule: expected a mapping with 'kind', got {type(data).__name__} {data!r}")
    name = data.get("kind")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        near = did_you_mean(str(name), _KINDS)
        raise ScheduleError(f"kind: expected one of {', '.join(_KINDS)}, got {name!r}{near}")
    codecs = {_codec(field.name).key: field for field in fields(kind)}
    unknown = [key for key in data if key != "kind" and key not in codecs]
    if unknown:
        raise ScheduleError([f"{name}: unknown key {key!r}{did_you_mean(str(key), codecs)}" for key in unknown])
    missing = [key for key, field in codecs.items() if key not in data and field.default is MISSING]
    if missing:
        raise ScheduleError([f"{name}: expected the key {key!r}, which is missing" for key in missing])
    values = {field.name: _read(key, data[key]) for key, field in codecs.items() if key in data}
    return kind(**values)


def _read(key: str, value: Any) -> Any:
    codec = _CODECS_BY_KEY.get(key, _codec(key))
    try:
        return codec.read(value)
    except (TypeError, ValueError, OverflowError):
        raise ScheduleError(f"{key}: expected {codec.expected}, got {value!r}") from None


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


def _same(value: Any) -> Any:
    return value


_INSTANT = "ISO text with an offset"
_CODECS = {
    "interval": _Codec("interval_us", micros, _read_length, "whole microseconds"),
    "delay": _Codec("delay_us", micros, _read_length, "whole microseconds"),
    "anchor": _Codec("anchor", _write_instant, _read_optional_instant, f"{_INSTANT} or null"),
    "start": _Codec("start", _write_instant, _read_optional_instant, f"{_INSTANT} or null"),
    "instant": _Codec("instant", _write_instant, _read_instant, _INSTANT),
    "run_once": _Codec("run_once", _same, _exactly(bool), "true or false"),
}
_CODECS_BY_KEY = {codec.key: codec for codec in _CODECS.values()}


def _codec(name: str) -> _Codec:
    return _CODECS.get(name) or _Codec(name, _same, _exactly(str), "text")
