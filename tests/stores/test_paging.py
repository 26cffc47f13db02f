"""Pages from scans, and runs that move while they are looked at."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.run import RunRecord, RunState
from onthedot.stores.memory import MemoryStore
from onthedot.stores.queries import FIRST_ENDED, RunCursor, RunFilter, RunScan, Scan
from onthedot.stores.sql.store import SqlQueries


def run(number: int, *, due: int = 5, ended: int | None = None) -> RunRecord:
    state = RunState.SCHEDULED if ended is None else RunState.SUCCEEDED
    return RunRecord(number, "job", "default", "submit:x", due, due, state, "", 0, 0, 0, 0, ended_at=ended)


class Scripted(SqlQueries):
    """Answers scans as it was told, one after the other."""

    def __init__(self, live: list[RunScan], ended: list[RunScan]) -> None:
        super().__init__(MemoryStore().database)
        self.live, self.ended = live, ended

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        return self.live.pop(0)

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        return self.ended.pop(0)


async def test_a_page_that_found_nothing_yet_says_where_to_go_on():
    queries = Scripted([Scan([], RunCursor(False, 7, 3))], [])
    assert await queries.find_runs(RunFilter()) == ([], RunCursor(False, 7, 3))


async def test_a_page_that_is_full_of_live_runs_goes_on_with_finished_ones():
    queries = Scripted([Scan([run(1)])], [])
    assert await queries.find_runs(RunFilter(), limit=1) == ([run(1)], FIRST_ENDED)
    queries = Scripted([Scan([run(1)])], [])
    alive = RunFilter(states=frozenset({RunState.SCHEDULED}))
    assert await queries.find_runs(alive, limit=1) == ([run(1)], None)


async def test_a_run_that_ends_between_two_looks_is_on_a_page_once():
    queries = Scripted([Scan([run(1), run(2)])], [Scan([run(1, ended=9), run(3, ended=8)])])
    assert await queries.find_runs(RunFilter()) == ([run(1), run(2), run(3, ended=8)], None)


async def test_a_list_shows_a_run_that_has_moved_as_it_was_seen_last():
    moved = replace(run(1), due_at=8)
    queries = Scripted([Scan([run(1)], RunCursor(False, 5, 1)), Scan([moved, run(2, due=9)])], [Scan([])])
    assert await queries.list_runs() == [moved, run(2, due=9)]
