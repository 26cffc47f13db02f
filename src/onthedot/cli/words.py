"""Words for schedules, tasks and instants, as commands show them."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta, tzinfo

from onthedot.cli.options import reader_zone
from onthedot.clock import MILLISECOND, Micros, to_datetime, to_micros
from onthedot.model.duration import format_duration
from onthedot.model.job import Job, Schedule
from onthedot.model.task import Call, Command, Container, Http, Noop, Sleep, Steps
from onthedot.observe import formats
from onthedot.observe.formats import length
from onthedot.schedules import describe

_DEFAULT_ANCHOR = ", counted from 1970-01-01 00:00 UTC"


def in_words(schedule: Schedule) -> str:
    """A schedule in words, for a table: without the default anchor of an interval."""
    return without_anchor(describe(schedule))


def without_anchor(reading: str) -> str:
    """A reading of a schedule without the default anchor."""
    return reading.replace(_DEFAULT_ANCHOR, "", 1)


def task_in_words(job: Job) -> str:
    """What a job runs."""
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
    """Why a slot did not run: the stored reason, in words.

    >>> skip_in_words("cancelled"), skip_in_words("missed")
    ('skipped by hand', 'missed')
    """
    return _BY_HAND.get(reason, reason)


# ── instants: in the reader's zone (`options.reader_zone`), everywhere ───────────────────────────────────────


def read_iso(text: str) -> Micros:
    """An instant as JSON has it.

    >>> read_iso("1970-01-01T00:00:00.000001Z")
    1
    """
    return to_micros(datetime.fromisoformat(text))


def moment(instant: Micros, now: Micros) -> str:
    """An instant in a table whose heading names the zone (`in_zone`). It has a zone of its own if the clocks differ
    from now."""
    where = reader_zone()
    local, today = to_datetime(instant).astimezone(where), to_datetime(now).astimezone(where)
    own = "" if local.utcoffset() == today.utcoffset() else f" {local:%Z}"
    return f"{formats.moment(instant, now, where)}{own}"


def span(first: Micros, last: Micros, now: Micros) -> str:
    """A range of two instants, in a table."""
    return f"at {moment(first, now)}" if first == last else f"from {moment(first, now)} to {moment(last, now)}"


def in_zone(heading: str, now: Micros) -> str:
    """The heading of a table's first column of times, with the reader's zone."""
    return f"{heading} ({to_datetime(now).astimezone(reader_zone()):%Z})"


def reader_time(instant: Micros, *, exact: bool = True) -> str:
    """An instant with its date and its offset from UTC, in the reader's zone."""
    return local_time(instant, reader_zone(), exact=exact)


def reader_span(first: Micros, last: Micros) -> str:
    """A range of two instants, with dates and offsets."""
    return f"at {reader_time(first)}" if first == last else f"from {reader_time(first)} to {reader_time(last)}"


def local_time(instant: Micros, where: tzinfo | None, *, exact: bool = True) -> str:
    """A local time with its date and its offset from UTC; to the millisecond if not exact.

    >>> from datetime import UTC
    >>> local_time(0, UTC), local_time(1_500, UTC), local_time(1_500, UTC, exact=False)
    ('1970-01-01 00:00:00 +00:00', '1970-01-01 00:00:00.001500 +00:00', '1970-01-01 00:00:00.001 +00:00')
    """
    local = to_datetime(instant if exact else instant - instant % MILLISECOND).astimezone(where)
    return f"{local.replace(tzinfo=None).isoformat(' ', timespec=_timespec(local))} {offset_in_words(local)}"


def offset_in_words(local: datetime) -> str:
    """The offset from UTC of a local time.

    >>> from datetime import UTC
    >>> offset_in_words(datetime(2026, 1, 1, tzinfo=UTC))
    '+00:00'
    """
    return local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]


def _timespec(local: datetime) -> str:
    return "auto" if local.microsecond % 1_000 else "milliseconds" if local.microsecond else "seconds"


def relative(instant: Micros, now: Micros) -> str:
    """How long until an instant, or since.

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
