"""Schedules, tasks and instants as the commands show them."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta, tzinfo

from onthedot.cli.options import reader_zone
from onthedot.clock import MILLISECOND, Micros, to_datetime
from onthedot.model.duration import format_duration
from onthedot.model.job import Job, Schedule
from onthedot.model.task import Call, Command, Container, Http, Noop, Sleep, Steps
from onthedot.observe import formats
from onthedot.observe.formats import length
from onthedot.schedules import describe

_DEFAULT_ANCHOR = ", counted from 1970-01-01 00:00 UTC"


def in_words(schedule: Schedule) -> str:
    """The reading of a schedule, short enough for a table: an interval's default anchor goes without saying."""
    return without_anchor(describe(schedule))


def without_anchor(reading: str) -> str:
    """The same of a reading."""
    return reading.replace(_DEFAULT_ANCHOR, "", 1)


def task_in_words(job: Job) -> str:
    """What a job does."""
    match job.task:
        case Call(handler=handler):
            return f"call {handler}"
        case Sleep(duration=duration):
            return f"sleep {format_duration(duration)}"
        case Noop():
            return "nothing"
        case Command(argv=argv, script=script):
            return script.strip().partition("\n")[0] if script else shlex.join(argv)
        case Steps(steps=steps):
            return "steps " + ", ".join(step.name for step in steps)
        case Http(method=method, url=url):
            return f"{method} {url}"
        case Container(image=image):
            return f"container {image}"


_BY_HAND = {"cancelled": "skipped by hand", "moved": "moved by hand"}


def skip_in_words(reason: str) -> str:
    """Why a slot did not run: what `skip-next` and `move-next` store, said in words.

    >>> skip_in_words("cancelled"), skip_in_words("missed")
    ('skipped by hand', 'missed')
    """
    return _BY_HAND.get(reason, reason)


# ── instants: in the reader's zone (`options.reader_zone`), everywhere ───────────────────────────────────────


def moment(instant: Micros, now: Micros) -> str:
    """A point in time in a table whose heading names the zone (`in_zone`); where the clocks differ from now, the time
    names its own."""
    where = reader_zone()
    local, today = to_datetime(instant).astimezone(where), to_datetime(now).astimezone(where)
    own = "" if local.utcoffset() == today.utcoffset() else f" {local:%Z}"
    return f"{formats.moment(instant, now, where)}{own}"


def span(first: Micros, last: Micros, now: Micros) -> str:
    """From one point in time to another, near `now`."""
    return f"at {moment(first, now)}" if first == last else f"from {moment(first, now)} to {moment(last, now)}"


def in_zone(heading: str, now: Micros) -> str:
    """The heading of a table's first column of times: it names the reader's zone."""
    return f"{heading} ({to_datetime(now).astimezone(reader_zone()):%Z})"


def reader_time(instant: Micros, *, exact: bool = True) -> str:
    """A point in time on its own: with its date and its distance from UTC."""
    return local_time(instant, reader_zone(), exact=exact)


def reader_span(first: Micros, last: Micros) -> str:
    """From one point in time to another, each on its own."""
    return f"at {reader_time(first)}" if first == last else f"from {reader_time(first)} to {reader_time(last)}"


def local_time(instant: Micros, where: tzinfo | None, *, exact: bool = True) -> str:
    """A local time that cannot be mistaken, with its date and its distance from UTC; to the millisecond if not exact.

    >>> from datetime import UTC
    >>> local_time(0, UTC), local_time(1_500, UTC), local_time(1_500, UTC, exact=False)
    ('1970-01-01 00:00:00 +00:00', '1970-01-01 00:00:00.001500 +00:00', '1970-01-01 00:00:00.001 +00:00')
    """
    local = to_datetime(instant if exact else instant - instant % MILLISECOND).astimezone(where)
    return f"{local.replace(tzinfo=None).isoformat(' ', timespec=_timespec(local))} {offset_in_words(local)}"


def offset_in_words(local: datetime) -> str:
    """
    >>> from datetime import UTC
    >>> offset_in_words(datetime(2026, 1, 1, tzinfo=UTC))
    '+00:00'
    """
    return local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]


def _timespec(local: datetime) -> str:
    return "auto" if local.microsecond % 1_000 else "milliseconds" if local.microsecond else "seconds"


def relative(instant: Micros, now: Micros) -> str:
    """
    >>> relative(11_520_000_000, 0), relative(0, 3_200_000)
    ('in 3 h 12 m', '3.2 s ago')
    """
    return f"in {length(instant - now)}" if instant >= now else f"{length(now - instant)} ago"


def clock_change(before: datetime, after: datetime) -> str | None:
    """What the clocks did between two local times: `forward 1h`, `back 30m`, or nothing."""
    step = (after.utcoffset() or timedelta(0)) - (before.utcoffset() or timedelta(0))
    if not step:
        return None
    return f"{'forward' if step > timedelta(0) else 'back'} {format_duration(abs(step))}"
