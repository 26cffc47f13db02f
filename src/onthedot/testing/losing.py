"""A store whose answers can get lost: what was asked for is done, and who asked does not know."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

from onthedot.errors import DefinitionError, StoreUnavailable, did_you_mean
from onthedot.stores.protocol import Store


class LosingStore:
    """The store, as a node reaches it over a bad line."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._losing: Counter[str] = Counter()

    def lose(self, operation: str, times: int) -> None:
        """Lose the answers to the next calls of this operation."""
        known = [name for name in dir(self._store) if inspect.iscoroutinefunction(getattr(self._store, name))]
        if operation not in known or operation.startswith("_"):
            raise DefinitionError(
                f"lose_answer: expected an operation of the store, such as 'reserve', 'arm' or 'finish', "
                f"got {operation!r}{did_you_mean(operation, known)}"
            )
        self._losing[operation] += times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            answer = await found(*args, **kwargs)
            if self._losing[name] > 0:
                self._losing[name] -= 1
                raise StoreUnavailable(f"the answer to {name!r} was lost, as the test wants it")
            return answer

        setattr(self, name, call)
        return call
