"""Decides what `paused` in a file does to a stored job. Pure.

    the file says      the job runs      the job is paused
    nothing            runs              stays paused: a file without `paused` changes no pause
    paused: true       paused            stays as it is
    paused: {…}        paused            paused with this reason and this end
    paused: false      runs              resumed; slots of the pause are skipped

A pause whose end has passed has no effect.
"""

from __future__ import annotations

from typing import Literal

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.model.job import JobRecord, JobState, Pause

Change = Literal["", "pause", "resume"]


def pause_of(record: JobRecord | None) -> Pause | None:
    """Return the current pause of a stored job; None if it is not paused."""
    if record is None or record.state is not JobState.PAUSED:
        return None
    return Pause(
        reason=record.pause_reason, until=None if record.paused_until is None else to_datetime(record.paused_until)
    )


def pause_change(wanted: Pause | None, current: Pause | None, now: Micros) -> Change:
    """Return the change that a file's `paused` makes to a job with this current pause.

    >>> pause_change(Pause(), None, 0), pause_change(Pause(on=False), Pause(reason="it moves"), 0)
    ('pause', 'resume')
    >>> pause_change(None, Pause(reason="it moves"), 0)
    ''
    """
    if wanted is None or (wanted.until is not None and to_micros(wanted.until) <= now):
        return ""
    if not wanted.on:
        return "" if current is None else "resume"
    says_more = bool(wanted.reason) or wanted.until is not None
    return "pause" if current is None or (says_more and wanted != current) else ""


def pause_after(wanted: Pause | None, current: Pause | None, now: Micros) -> Pause | None:
    """Return the job's pause after the change."""
    change = pause_change(wanted, current, now)
    return wanted if change == "pause" else None if change == "resume" else current
