"""What a set of jobs changes, as people read it and as JSON: for `plan` and `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onthedot.applying import Applied
from onthedot.clock import Micros
from onthedot.define.comparing import Difference
from onthedot.observe.text import count, iso, length, moment, plain

_SIGNS = {"created": "+", "changed": "~", "removed": "-"}
_FEW = 3
_MOST_FIELDS = 12


def lines(applied: Applied, now: Micros) -> Iterator[str]:
    """One job after the other; those that stay as they are only counted."""
    for one in applied.differences:
        if one.kind != "unchanged":
            yield f"{_SIGNS[one.kind]} {plain(one.name)}: {one.kind}{_notes(applied, one)}"
            if one.kind == "changed":
                yield from _fields(one)
            yield from _starts(one, now)
    same = sum(one.kind == "unchanged" for one in applied.differences)
    if same:
        yield f"= {count(same, 'job')} unchanged"
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


def _starts(one: Difference, now: Micros) -> Iterator[str]:
    """What it means in time."""
    if one.moved:
        shifts = {move.new - move.old for move in one.moved}
        by = ""
        if len(shifts) == 1:
            [shift] = shifts
            by = f" by {length(abs(shift))} {'later' if shift > 0 else 'earlier'}"
        shown = ", ".join(f"{moment(move.old, now)} → {moment(move.new, now)}" for move in one.moved[:_FEW])
        yield f"    {count(len(one.moved), 'start')} in the next 30 days moved{by}: {shown}{_more(one.moved)}"
    for instants, what in ((one.appear, "new start"), (one.vanish, "lost start")):
        if instants:
            shown = ", ".join(moment(at, now) for at in instants[:_FEW])
            yield f"    {count(len(instants), what)} in the next 30 days: {shown}{_more(instants)}"
    if one.kind == "changed" and not one.starts_change:
        yield "    it starts as before"


def _more(instants: tuple[Any, ...]) -> str:
    return ", …" if len(instants) > _FEW else ""


def as_json(applied: Applied) -> dict[str, Any]:
    """The same for machines: every start of the next 30 days that is another one."""
    return {
        "source": applied.source,
        "dry_run": applied.dry_run,
        "changes": applied.changes,
        "left": list(applied.left),
        "jobs": [
            {
                "name": one.name,
                "change": one.kind,
                "fields": {name: {"old": old, "new": new} for name, (old, new) in one.fields.items()},
                "appear": [iso(at) for at in one.appear],
                "vanish": [iso(at) for at in one.vanish],
                "moved": [{"old": iso(move.old), "new": iso(move.new)} for move in one.moved],
                "paused": one.name in applied.paused,
                "until_now_from": applied.elsewhere.get(one.name),
            }
            for one in applied.differences
        ],
    }
