"""Which places at gates a run keeps while it waits, and which it gives up to others: pure, the same for all stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.route import read_route
from onthedot.run import Gate
from onthedot.stores.values import Node

Age = tuple[Micros, int]
"""A run's due instant and id: the smaller has waited longer."""


def kept_while_waiting(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """The gates that a run keeps while it waits at a later one: its overlap gate. Others can use places in limits.

    >>> kept_while_waiting([Gate("overlap:1:", 1, until_end=True), Gate("limit:name:x:", 2)])
    (Gate(key='overlap:1:', capacity=1, until_end=True),)
    """
    return tuple(gate for gate in gates if gate.until_end)


def giving_way(asker: Age, idle: Iterable[Age], *, holders: int, capacity: int) -> list[int] | None:
    """The holders of a limit that lose their places to a run that could start now; None: too few do.

    A place that was passed to a run is not in use before that run is armed. Until then a run that has waited longer may
    take it. `idle` are the holders that do not run.

    >>> giving_way((5, 1), [(3, 2), (7, 3), (9, 4)], holders=3, capacity=3)
    [4]
    >>> giving_way((5, 1), [(3, 2), (7, 3), (9, 4)], holders=3, capacity=2)
    [3, 4]
    >>> giving_way((5, 1), [], holders=1, capacity=2), giving_way((5, 1), [(3, 2)], holders=1, capacity=1) is None
    ([], True)
    """
    needed = max(0, holders - capacity + 1)
    younger = sorted(age for age in idle if age > asker)
    if len(younger) < needed:
        return None
    return [run_id for _, run_id in younger[len(younger) - needed :]]


class Need(NamedTuple):
    """What a run needs of a worker: the task that it can do, the job's route, and for some runs the node itself."""

    task: str
    route: str
    target: str = ""


class Serving:
    """What the living nodes can start.

    >>> serving = Serving([Node("a", "a-1", queues=("mail",), labels=("gpu",), tasks=("call:send",))])
    >>> serving.can_start(Need("call:send", "mail")), serving.can_start(Need("call:send", "mail\\tgpu,eu"))
    (True, False)
    >>> serving.can_start(Need("call:send", "mail", "a")), serving.can_start(Need("call:send", "mail", "b"))
    (True, False)
    >>> serving.can_start(Need("call:read", "mail")), serving.can_start(Need("call:read", "mail"), "a-1")
    (False, True)
    """

    def __init__(self, living: Iterable[Node]) -> None:
        nodes = list(living)
        self._living = {node.incarnation for node in nodes}
        self._workers = [node for node in nodes if "worker" in node.roles and not node.draining]
        self._known: dict[Need, bool] = {}

    def can_start(self, need: Need, holder: str | None = None) -> bool:
        """Whether some worker can start a run. `holder` is the incarnation that has reserved it."""
        if holder in self._living:
            return True
        known = self._known.get(need)
        if known is None:
            known = self._known[need] = any(_can_start(node, need) for node in self._workers)
        return known


def _can_start(node: Node, need: Need) -> bool:
    if need.task not in node.tasks:
        return False
    if need.target:
        return node.id == need.target
    queue, labels = read_route(need.route)
    return queue in node.queues and labels <= set(node.labels)
