"""Defines routes: where a run waits, and in what order runs are taken from there.

A **route** is a queue together with the labels that a run in it needs of its worker. Every run waits in one route. A
worker looks only into routes that it can serve, so runs that it cannot execute never delay it. A route is text, so that
any store can keep the routes of a queue next to each other in one index:

    mail                  workers that serve the queue "mail"
    mail⇥gpu,region=eu    workers that serve it and offer these labels
    @web-1                the node of this name: one run for each node (`on: all`)
    !leader⇥mail          no worker, until the leader has chosen one (`assignment: leader`)
    =4f1c…                the incarnation that the leader chose
    ~mail                 as "mail", for due runs in a queue that is shared fairly: each has a rank

Fair shares: when a run is due, it receives a **rank**, which is the start of its turn in a virtual time. This time
passes as runs are taken. The turns of one share follow each other, and each is as long as one over its weight. So a
share with few runs has an early turn, even if other shares have submitted many runs before. A rank is given once, and
an index can serve it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError

DEFAULT_QUEUE = "default"

Priority = Literal["low", "normal", "high", "critical"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""The priorities by level, the lowest first."""

MINUTE = 60 * SECOND
BONUS: tuple[Micros, ...] = (0, 10 * MINUTE, 30 * MINUTE, 120 * MINUTE)
"""The bonus by level. Of two due runs, the one with the smaller `due_at - bonus` is taken first. So a critical run
starts before every low run that is less than two hours older. No run waits for ever, because its age grows."""

SEPARATOR = "\t"
END = "\n"  # every route of a queue lies between its name and its name with this

_ON, _LEADER, _PLACED, _RANKED = "@", "!leader" + SEPARATOR, "=", "~"


class Route(NamedTuple):
    """The parts of a route: the queue, and the labels that a worker must offer."""

    queue: str
    labels: frozenset[str]


def level_of(priority: Priority) -> int:
    """Return the level of a priority, 0 for the lowest.

    >>> level_of("normal")
    1
    """
    return PRIORITIES.index(priority)


def route_name(queue: str, labels: Iterable[str] = ()) -> str:
    """Return the route of a queue for workers with these labels.

    >>> route_name("mail", ["region=eu", "gpu"])
    'mail\\tgpu,region=eu'
    """
    needed = ",".join(sorted(labels))
    return f"{queue}{SEPARATOR}{needed}" if needed else queue


def on_node(node_id: str) -> str:
    """Return the route of runs that are for this node only."""
    return f"{_ON}{node_id}"


def for_leader(route: str) -> str:
    """Return the route of runs for which the leader must choose a worker."""
    return f"{_LEADER}{route}"


def placed_on(incarnation: str) -> str:
    """Return the route of runs for which the leader chose this incarnation."""
    return f"{_PLACED}{incarnation}"


def read_route(route: str) -> Route:
    """Return the parts from which `route_name` made this route.

    >>> sorted(read_route("mail\\tgpu,region=eu").labels)
    ['gpu', 'region=eu']
    """
    queue, _, labels = unranked(route).removeprefix(_LEADER).partition(SEPARATOR)
    return Route(queue, frozenset(labels.split(",")) if labels else frozenset())


def lines_of(queues: Iterable[str], node_id: str, incarnation: str) -> list[tuple[str, str]]:
    """Return the ranges of route names that a worker may look into, each from the first name up to but without the
    second."""
    starts = [*dict.fromkeys(queues), on_node(node_id), placed_on(incarnation)]
    return [(start, start + END) for start in starts]


def ranked(route: str) -> str:
    """Return the same route for runs that have a rank."""
    return _RANKED + route


def unranked(route: str) -> str:
    """Return the same route for runs that have no rank.

    >>> unranked(ranked("mail")) == unranked("mail") == "mail"
    True
    """
    return route.removeprefix(_RANKED)


def is_shared(route: str) -> bool:
    """True if runs in this route may have ranks. Runs for one node take no turns."""
    return route[0] not in (_ON, _PLACED, _LEADER[0], _RANKED)


TURN = 1 << 24
RANK_AT_ONCE = 2_000
"""The maximum number of due runs in a route that one `reserve` ranks. It takes at most about 10 ms of writing."""
_URGENCY = (1, 4, 16, 64)  # by level: a critical run's turn is as short as that of 64 low ones


class Turn(NamedTuple):
    """The virtual times at which a run's turn begins, and at which the next turn of the same share begins."""

    start: int
    end: int


def next_turn(now: int, last_end: int, weight: int, level: int) -> Turn:
    """Return the next turn of a share whose last turn ends at `last_end`. `now` is the virtual time.

    >>> [next_turn(0, 0, weight, 0).end // TURN for weight in (1, 2)], next_turn(7, 3, 1, 0).start
    ([1, 0], 7)
    """
    start = max(now, last_end)
    return Turn(start, start + max(1, TURN // (weight * _URGENCY[level])))


def waits_for_leader(route: str) -> bool:
    """True if the leader has not chosen a worker for the runs in this route yet."""
    return route.startswith(_LEADER)


def placed_incarnation(route: str) -> str | None:
    """Return the incarnation that the leader chose, or None for another kind of route."""
    return route.removeprefix(_PLACED) if route.startswith(_PLACED) else None


LEADER_ROUTES = (_LEADER, _LEADER[:-1] + chr(ord(SEPARATOR) + 1))
PLACED_ROUTES = (_PLACED, chr(ord(_PLACED) + 1))
"""The ranges of names of all routes of these two kinds."""


# ── shares of a queue ────────────────────────────────────────────────────────────────────────────────────────


MOST_WEIGHT = 1_000
MOST_SHARES = 1_000


def check_weights(weights: Mapping[str, int]) -> None:
    """Raise `DefinitionError` unless every weight is a whole number from 1 to 1,000."""
    problems = [
        f"share {name!r}: expected a weight from 1 to {MOST_WEIGHT}, got {weight!r}"
        for name, weight in weights.items()
        if not 1 <= weight <= MOST_WEIGHT
    ]
    if len(weights) > MOST_SHARES:
        problems.append(f"shares: expected at most {MOST_SHARES}, got {len(weights)}; a share without a weight has 1")
    if problems:
        raise DefinitionError(problems)
