"""Wakes other processes by counters in the file, and looks for theirs.

    this process   commit ── meta['hint:runs'] + 1 ──▶ file ──▶ every 50 ms: PRAGMA data_version   another process
                   of a call with hints                          changed? which counters? ─▶ hints ─▶ its services

A look costs a few microseconds: `data_version` changes when another connection has committed. Then the counters are
read, and those that other processes have moved become hints. So a heartbeat elsewhere wakes nobody here, and no two
processes keep each other awake. A lost hint costs latency only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from onthedot.clock import MILLISECOND, SECOND, Micros, SystemClock
from onthedot.stores.hints import KINDS, HintKind

LOOK_EVERY: Micros = 50 * MILLISECOND
"""How often to look. Every 10 ms would be noticed sooner by 20 ms, and cost three times as much."""

COUNT_HINT = """
INSERT INTO meta (name, value) VALUES ('hint:' || :kind, 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1
RETURNING value
"""

LIST_COUNTS = "SELECT substr(name, 6), value FROM meta WHERE name >= 'hint:' AND name < 'hint;'"

Counts = dict[str, int]


class Wakeup:
    """Counts our hints in the file, and finds those of others. Used on the writer's thread only.

    `tell` is called there with the kinds of hints that other processes have sent since the last look."""

    def __init__(self, tell: Callable[[Sequence[HintKind]], None]) -> None:
        self._tell = tell
        self._clock = SystemClock()  # real time, whatever clock the store was given: the other process is real
        self._look_at: Micros = 0
        self._db: sqlite3.Connection | None = None
        self._version: int | None = None  # of `_db`: another connection's versions mean nothing
        self._known: Counts | None = None  # what was told, and what we counted ourselves

    # ── our hints ────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, db: sqlite3.Connection, kinds: Iterable[HintKind]) -> Counts:
        """Count these in the open transaction; what to `confirm` once it is committed."""
        return {kind: db.execute(COUNT_HINT, {"kind": kind}).fetchone()[0] for kind in sorted(set(kinds))}

    def confirm(self, counted: Counts) -> None:
        """These counts were ours. If another process has counted meanwhile, the difference remains to be sent."""
        for kind, value in counted.items():
            if self._known is not None and self._known.get(kind, 0) == value - 1:
                self._known[kind] = value

    # ── theirs ───────────────────────────────────────────────────────────────────────────────────────────────

    def seconds_left(self) -> float:
        """How long until the next look."""
        return max(0, self._look_at - self._clock.steady()) / SECOND

    def look(self, db: sqlite3.Connection | None) -> None:
        """Send new hints, if it is time to look. An error is left to the next call, which gets it too."""
        now = self._clock.steady()
        is_new = db is not None and db is not self._db  # then at once: before anybody is told that it is open
        if now < self._look_at and not is_new:
            return
        self._look_at = now + LOOK_EVERY
        try:
            news = [] if db is None else self._news(db)
        except sqlite3.Error:
            self._version = None
            return
        if news:
            self._tell(news)

    def _news(self, db: sqlite3.Connection) -> list[HintKind]:
        if db is not self._db:
            self._db, self._version = db, None
        [version] = db.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return []
        counts: Counts = dict(db.execute(LIST_COUNTS).fetchall())
        known, self._version, self._known = self._known, version, counts
        if known is None:
            return []  # the first look: whoever listens has yet to ask for itself
        return [kind for kind in KINDS if counts.get(kind, 0) != known.get(kind, 0)]
