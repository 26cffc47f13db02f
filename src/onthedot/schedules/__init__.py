"""Schedules: rules that yield instants. Pure time: no clock, no randomness, `now` is always an argument.

    constructors  cron() every() gap() at() in_()   how a program makes them
    parse         parse() to_text()                 one line of text, and back
    check         check()                           what is refused, and why
    evaluation    next_after() slots() …            which slots they have
      cron fields calendar zones                    … on the wall clock, through clock changes
      interval                                      … in real time
      bounds                                        … from start to end, at most so many times
    spread        draw() due_of()                   the values of H, and how much jitter delays a run
    description   describe()                        a schedule in English
    lint          lint()                            schedules that may not mean what their author meant
    instants      read_instant() read_when()        points in time as text
    identity      schedule_id()                     which schedule of a job a slot belongs to
    json_form     to_json() from_json()             for storing

The schedules themselves are plain data in `onthedot.model.job`.
"""

from onthedot.schedules.check import check
from onthedot.schedules.constructors import at, cron, every, gap, in_
from onthedot.schedules.cron_fields import cron_fields
from onthedot.schedules.description import describe
from onthedot.schedules.evaluation import count_between, is_grid, last_before, next_after, slots
from onthedot.schedules.identity import schedule_id
from onthedot.schedules.json_form import from_json, to_json
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
