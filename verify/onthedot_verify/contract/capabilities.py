"""What drivers declare about themselves, where they may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Effects(Protocol):
    """How a check writes something through a transaction's connection, and sees what is committed of it.

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
        """Write a text, by this connection.

        >>> connection = Statements()  # what a handler of this store is given
        >>> await effects.write(connection, "paid")
        >>> connection.noted
        [('paid', ())]
        """
        ...

    async def read(self) -> list[str]:
        """Every text that is committed, in the order of the commits; not by any transaction's connection.

        >>> await effects.write(Statements(), "paid")
        >>> await effects.read()  # it was not committed
        []
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver declares that it can do, where drivers differ.

    What a store has and its driver does not declare is found, so that nothing goes unchecked:

    >>> from onthedot.stores.memory import MemoryStore
    >>> from onthedot_verify.contract import Capabilities, Workbench, checks
    >>> check = next(check for check in checks() if check.slice == "transactions")
    >>> await check(Workbench(MemoryStore(), Capabilities(effects=None)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: expected Capabilities(effects=…) for a store that has transactions...
    """

    effects: Effects | None = None  # of a store that has `transactions`
    finds_attempts: bool = True  # by node and time; else only those of one run, and all else is refused
