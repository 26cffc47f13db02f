"""Schedules: rules that yield instants. Pure time: no clock, no randomness, `now` is always an argument.

    build      cron() every() gap() at() in_()      how people make them
    parse      parse() to_text()                    one line of text, and back
    check      check()                              what is refused, and why
    evaluate   next_after() slots() …               what they mean
      cron fields days zones                        … on the wall clock, through clock changes
      interval once                                 … in real time
      bounds                                        … from start to end, so many times
    spread     draw() due_of()                      what H stands for; how far jitter moves a run
    words      describe()                           the reading, shown back (cron_words: of a cron expression)
    identity   schedule_id()                        which one a slot belongs to
    encode     to_json() from_json()                for storing

The schedules themselves are plain data in `onthedot.model.job`.
"""

from onthedot.schedules.build import at, cron, every, gap, in_
from onthedot.schedules.check import check
from onthedot.schedules.encode import from_json, to_json
from onthedot.schedules.evaluate import count_between, is_grid, last_before, next_after, slots
from onthedot.schedules.fields import cron_fields
from onthedot.schedules.identity import schedule_id
from onthedot.schedules.parse import parse, to_text
from onthedot.schedules.spread import due_of
from onthedot.schedules.words import describe

__all__ = [
    "at",
    "check",
    "count_between",
    "cron",
    "cron_fields",
    "describe",
    "due_of",
    "every",
    "from_json",
    "gap",
    "in_",
    "is_grid",
    "last_before",
    "next_after",
    "parse",
    "schedule_id",
    "slots",
    "to_json",
    "to_text",
]
