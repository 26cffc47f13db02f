"""What a set of jobs changes, as people read it and as JSON: for `plan` and `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onthedot.cli.words import reader_time
from onthedot.clock import SECOND, Micros
from onthedot.define.differences import Difference
from onthedot.observe.formats import count, iso, length, plain
from onthedot.observe.json_lines import optional_iso
from onthedot.operations.apply import Applied

_SIGNS = {"created": "+", "changed": "~", "removed": "-"}
_FEW = 3
_MOST_FIELDS = 12


def lines(applied: Applied) -> Iterator[str]:
    """One job after the other; those that stay as they are only counted."""
    for one in applied.differences:
        if one.kind != "unchanged":
            yield f"{_SIGNS[one.kind]} {plain(one.name)}: {one.kind}{_notes(applied, one)}"
            if one.kind == "changed":
                yield from _fields(one)
            yield from _starts(one)
    same = sum(one.kind == "unchanged" for one in applied.differences)
    if same:
        yield f"= {count(same, 'job')} unchanged"
    for name, text in applied.warnings.items():
        yield plain(f"! {name}: {text}", most=2_000)
    for name in applied.refused:
        source = plain(applied.elsewhere[name])
        yield (
            f"! {plain(name)} is stored from {source}: 'apply' refuses the whole file; give one of the two another "
            "name, or say --take-over"
        )
    if applied.left:
        names = ", ".join(map(plain, applied.left))
        yield f"! not in {plain(applied.source)} any more, and left as they are (--prune removes them): {names}"


def _notes(applied: Applied, one: Difference) -> str:
    name, notes = one.name, []
    if name in applied.elsewhere:
        source = applied.elsewhere[name]
        notes.append(f"until now from {plain(source)}" if source else "until now from no file")
    if name in applied.paused:
        notes.append("paused, and stays so")
    if one.kind == "created" and one.fields.get("paused", (None, False))[1]:
        notes.append("paused")
    return f" ({'; '.join(notes)})" if notes else ""


def _fields(one: Difference) -> Iterator[str]:
    for name, (old, new) in list(one.fields.items())[:_MOST_FIELDS]:
        yield f"    {plain(name)}: {_value(old)} → {_value(new)}"
    if len(one.fields) > _MOST_FIELDS:
        yield f"    … and {len(one.fields) - _MOST_FIELDS} more"


def _value(value: Any) -> str:
    import json

    return "nothing" if value is None else plain(json.dumps(value, ensure_ascii=False), most=80)


def _starts(one: Difference) -> Iterator[str]:
    """What it means in time: how many starts, and the first few, each with its date and zone."""
    if one.moved:
        shifts = {move.new - move.old for move in one.moved}
        by = ""
        if len(shifts) == 1:
            [shift] = shifts
            by = f" by {length(abs(shift))} {'later' if shift > 0 else 'earlier'}"
        yield f"    {_counted(one, len(one.moved), 'start')} moved{by}:"
        yield from _few([f"{_at(move.old)} → {_at(move.new)}" for move in one.moved[: _FEW + 1]])
    for instants, what in ((one.appear, "new start"), (one.vanish, "lost start")):
        if instants:
            yield f"    {_counted(one, len(instants), what)}:"
            yield from _few([_at(instant) for instant in instants[: _FEW + 1]])
    if one.kind == "changed" and not one.starts_change:
        yield "    it starts as before"


def _counted(one: Difference, number: int, what: str) -> str:
    """How many starts, or that there are more."""
    some = f"{number:,} {what}{'' if number == 1 else 's'}"
    if one.stopped:
        end = (one.until + 1) // SECOND * SECOND  # the first instant that was not counted, in whole seconds
        return f"more than {some}, counting stopped at {reader_time(end, exact=False)}"
    return f"{some} in the next 30 days"


def _at(instant: Micros) -> str:
    return reader_time(instant, exact=False)


def _few(shown: list[str]) -> Iterator[str]:
    for text in shown[:_FEW]:
        yield f"      {text}"
    if len(shown) > _FEW:
        yield "      …"


def as_json(applied: Applied) -> dict[str, Any]:
    """The same for machines: every start of the next 30 days that is another one."""
    return {
        "source": applied.source,
        "dry_run": applied.dry_run,
        "changes": applied.changes,
        "left": list(applied.left),
        "refused": list(applied.refused),
        "warnings": dict(applied.warnings),
        "jobs": [
            {
                "name": one.name,
                "change": one.kind,
                "fields": {name: {"old": old, "new": new} for name, (old, new) in one.fields.items()},
                "appear": [iso(at) for at in one.appear],
                "vanish": [iso(at) for at in one.vanish],
                "moved": [{"old": iso(move.old), "new": iso(move.new)} for move in one.moved],
                "counted_until": optional_iso(one.until or None),
                "stopped": one.stopped,
                "paused": one.name in applied.paused,
                "until_now_from": applied.elsewhere.get(one.name),
            }
            for one in applied.differences
        ],
    }
