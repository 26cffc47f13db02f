"""Formats the traceback of a failed handler for its attempt's log: the last frames of its own code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARIES = (f"{Path(traceback.__file__).resolve().parent}/", f"{sys.prefix}/lib/", "<frozen ")
_OWN, _LAST, _CHARACTERS = 5, 3, 4_000


def trace_of(error: BaseException) -> str:
    """The last five frames of the user's own code, and the last three of all, without ours. Empty if there are none.

    >>> def charge():
    ...     raise ConnectionError("no line")
    >>> try:
    ...     charge()
    ... except ConnectionError as error:
    ...     print(trace_of(error).splitlines()[0])
    ConnectionError came from (last frame last):
    """
    try:
        return _trace(error)
    except Exception:  # noqa: BLE001 - sources are read by loaders of the user's own, which may do anything
        return ""


def _trace(error: BaseException) -> str:
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_ours(frame)]
    chosen = _choose([_is_library(frame) for frame, _ in frames])
    if not chosen:
        return ""
    lines, before = [f"{type(error).__name__} came from (last frame last):"], chosen[0] - 1
    for place in chosen:
        if place != before + 1:
            lines.append(f"  [{place - before - 1} more]")
        lines += traceback.StackSummary.extract([frames[place]]).format()[0].rstrip("\n").split("\n")
        before = place
    return "\n".join(lines)[:_CHARACTERS]


def _choose(is_library: Sequence[bool]) -> list[int]:
    """
    >>> _choose([False, False, *[True] * 6])
    [0, 1, 5, 6, 7]
    """
    own = [place for place, library in enumerate(is_library) if not library][-_OWN:]
    return sorted({*own, *range(len(is_library))[-_LAST:]})


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_LIBRARIES) or "/site-packages/" in name or "/dist-packages/" in name
