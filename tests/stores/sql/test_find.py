"""Several sorted queries are merged into one page, as far as all of them were read."""

from __future__ import annotations

from typing import Any

from onthedot.model.run import AttemptRecord
from onthedot.stores.queries import LAST, AttemptCursor, AttemptFilter
from onthedot.stores.sql import find
from onthedot.stores.sql.port import Statement


def attempt(ended_at: int) -> AttemptRecord:
    return AttemptRecord(ended_at, 1, "l", 1, "n", 1, "succeeded", None, 0, 0, 0, 0, ended_at)


class Lines:
    """A transaction with attempts of nodes, by their ends."""

    def __init__(self, **nodes: list[int]) -> None:
        self.nodes = nodes

    async def values(self, statement: Statement[Any]) -> list[str]:
        assert statement is find.LIST_NODES
        return list(self.nodes)

    async def scan(self, statement: Statement[Any], lines: list[tuple[str]], *values: Any) -> list[list[Any]]:
        found = [sorted(self.nodes[node], reverse=True) for (node,) in lines]
        if statement is find.STOP_ATTEMPTS:
            number = values[-1]
            return [[AttemptCursor(at, at, 1) for at in line[number - 1 : number]] for line in found]
        assert statement is find.LIST_ATTEMPTS
        end, limit = values[5], values[-1]
        return [[attempt(at) for at in line if at >= end][:limit] for line in found]


async def found(tx: Any, limit: int = 10, **asked: Any) -> tuple[list[int], int | None]:
    start = AttemptCursor(LAST, 0, 0)
    attempts, reached = await find.scan_attempts(tx, AttemptFilter(**asked), start, limit)
    return [one.ended_at for one in attempts], reached and reached.ended_at


async def test_queries_are_merged_newest_first():
    assert await found(Lines(a=[9, 5], b=[7])) == ([9, 7, 5], None)
    assert await found(Lines(a=[9, 2], b=[7]), limit=2) == ([9, 7], None)
    assert await found(Lines()) == ([], None)


async def test_queries_are_merged_only_as_far_as_all_of_them_were_read(monkeypatch):
    monkeypatch.setattr(find, "SCANNED", 4)  # two rows per query
    assert await found(Lines(a=[9, 2, 1], b=[7, 5, 3]), owner="ann") == ([9, 7, 5], 5)
    assert await found(Lines(a=[9], b=[7]), owner="ann") == ([9, 7], None)
