"""Collects the progress and log lines of one attempt until they are written. Costs the handler almost no time."""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import Any

from onthedot.model.errors import ArgumentsError
from onthedot.model.run import Lease, Progress
from onthedot.output.records import Mark, encode_mark, without_marks
from onthedot.stores.values import Note

CHECKPOINT_LIMIT = 64 * 1024
"""The most characters of JSON in a checkpoint: it should point to data, not contain it."""

LOG_LIMIT = 64 * 1024
"""How many characters of an attempt's log are kept, with its marks: half from the beginning, half from the end."""


def encode_checkpoint(value: Any) -> str:
    """A checkpoint as JSON; `ArgumentsError` if it is not JSON or too large.

    >>> encode_checkpoint({"page": 7})
    '{"page":7}'
    """
    return _encode("checkpoint", value, CHECKPOINT_LIMIT)


def encode_result(value: Any, limit: int) -> str | None:
    """A result as JSON, None for None; `ArgumentsError` if it is not JSON or has more than `limit` characters."""
    return None if value is None else _encode("result", value, limit)


def _encode(what: str, value: Any, limit: int) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(
            f"expected JSON (numbers, text, true, false, null, lists, mappings), but {error}", subject=what
        ) from None
    if len(text) > limit:
        raise ArgumentsError(
            f"expected at most {limit} characters of JSON, got {len(text)}; "
            "keep the data elsewhere and save a reference",
            subject=what,
        )
    return text


class BoundedLog:
    """Lines of text, with their marks. Keeps the first and the last ones.

    >>> log = BoundedLog(limit=40)
    >>> for number in range(1000):
    ...     log.add(f"line {number}")
    >>> print(log.text(), end="")
    line 0
    line 1
    [… 8858 characters left out …]
    line 998
    line 999
    """

    def __init__(self, limit: int = LOG_LIMIT) -> None:
        self._room = self._half = limit // 2
        self._mark: Mark | None = None  # of the newest line
        self._encoded = ""
        self._head: list[str] = []
        self._tail: deque[tuple[str, str, str]] = deque()  # (mark before the line, line, mark that applies to it)
        self._tail_size = 0
        self._left_out = 0

    def add(self, text: str, mark: Mark | None = None) -> None:
        """Add one line, or several, and their mark. Give a mark with every call, or with none."""
        line = without_marks(text.encode(errors="backslashreplace").decode()) + "\n"  # no surrogate can be stored
        front = ""
        if mark is not None and (self._mark is None or not self._mark.covers(mark)):
            self._mark, self._encoded = mark, encode_mark(mark)
            front = self._encoded
        if len(front) + len(line) <= self._room:
            self._head.append(front + line)
            self._room -= len(front) + len(line)
            return
        self._room = 0  # all later lines go to the tail, even if they are short
        most = max(1, self._half - len(self._encoded))
        if len(line) > most:
            self._left_out += len(line) - most
            line = line[-most:]
        self._append(front, line, self._encoded)

    def _append(self, front: str, line: str, mark: str) -> None:
        """Add to the tail, and drop its oldest lines if it is too large. Its first line always has a mark."""
        tail = self._tail
        tail.append((front, line, mark))
        self._tail_size += len(front) + len(line)
        front, line, mark = tail[0]
        while self._tail_size - len(front) + len(mark) > self._half and len(tail) > 1:
            tail.popleft()
            self._tail_size -= len(front) + len(line)
            self._left_out += len(line)
            front, line, mark = tail[0]

    def text(self) -> str:
        """The lines that are kept, and one that says how much is left out."""
        gap = f"[… {self._left_out} characters left out …]\n" if self._left_out else ""
        first = self._tail[0][2] if self._tail else ""
        rest = "".join(front + line if number else line for number, (front, line, _) in enumerate(self._tail))
        return "".join(self._head) + gap + first + rest


class Notes:
    """The newest progress and the log of one attempt. Handlers add to it on any thread; `take` gives what is new."""

    __slots__ = ("_lock", "_log", "_number", "_progress", "lease", "waiting")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.waiting = False  # there is news that `take` has not returned
        self._lock = threading.Lock()
        self._number = 0
        self._progress: Progress | None = None
        self._log: BoundedLog | None = None

    def progress(self, progress: Progress) -> bool:
        """Remember the newest progress. Returns whether this is the first news since the last `take`."""
        with self._lock:
            self._progress = progress
            return self._is_first()

    def log(self, text: str, mark: Mark) -> bool:
        """Remember a line. Returns whether this is the first news since the last `take`."""
        with self._lock:
            self._log = self._log or BoundedLog()
            self._log.add(text, mark)
            return self._is_first()

    def _is_first(self) -> bool:
        first, self.waiting = not self.waiting, True
        return first

    def take(self) -> Note:
        """The newest progress and the whole log, as a note to write."""
        with self._lock:
            self.waiting = False
            self._number += 1
            return Note(self.lease, self._number, self._progress, None if self._log is None else self._log.text())
