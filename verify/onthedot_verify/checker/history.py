"""The format of a history, and `Journal`, which records one: JSON lines, from the simulator or from real processes.

Each line has `seq` (its place), `src`, `t_store` (the store's clock, µs), `t_mono` (the recorder's steady clock),
`node` (the node that caused it, as "name#boot"; empty if none) and `ev`. A store event is recorded in the same step as
its commit. The job itself records `start` and `end`: **the job is the oracle, not the scheduler**.

| src | ev | further fields |
|---|---|---|
| nemesis | begin | `settings` (lengths in µs, `seats`), `seed` |
| nemesis | nemesis | `fault`: its description; `on`: its node; `kind`, `length` (µs) |
| nemesis | heal, over | there are no faults after `heal`; `over` is the last line |
| worker | boot, exit | `how` (exit: crash, stopped, failed) |
| worker | broken | `error` of a service, not of the store: always a bug |
| store | edit | `job`, `job_id`, `rev`, `change`, `definition`, `marks`: schedule → [before, after] |
| store | pause | `job_id`, `until`, `marks`, `answer`: [withdrawn, skipped, held] |
| store | resume, preview | `job_id`, `marks`, `slots`, `skips`, `released`, `windows`; preview: a dry run |
| store | delete | `job_id`, `answer` |
| store | plan | `job_id`, `schedule`, `rev`, `start`, `end`, `slots`, `targets`, `term` (0: of an edit or a resume), |
| | | `shard`, `layout` |
| store | replan | `job_id`, `schedule`, `term`, `shard`, `layout`: its next slot was computed again |
| store | skip | `job_id`, `schedule`, `after`, `first`, `last`, `count`, `reason`; comes before its `plan` or `edit` |
| store | withdraw, hold | `run`, `job_id`, `trigger`, `slot`; come before their `edit` or `pause` |
| store | cancel | `run`, `kind` (the answer), `state`, `why`, `ended`, `due`; also the end by a delete or a slot |
| store | submit | `run`, `job_id`, `trigger`, `slot`, `body`, `key`, `expires`; also a manual trigger |
| store | follow | `run`, `job_id`, `trigger`, `slot`, `due`: a job runs after the run of an end just before |
| store | conflict | `job_id`, `key`, `body`: a refused submit |
| store | reserve, arm | `run`, `job_id`, `trigger`, `slot`, `lease`, `attempt`, `fence`, `inc`, `due`, `rev`, |
| | | `failures`, `recoveries`, `target`; reserve: `until`; arm: `gates`: [key, capacity, until the end], |
| | | `rate`: [key, most, per, burst], `quick`: may be beyond the seats, `sent`: when the call was sent |
| store | gone, busy, block | `run`, `lease`, `inc`: a refused `arm`; block: the run has taken those of `gates` before |
| | | `gate`, and waits for `holder`; `sent`; `stops`: the holder is asked to stop for it |
| store | aside | `run`: it leaves its line and its limits, because its job was edited or its queue stopped |
| store | recount | `freed`: runs that waited at gates left closed by mistake |
| store | release | `run`, `lease`, `ok`; for a rate: `delayed`, `due`, `gates` that it keeps |
| store | finish, reap | `run`, `lease`, `attempt`, `inc`, `ok`, `state`, `outcome`, `due`, `failed`, `recovered`, |
| | | `ended`; `sent`: the verdict's own state |
| store | effect | `run`, `fence`: the resource has accepted an attempt's write; comes before its `finish` |
| store | expire | `run`, `job_id`, `trigger`, `slot`, `state`, `reason`; at a gate: `gate`, `holder`, `sent` |
| store | prune, pruned | prune: `run`; pruned, once for the whole call: `answer`, `runs` (or `skips`), |
| | | `counted`: [job, state, count] |
| store | join, beat, leave | `inc`, `ttl`; beat: `cancels`: [lease, why]; join: `node_id`, `queues`, `labels`, |
| | | `tzdata` (of a planner) |
| store | drain | `inc`, `draining`: the node gets no more runs, or gets runs again |
| store | stop_queue, open_queue | `queue`: paused, resumed |
| store | share_queue | `queue`, `weights` |
| store | place | `run`, `inc`, `term`, `shard`: the leader has placed it |
| store | elect, resign | `inc`, `term`, `shard`, `layout`, `until`; elect: won or renewed, |
| | | `tzdata`, `zones`: the zone data with which its shard's slots were computed |
| store | zones | `term`, `shard`, `zones`: now they are computed with this zone data |
| store | layout | `version`, `shards`: it has ended all terms |
| store | pass | `shard`: a planner has looked for due schedules |
| job | start, end | `run`, `job`, `slot`, `attempt`, `fence`, `mark`; end: `outcome` (done, failed, cancelled) |
| api | ack | `key`, `run`: a submit has returned to its caller |
| api | read | `run`, `state` ("" if there is no run) |
| api | rollup | `counted`: the counts of all pruned runs, at the end |
| api | final | for each run, at the end: `state`, `attempts`, `failures`, `recoveries`, `recorded` (rows) |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Journal:
    """Collects events in order. `where` returns (store clock, steady clock, node) for each.

    >>> from onthedot_verify.checker import Journal
    >>> now = 0
    >>> journal = Journal(lambda: (now, now, "a#1"))
    >>> journal.add("store", "join", inc="A", ttl=15_000_000)
    >>> now = 4_000_000
    >>> journal.add("store", "beat", inc="A", ttl=15_000_000, cancels=[])
    >>> [(event["seq"], event["t_store"], event["ev"]) for event in journal.events]
    [(1, 0, 'join'), (2, 4000000, 'beat')]
    """

    def __init__(self, where: Callable[[], tuple[int, int, str]]) -> None:
        self._where = where
        self.events: list[Event] = []
        self._closed = False

    def close(self) -> None:
        """Ignore all later events, such as those of the clean-up.

        >>> journal.close()
        >>> journal.add("store", "leave", inc="A")
        >>> journal.events[-1]["ev"]
        'beat'
        """
        self._closed = True

    def add(self, src: str, ev: str, **facts: Any) -> None:
        """Record an event now: its source, its name, and the fields of its row above.

        >>> journal.add("job", "start", run=7, job="mail", slot=0, attempt=1, fence=1, mark=0)
        >>> journal.events[-1]["node"], journal.events[-1]["run"]
        ('a#1', 7)
        """
        if self._closed:
            return
        t_store, t_mono, node = self._where()
        line = {"seq": len(self.events) + 1, "src": src, "t_store": t_store, "t_mono": t_mono, "node": node, "ev": ev}
        self.events.append(line | facts)


def to_lines(events: Iterable[Event]) -> Iterator[str]:
    """One line of canonical JSON for each event."""
    return (json.dumps(event, sort_keys=True, separators=(",", ":")) for event in events)


def digest(events: Iterable[Event]) -> str:
    """SHA-256 of a history. Equal histories have equal digests.

    >>> from onthedot_verify.checker import digest
    >>> first, second = [{"seq": 1, "ev": "heal"}], [{"ev": "heal", "seq": 1}]
    >>> digest(first) == digest(second), digest(first) == digest([])
    (True, False)
    """
    summed = hashlib.sha256()
    for line in to_lines(events):
        summed.update(line.encode() + b"\n")
    return summed.hexdigest()


def write(path: Path, events: Iterable[Event]) -> None:
    """Write a history to a file of JSON lines. `python -m onthedot_verify.checker` and `read` read it.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onthedot_verify.checker import read, write
    >>> with TemporaryDirectory() as folder:
    ...     write(Path(folder, "history.jsonl"), [{"seq": 1, "ev": "heal"}])
    ...     print(Path(folder, "history.jsonl").read_text(), end="")
    {"ev":"heal","seq":1}
    """
    path.write_text("".join(f"{line}\n" for line in to_lines(events)))


def read(path: Path) -> list[Event]:
    """Read a history from a file, in the order of `seq`.

    >>> from tempfile import TemporaryDirectory
    >>> from onthedot_verify.checker import read, write
    >>> with TemporaryDirectory() as folder:
    ...     write(Path(folder, "history.jsonl"), [{"seq": 2, "ev": "over"}, {"seq": 1, "ev": "heal"}])
    ...     print([event["ev"] for event in read(Path(folder, "history.jsonl"))])
    ['heal', 'over']
    """
    return sorted((json.loads(line) for line in path.read_text().splitlines() if line), key=lambda e: e["seq"])
