"""Where runs that are inserted wait, in the SQL stores: their line, their share, and who gets a turn at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.route import is_shared, on_node, ranked
from onthedot.stores.planned import Insert


class Line(NamedTuple):
    """Where a run waits, and in what order."""

    route: str
    priority: int
    rank: int | None
    queue: str
    share: str


def line_of(run: Insert, queue: str, route: str, priority: int, share: str) -> Line:
    """The line of a run of a job with this route; one that is meant for a node waits in that node's own."""
    return Line(on_node(run.target) if run.target else route, priority, None, queue, share)


def share_of(args: str | None, name: str) -> str:
    """Whose run it is: what the argument says by which the job's queue is shared."""
    value = json.loads(args or "{}").get(name)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def places_of_turns(runs: Sequence[Insert], lines: Sequence[Line], queue: str, now: Micros) -> list[int]:
    """Which of the runs get a turn at once in a queue that is shared fairly: those that are due already."""
    return [
        place
        for place, (run, line) in enumerate(zip(runs, lines, strict=True))
        if line.queue == queue and run.due_at <= now and is_shared(line.route)
    ]


def give_turns(lines: list[Line], places: Iterable[int], ranks: Iterable[int]) -> None:
    """Let them wait by rank."""
    for place, rank in zip(places, ranks, strict=True):
        lines[place] = lines[place]._replace(rank=rank, route=ranked(lines[place].route))
