"""Formats instants, lengths of time and foreign text for people, and instants for machines."""

from __future__ import annotations

from datetime import tzinfo

from onthedot.clock import MILLISECOND, SECOND, Micros, to_datetime
from onthedot.model.task import Call, Task

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_MOST_CHARACTERS = 300


def plain(text: str, *, most: int = _MOST_CHARACTERS) -> str:
    r"""Foreign text as one harmless line: control characters are escaped, and long text is cut.

    A job name or an error message may hold line breaks, terminal codes or marks that turn the writing direction
    around; printed as they are, they could forge a line of the log.

    >>> plain("first\nsecond \x1b[31mred")
    'first\\nsecond \\x1b[31mred'
    """
    if len(text) > most:
        text = text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def doing(task: Task) -> str:
    """The task of a job in words.

    >>> doing(Call(handler="report"))
    'handler report'
    """
    return f"handler {plain(task.handler)}" if isinstance(task, Call) else type(task).__name__.lower()


def length(micros: Micros) -> str:
    """A length of time in at most two units, as exact as a reader needs.

    >>> [length(n) for n in (54, 1_240, 3_200_000, 725_000_000, 11_520_000_000, 180_000_000_000)]
    ['54 µs', '1.2 ms', '3.2 s', '12 m 5 s', '3 h 12 m', '2 d 2 h']
    """
    if micros < 0:
        return f"-{length(-micros)}"
    if 0 < micros < 100:
        return f"{micros} µs"
    if micros < 999_950:
        return f"{micros / MILLISECOND:.1f} ms"
    if micros < 59_950_000:
        return f"{micros / SECOND:.1f} s"
    seconds = round(micros / SECOND)
    for size, unit, smaller, smaller_unit in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "m")):
        if seconds >= size:
            return _two(seconds // size, unit, seconds % size // smaller, smaller_unit)
    return _two(seconds // _MINUTE, "m", seconds % _MINUTE, "s")


def _two(large: int, unit: str, small: int, smaller_unit: str) -> str:
    return f"{large} {unit} {small} {smaller_unit}" if small else f"{large} {unit}"


def time_of_day(instant: Micros, zone: tzinfo | None = None) -> str:
    """The local time with milliseconds; `zone` None is this machine's.

    >>> from datetime import UTC
    >>> time_of_day(1_500, UTC)
    '00:00:00.001'
    """
    local = to_datetime(instant).astimezone(zone)
    return f"{local:%H:%M:%S}.{local.microsecond // MILLISECOND:03}"


def moment(instant: Micros, now: Micros, zone: tzinfo | None = None) -> str:
    """An instant near `now`: the local time, with its date if that is not today.

    >>> from datetime import UTC
    >>> moment(0, 5_000_000, UTC), moment(0, 86_400_000_000, UTC)
    ('00:00:00', '1970-01-01 00:00:00')
    """
    local, today = to_datetime(instant).astimezone(zone), to_datetime(now).astimezone(zone)
    text = f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M:%S}"
    return text if local.microsecond < MILLISECOND else f"{text}.{local.microsecond // MILLISECOND:03}"


def span(first: Micros, last: Micros, now: Micros, zone: tzinfo | None = None) -> str:
    """Return a range of two instants near `now` as text."""
    if first == last:
        return f"at {moment(first, now, zone)}"
    return f"from {moment(first, now, zone)} to {moment(last, now, zone)}"


def iso(instant: Micros) -> str:
    """An instant for machines: UTC with microseconds, so that text sorts like time.

    >>> iso(1)
    '1970-01-01T00:00:00.000001Z'
    """
    return to_datetime(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")


def optional_iso(instant: Micros | None) -> str | None:
    """An instant as text, or None."""
    return None if instant is None else iso(instant)


def milliseconds(micros: Micros) -> float:
    """
    >>> milliseconds(1_500)
    1.5
    """
    return micros / MILLISECOND


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "run"), count(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
