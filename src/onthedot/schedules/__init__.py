"""Computes the instants that schedules yield. Pure: no clock, no randomness, `now` is always an argument.

    constructors  cron() every() gap() at() in_()   make schedules in a program
    parse         parse() to_text()                 reads one line of text, and writes it
    check         check()                           refuses a schedule, and says why
    evaluation    next_after() slots() …            computes the slots of every kind
      cron_slots cron_parser calendar zones         … on the wall clock, through clock changes
    spread        draw() due_of()                   computes the values of H, and how much jitter delays a run
    description   describe()                        describes a schedule in English
    lint          lint()                            finds schedules that may not mean what their author meant
    instants      read_instant() read_when()        reads points in time from text

The schedules are plain data in `onthedot.model.job`. `onthedot.model.schedule_json` stores them.
"""

from onthedot.model.schedule_json import from_json, schedule_id, to_json
from onthedot.schedules.check import check
from onthedot.schedules.constructors import at, cron, every, gap, in_
from onthedot.schedules.cron_parser import cron_fields
from onthedot.schedules.description import describe
from onthedot.schedules.evaluation import count_between, is_grid, last_before, next_after, slots
from onthedot.schedules.parse import parse, to_text
from onthedot.schedules.spread import due_of

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
