"""Routes: where a run waits, and in what order runs are taken from there.

A **route** is a queue together with what a run in it needs of a worker. Every run waits in one; a worker looks into
those that it can serve and into no other, so that what it cannot do is never in its way. As text, so that any store
can keep them in one index, a queue's routes next to each other:

    mail                  anybody who serves the queue "mail"
    mail⇥gpu,region=eu    anybody who serves it and offers these labels
    @web-1                the node of this name: one run for each node (`on: all`)
    !leader⇥mail          nobody, until the leader has found a place for it (`assignment: leader`)
    =4f1c…                the incarnation that the leader chose
    ~mail                 as "mail", for runs that are due in a queue that is shared fairly: each has a rank

Fair shares: when a run is due it gets a **rank**, the start of its turn in a virtual time that passes as runs are
taken. Everybody's turns follow each other, each as long as one over its weight; so whoever asks for little has an
early turn, however much others have asked for before. A rank is given once, and an index can serve it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from onthedot.clock import SECOND, Micros
from onthedot.model.errors import DefinitionError

DEFAULT_QUEUE = "default"

Priority = Literal["low", "normal", "high", "critical"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""By level, the lowest first."""

MINUTE = 60 * SECOND
BONUS: tuple[Micros, ...] = (0, 10 * MINUTE, 30 * MINUTE, 120 * MINUTE)
"""By level: of two runs that are due, the one with the smaller `due_at - bonus` is taken first. So a critical run goes
before every low one that is not two hours older, and no run waits for ever: it grows older, the others do not."""

SEPARATOR = "\t"
END = "\n"  # every route of a queue lies between its name and its name with this

_ON, _LEADER, _PLACED, _RANKED = "@", "!leader" + SEPARATOR, "=", "~"


class Route(NamedTuple):
    """A route, taken apart: the labels that a worker must offer."""

    queue: str
    labels: frozenset[str]


def level_of(priority: Priority) -> int:
    """
    >>> level_of("normal")
    1
    """
    return PRIORITIES.index(priority)


def route_name(queue: str, labels: Iterable[str] = ()) -> str:
    """The route of a queue for workers with these labels.

    >>> route_name("mail", ["region=eu", "gpu"])
    'mail\\tgpu,region=eu'
    """
    needed = ",".join(sorted(labels))
    return f"{queue}{SEPARATOR}{needed}" if needed else queue


def on_node(node_id: str) -> str:
    """The route of runs that are for this node only."""
    return f"{_ON}{node_id}"


def for_leader(route: str) -> str:
    """The route of runs that wait for the leader to find them a place."""
    return f"{_LEADER}{route}"


def placed_on(incarnation: str) -> str:
    """The route of runs for which the leader chose this incarnation."""
    return f"{_PLACED}{incarnation}"


def read_route(route: str) -> Route:
    """What `route_name` was made of.

    >>> sorted(read_route("mail\\tgpu,region=eu").labels)
    ['gpu', 'region=eu']
    """
    queue, _, labels = unranked(route).removeprefix(_LEADER).partition(SEPARATOR)
    return Route(queue, frozenset(labels.split(",")) if labels else frozenset())


def lines_of(queues: Iterable[str], node_id: str, incarnation: str) -> list[tuple[str, str]]:
    """The ranges of route names that a worker may look into: from the first, up to and without the second."""
    starts = [*dict.fromkeys(queues), on_node(node_id), placed_on(incarnation)]
    return [(start, start + END) for start in starts]


def ranked(route: str) -> str:
    """The same route, for runs that have a rank."""
    return _RANKED + route


def unranked(route: str) -> str:
    """The same route, for runs that have none.

    >>> unranked(ranked("mail")) == unranked("mail") == "mail"
    True
    """
    return route.removeprefix(_RANKED)


def is_shared(route: str) -> bool:
    """Whether runs in this route may get ranks: those that are meant for one node take no turns."""
    return route[0] not in (_ON, _PLACED, _LEADER[0], _RANKED)


TURN = 1 << 24
RANK_AT_ONCE = 2_000
"""How many runs of a line that have come due get their ranks in one `reserve`: some 10 ms of writing at the most."""
_URGENCY = (1, 4, 16, 64)  # by level: a critical run's turn is as short as that of 64 low ones


class Turn(NamedTuple):
    """When a run's turn begins in virtual time, and when the next one of the same share does."""

    start: int
    end: int


def next_turn(now: int, last_end: int, weight: int, level: int) -> Turn:
    """The next turn of a share whose last one ends then; `now` is the virtual time.

    >>> [next_turn(0, 0, weight, 0).end // TURN for weight in (1, 2)], next_turn(7, 3, 1, 0).start
    ([1, 0], 7)
    """
    start = max(now, last_end)
    return Turn(start, start + max(1, TURN // (weight * _URGENCY[level])))


def waits_for_leader(route: str) -> bool:
    """Whether a run in this route has no place yet."""
    return route.startswith(_LEADER)


def placed_incarnation(route: str) -> str | None:
    """The incarnation that the leader chose, or None for another kind of route."""
    return route.removeprefix(_PLACED) if route.startswith(_PLACED) else None


LEADER_ROUTES = (_LEADER, _LEADER[:-1] + chr(ord(SEPARATOR) + 1))
PLACED_ROUTES = (_PLACED, chr(ord(_PLACED) + 1))
"""The ranges of names of all such routes."""


# ── shares of a queue ────────────────────────────────────────────────────────────────────────────────────────


MOST_WEIGHT = 1_000
MOST_SHARES = 1_000


def check_weights(weights: Mapping[str, int]) -> None:
    """`DefinitionError` unless every weight is a whole number from 1 to 1,000."""
    problems = [
        f"share {name!r}: expected a weight from 1 to {MOST_WEIGHT}, got {weight!r}"
        for name, weight in weights.items()
        if not 1 <= weight <= MOST_WEIGHT
    ]
    if len(weights) > MOST_SHARES:
        problems.append(f"shares: expected at most {MOST_SHARES}, got {len(weights)}; who is not named has 1")
    if problems:
        raise DefinitionError(problems)
