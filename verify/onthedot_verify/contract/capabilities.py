"""`Capabilities`: what a driver declares where drivers may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Effects(Protocol):
    """How a check writes through a transaction's connection and reads what is committed.

    >>> from onthedot.stores.memory import MemoryStore, Statements
    >>> from onthedot_verify.contract import Capabilities, Workbench
    >>> class NotedStatements:
    ...     def __init__(self, store: MemoryStore) -> None:
    ...         self.store = store
    ...     async def write(self, connection: Statements, text: str) -> None:
    ...         await connection.execute(text)
    ...     async def read(self) -> list[str]:
    ...         return [statement.sql for statement in self.store.statements]
    >>> store = MemoryStore()
    >>> effects = NotedStatements(store)
    >>> bench = Workbench(store, Capabilities(effects=effects))
    """

    async def write(self, connection: Any, text: str) -> None:
        """Write a text through this connection.

        >>> connection = Statements()  # what a handler gets from this store
        >>> await effects.write(connection, "paid")
        >>> connection.noted
        [('paid', ())]
        """
        ...

    async def read(self) -> list[str]:
        """Return every committed text, in the order of the commits. Does not use a transaction's connection.

        >>> await effects.write(Statements(), "paid")
        >>> await effects.read()  # it was not committed
        []
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver declares that it can do, where drivers differ.

    A check fails if the store has something that its driver does not declare, so nothing goes unchecked:

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.contract import Capabilities, Workbench, checks
    >>> check = next(check for check in checks() if check.slice == "transactions")
    >>> await check(Workbench(MemoryStore(), Capabilities(effects=None)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: expected Capabilities(effects=…) for a store that has transactions...
    """

    effects: Effects | None = None  # for a store that has `transactions`
    finds_attempts: bool = True  # by node and time; if False, the store lists the attempts of one run only
