"""Wraps a store, to lose answers, to delay calls or to cut the connection in tests."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from onthedot.model.errors import DefinitionError, StoreUnavailable, did_you_mean

PARTS = ("queries", "documents")


class StoreWrapper:
    """A store whose calls, also those of its `queries` and `documents`, all go through `_call`."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def _call(self, name: str, operation: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        """Make one call. Subclasses do something before or after it."""
        del name
        return await operation(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in PARTS:
            wrapped: Any = _Part(found, self._call)
        elif inspect.iscoroutinefunction(found):
            wrapped = _through(self._call, name, found)
        else:
            return found
        setattr(self, name, wrapped)
        return wrapped


class _Part:
    """`queries` or `documents` of a wrapped store."""

    def __init__(self, part: Any, call: Callable[..., Awaitable[Any]]) -> None:
        self._part = part
        self._call = call

    def __getattr__(self, name: str) -> Any:
        wrapped = _through(self._call, name, getattr(self._part, name))
        setattr(self, name, wrapped)
        return wrapped


def _through(call: Callable[..., Awaitable[Any]], name: str, operation: Any) -> Callable[..., Awaitable[Any]]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        return await call(name, operation, args, kwargs)

    return wrapped


class LosingStore(StoreWrapper):
    """Loses answers: the call is executed, and the caller gets `StoreUnavailable`."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._losing: Counter[str] = Counter()

    def lose(self, operation: str, times: int) -> None:
        """Lose the answers to the next calls of this operation."""
        known = [
            name
            for part in (self._store, self._store.queries, self._store.documents)
            for name in dir(part)
            if not name.startswith("_") and inspect.iscoroutinefunction(getattr(part, name))
        ]
        if operation not in known:
            raise DefinitionError(
                f"lose_answer: expected an operation of the store, such as 'reserve', 'arm' or 'finish', "
                f"got {operation!r}{did_you_mean(operation, known)}"
            )
        self._losing[operation] += times

    async def _call(self, name: str, operation: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        answer = await operation(*args, **kwargs)
        if self._losing[name] > 0:
            self._losing[name] -= 1
            raise StoreUnavailable(f"the answer to {name!r} was lost, as the test wants it")
        return answer
