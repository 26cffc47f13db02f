"""Translates Redis errors: which calls can be retried, and which cannot."""

from __future__ import annotations

import json
from collections.abc import Callable

from redis import exceptions

from onthedot.model.after import cycle_error
from onthedot.model.errors import (
    KeyConflict,
    LayoutConflict,
    NodeExpired,
    RevisionConflict,
    SlotSettled,
    StoreUnavailable,
    StoreUnusable,
    TermLost,
    UnknownJob,
    UnknownSlot,
    WindowStale,
)

TROUBLE = (exceptions.RedisError, OSError, TimeoutError)
"""All that a server and the way to it can answer with."""

REFUSED = "OTD "
"""What the errors of our own scripts begin with; then a JSON list: which one, and what it says."""

# By the first word of the error: what came, and what to do.
_WILL_NOT = {
    "WRONGPASS": ("it does not let this user in", "look at user and password"),
    "NOAUTH": ("it wants a user and a password", "write them into the URL"),
    "NOPERM": ("this user may not do that", "grant it the keys and commands of the store (see docs/operate/redis.md)"),
    "WRONGTYPE": ("its keys are not what this version made", "name another prefix, or restore a backup"),
    "NOPROTO": ("it does not speak our protocol", "use Redis 7 or Valkey, or a later one"),
}
_MAY_PASS = {
    "OOM": ("its memory is full", "raise maxmemory, or let finished runs go earlier"),
    "LOADING": ("it is still reading its files", "ask again"),
    "BUSY": ("a script keeps it from answering", "ask again"),
    "READONLY": ("it takes no writes: it is a replica", "name the primary, or wait until it is one"),
    "MASTERDOWN": ("it is a replica whose primary is gone", "ask again"),
    "NOREPLICAS": ("too few of its replicas are there", "look at them; ask again"),
    "MISCONF": ("it cannot write its files", "look at its disk and its log"),
    "CLUSTERDOWN": ("its cluster is down", "look at its log; ask again"),
}


class Refusal(Exception):
    """One of our scripts refused. The caller turns this into its own error."""

    def __init__(self, kind: str, said: list[object]) -> None:
        super().__init__(kind, said)
        self.kind, self.said = kind, said


_OURS: dict[str, Callable[[str], Exception]] = {
    "UnknownJob": UnknownJob,
    "UnknownSlot": UnknownSlot,
    "SlotSettled": SlotSettled,
    "RevisionConflict": RevisionConflict,
    "LayoutConflict": LayoutConflict,
    "NodeExpired": NodeExpired,
    "TermLost": TermLost,
}


def refusal(message: str) -> Exception:
    """The error that one of our scripts raised."""
    [kind, *said], _ = json.JSONDecoder().raw_decode(message, len(REFUSED))
    if kind in _OURS:
        return _OURS[kind](said[0])
    if kind == "WindowStale":
        return WindowStale(said[0], watermark=int(said[1]), now=int(said[2]))
    if kind == "KeyConflict":
        return KeyConflict(f"key {said[1]!r}: {said[0]}")
    if kind == "DependencyCycle":
        return cycle_error(said[0])
    return Refusal(kind, said)


def is_broken(error: BaseException) -> bool:
    """Whether the state of the connection is unknown: it is ended, and never lent again."""
    return not isinstance(error, exceptions.ResponseError)


def translate(error: Exception, shown: str) -> Exception:
    """Our error for one of the server's: what was expected, what came, what to do. Any other stays what it is."""
    if isinstance(error, exceptions.ResponseError | exceptions.AuthenticationError | exceptions.BusyLoadingError):
        text = str(error)
        if text.startswith(REFUSED):
            return refusal(text)
        return _of_the_server(error, text, shown)
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreUnavailable(f"{shown}: expected an answer in time, got none; look at server and network; ask again")
    if isinstance(error, exceptions.RedisError | OSError):
        return StoreUnavailable(
            f"{shown}: expected a server that answers, got {type(error).__name__}: {error}; "
            "look whether it runs and can be reached; ask again"
        )
    if isinstance(error, UnicodeEncodeError):
        return StoreUnusable(f"{shown}: expected text that can be written as UTF-8, got {error}; leave that out")
    return error


_CLASSES = {
    exceptions.NoPermissionError: "NOPERM",
    exceptions.AuthenticationError: "WRONGPASS",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.BusyLoadingError: "LOADING",
}
"""The library takes the first word away from some errors, and gives them classes instead."""


def _of_the_server(error: Exception, text: str, shown: str) -> Exception:
    word = next((name for kind, name in _CLASSES.items() if isinstance(error, kind)), text.partition(" ")[0])
    kind: type[StoreUnavailable] | type[StoreUnusable] = StoreUnavailable
    if word in _MAY_PASS:
        came, todo = _MAY_PASS[word]
    else:
        kind = StoreUnusable
        came, todo = _WILL_NOT.get(word, ("it refused", "if nobody changed its keys, report this as a bug"))
    return kind(f"{shown}: expected a server that reads and writes, but {came} ({text[:300]}); {todo}")
